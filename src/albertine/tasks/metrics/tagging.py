"""Metrics of tagging: accuracy of words, and precision, recall and F1 of entities as CoNLL computes them."""

from collections.abc import Sequence

_INSIDE_PREFIXES, _END_PREFIXES = frozenset("IEL"), frozenset("ELSU")
_ENTITY_PREFIXES = frozenset("BIELSU")


def tagging_metrics(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return the accuracy of words; if tags are B-X, I-X and O, also metrics of entities, as CoNLL does."""
    flat_labels, flat_predictions = ([tag for tags in one for tag in tags] for one in (labels, predictions))
    num_correct = sum(a == b for a, b in zip(flat_labels, flat_predictions, strict=True))
    metrics = {"accuracy": num_correct / max(1, len(flat_labels))}
    if any(tag[1:2] == "-" and tag[0] in _ENTITY_PREFIXES for tag in flat_labels):
        true_entities = {(at, *one) for at, tags in enumerate(labels) for one in tag_entities(tags)}
        predicted_entities = {(at, *one) for at, tags in enumerate(predictions) for one in tag_entities(tags)}
        num_shared = len(true_entities & predicted_entities)
        metrics = {
            "f1": 2 * num_shared / (len(true_entities) + len(predicted_entities))
            if true_entities or predicted_entities
            else 0.0,
            "precision": num_shared / len(predicted_entities) if predicted_entities else 0.0,
            "recall": num_shared / len(true_entities) if true_entities else 0.0,
            **metrics,
        }
    return metrics


def tag_entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return start, end and name of each entity; an I- tag without a beginning starts an entity.

    Beside B- (begin) and I- (inside), E- and L- end an entity, and S- and U- are an entity of one word.
    """
    found: list[tuple[int, int, str]] = []
    start, name = 0, ""
    for at, tag in enumerate([*tags, "O"]):
        prefix, _, entity_type = tag.partition("-")
        continues = prefix in _INSIDE_PREFIXES and entity_type == name and bool(name)
        if name and not continues:
            found.append((start, at, name))
            name = ""
        if prefix in _ENTITY_PREFIXES and entity_type and not continues:
            start, name = at, entity_type
        if prefix in _END_PREFIXES and name:
            found.append((start, at + 1, name))
            name = ""
    return found
