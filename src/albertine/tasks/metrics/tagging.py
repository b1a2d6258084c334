"""Metrics of tagging: accuracy per word, and precision, recall and F1 of entities, as CoNLL computes them."""

from collections.abc import Iterable, Sequence

_INSIDE_PREFIXES, _END_PREFIXES = frozenset("IEL"), frozenset("ELSU")
_ENTITY_PREFIXES = frozenset("BIELSU")


def tagging_metrics(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]], tag_set: Iterable[str] = ()
) -> dict[str, float]:
    """Return the accuracy per word and, if there are tags such as B-X and I-X, metrics of entities.

    Where there is no entity to find and none is found, nothing is wrong: the metrics are 1.

    Args:
        labels: tags of the words of each sentence.
        predictions: predicted tags of the words of each sentence.
        tag_set: all tags of the model; the labels may have only some of them.
    """
    flat_labels = [tag for tags in labels for tag in tags]
    flat_predictions = [tag for tags in predictions for tag in tags]
    num_correct = sum(a == b for a, b in zip(flat_labels, flat_predictions, strict=True))
    metrics = {"accuracy": num_correct / max(1, len(flat_labels))}
    if marks_entities((*tag_set, *flat_labels)):
        true_entities, predicted_entities = _all_entities(labels), _all_entities(predictions)
        num_correct_entities = len(true_entities & predicted_entities)
        total = len(true_entities) + len(predicted_entities)
        without_entities = float(total == 0)
        metrics = {
            "f1": _ratio(2 * num_correct_entities, total, without_entities),
            "precision": _ratio(num_correct_entities, len(predicted_entities), without_entities),
            "recall": _ratio(num_correct_entities, len(true_entities), without_entities),
            **metrics,
        }
    return metrics


def _ratio(numerator: int, denominator: int, if_empty: float) -> float:
    return numerator / denominator if denominator else if_empty


def marks_entities(tags: Iterable[str]) -> bool:
    """Return whether there are tags such as B-PER and I-PER; O and a bare B- mark no entity."""
    return any(entity_type(tag) != tag for tag in tags)


def _all_entities(sentences: Sequence[Sequence[str]]) -> set[tuple[int, int, int, str]]:
    """Return sentence, start, end and type of each entity."""
    return {(index, *entity) for index, tags in enumerate(sentences) for entity in tag_entities(tags)}


def tag_entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return start, end and type of each entity.

    B- begins an entity; I- continues an entity of its type or, if there is none, begins one. E- and L- end
    an entity; S- and U- are an entity of one word.
    """
    entities: list[tuple[int, int, str]] = []
    start, open_type = 0, ""  # type of the entity that has not ended yet; empty if there is none
    for index, tag in enumerate([*tags, "O"]):
        prefix, _, marked_type = tag.partition("-")
        continues = prefix in _INSIDE_PREFIXES and marked_type == open_type and bool(open_type)
        if open_type and not continues:
            entities.append((start, index, open_type))
            open_type = ""
        if prefix in _ENTITY_PREFIXES and marked_type and not continues:
            start, open_type = index, marked_type
        if prefix in _END_PREFIXES and open_type:
            entities.append((start, index + 1, open_type))
            open_type = ""
    return entities


def entity_type(tag: str) -> str:
    """Return the type of the entity that a tag marks, such as PER for B-PER; else the tag itself."""
    prefix, separator, entity = tag.partition("-")
    return entity if separator and entity and prefix in _ENTITY_PREFIXES else tag
