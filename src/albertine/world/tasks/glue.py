"""The nine tasks of GLUE: the generators of their examples, and the layouts of their files."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from albertine.randomness import UniformRandom
from albertine.world.english import acceptability, opinions, winograd
from albertine.world.english.grammar import capital
from albertine.world.stories import Story, make_story, make_story_of_any_length
from albertine.world.tasks import inference, pairs

_YES_NO = ("0", "1")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")
_STORY_GENRES = ("household", "journey", "market", "letters", "mystery")
_MATCHED_GENRES = ("household", "market", "letters", "mystery")
_MISMATCHED_GENRES = ("journey", "report")
_MAX_ATTEMPTS = 20_000  # failed attempts in a row before giving up, in place of an endless loop
_MNLI_LABELS = (inference.ENTAILMENT, inference.NEUTRAL, inference.CONTRADICTION)
_MNLI_CLAIM_FAMILIES = ("place", "holder", "spot", "stock", "condition", "order")
_RTE_CLAIM_FAMILIES = (*_MNLI_CLAIM_FAMILIES, "direction")


class GlueExample(NamedTuple):
    """One example of a task."""

    texts: tuple[str, ...]
    label: str  # as in the file; a number for STS-B
    category: str  # phenomenon for CoLA, "opinion" for SST-2, schema for WNLI, else genre of the story
    generated: Any  # what the generator returned, with the events or claims of which the label follows


# Returns an example for a seed, the name of a stream and the number of the example in the stream, or None.
ExampleMaker = Callable[[int, str, int], GlueExample | None]


def _random_function(seed: int, stream: str, number: int) -> UniformRandom:
    """Return a function that draws from [0, 1), always the same numbers for one example."""
    return Random(f"{seed} {stream} {number} example").random


def _cola(seed: int, stream: str, number: int) -> GlueExample:
    result = acceptability.make_acceptability_example(_random_function(seed, stream, number))
    return GlueExample((result.sentence,), str(int(result.acceptable)), result.phenomenon, result)


def _sst(seed: int, stream: str, number: int) -> GlueExample:
    result = opinions.make_opinion(_random_function(seed, stream, number))
    return GlueExample((capital(result.sentence) + ".",), str(int(result.is_positive)), "opinion", result)


def _wnli(seed: int, stream: str, number: int) -> GlueExample:
    result = winograd.make_winograd_example(_random_function(seed, stream, number))
    return GlueExample((result.sentence, result.claim), str(int(result.is_true)), result.schema, result)


def _pair_example(
    seed: int,
    stream: str,
    number: int,
    genres: tuple[str, ...],
    make_pair: Callable[[Story, UniformRandom, bool], pairs.LabelledTextPair | None],
    labels: tuple[str, str],  # negative, positive
) -> GlueExample | None:
    """Return a pair with a random label, made from the first story that gives one; None if none does."""
    random = _random_function(seed, stream, number)
    is_positive = random() < 0.5
    for attempt in range(_MAX_ATTEMPTS):
        story = make_story_of_any_length(seed, f"{stream} {number}", attempt, genres)
        result = make_pair(story, random, is_positive)
        if result is not None:
            return GlueExample((result.first, result.second), labels[is_positive], story.genre, result)
    return None


def _mrpc(seed: int, stream: str, number: int) -> GlueExample | None:
    return _pair_example(seed, stream, number, _STORY_GENRES, pairs.paraphrase_pair, _YES_NO)


def _qqp(seed: int, stream: str, number: int) -> GlueExample | None:
    return _pair_example(seed, stream, number, (*_STORY_GENRES, "place"), pairs.duplicate_pair, _YES_NO)


def _qnli(seed: int, stream: str, number: int) -> GlueExample | None:
    return _pair_example(
        seed,
        stream,
        number,
        (*_STORY_GENRES, "place"),
        pairs.question_sentence_pair,
        (_ENTAILMENT_LABELS[1], _ENTAILMENT_LABELS[0]),
    )


def _stsb(seed: int, stream: str, number: int) -> GlueExample | None:
    story = make_story(seed, stream, number, _STORY_GENRES)
    result = pairs.similarity_pair(story, _random_function(seed, stream, number))
    return result and GlueExample((result.first, result.second), f"{result.score:.3f}", story.genre, result)


def _inference_example(
    seed: int,
    stream: str,
    number: int,
    genres: tuple[str, ...],
    label: str,
    claim_family: str,
    event_range: tuple[int, int],
) -> GlueExample | None:
    """Return an example with the given label and claim family; None if no story gives one.

    Genre and polarity are drawn without regard to the label, so that they do not predict it.

    Args:
        seed: seed of the world.
        stream: name of the stream of stories.
        number: number of the example in the stream.
        genres: genres of the file.
        label: one of `_MNLI_LABELS`.
        claim_family: a key of `inference.CLAIM_FAMILIES`.
        event_range: minimum and maximum number of events in the premise.
    """
    random = Random(f"{seed} {stream} {number} kind").random
    usable_genres = [genre for genre in inference.GENRES_BY_FAMILY[claim_family] if genre in genres]
    genre = usable_genres[int(random() * len(usable_genres))]
    affirmed = random() < 0.5
    for attempt in range(_MAX_ATTEMPTS):
        story = make_story_of_any_length(seed, f"{stream} {number}", attempt, (genre,))
        result = inference.make_inference_example(story, random, label, claim_family, affirmed, *event_range)
        if result is not None:
            return GlueExample((result.premise, result.hypothesis), label, story.genre, result)
    return None


def _mnli_maker(genres: tuple[str, ...]) -> ExampleMaker:
    def make(seed: int, stream: str, number: int) -> GlueExample | None:
        random = _random_function(seed, stream, number)
        label = _MNLI_LABELS[int(random() * 3)]
        family = _MNLI_CLAIM_FAMILIES[int(random() * len(_MNLI_CLAIM_FAMILIES))]
        return _inference_example(seed, stream, number, genres, label, family, (3, 6))

    return make


_mnli, _mnli_mm = _mnli_maker(_MATCHED_GENRES), _mnli_maker(_MISMATCHED_GENRES)


def _rte(seed: int, stream: str, number: int) -> GlueExample | None:
    """Return an example with a longer premise than in MNLI and two labels."""
    random = _random_function(seed, stream, number)
    follows = random() < 0.5
    family = _RTE_CLAIM_FAMILIES[int(random() * len(_RTE_CLAIM_FAMILIES))]
    if follows:
        label = inference.ENTAILMENT
    elif random() < 0.5 or family == "direction":  # a claim about a direction is never neutral
        label = inference.CONTRADICTION
    else:
        label = inference.NEUTRAL
    example = _inference_example(seed, stream, number, (*_STORY_GENRES, "place"), label, family, (6, 11))
    return example and example._replace(label=_ENTAILMENT_LABELS[not follows])


class GlueSplit(NamedTuple):
    """One file of a task."""

    file: str  # name without suffix, as in dev_matched
    partition: str  # train, dev or test; MNLI has two files for dev and two for test
    make: ExampleMaker


class GlueTaskSpec(NamedTuple):
    """A task: its folder, files, text columns, labels and metric."""

    name: str  # also of the folder
    splits: tuple[GlueSplit, ...]  # in the order in which they are written
    text_columns: tuple[str, ...]
    labels: tuple[str, ...]  # empty for regression
    metric: str


def _task(
    name: str,
    make: ExampleMaker,
    text_columns: tuple[str, ...],
    labels: tuple[str, ...],
    metric: str = "accuracy",
) -> GlueTaskSpec:
    return GlueTaskSpec(
        name,
        # In the order of writing. Texts of earlier files are not used again, so with train at the end the
        # held-out files do not depend on the size of train.
        tuple(GlueSplit(partition, partition, make) for partition in ("test", "dev", "train")),
        text_columns,
        labels,
        metric,
    )


_SENTENCES = ("sentence1", "sentence2")
TASKS = (
    _task("CoLA", _cola, ("sentence",), _YES_NO, "Matthews"),
    _task("SST-2", _sst, ("sentence",), _YES_NO),
    _task("MRPC", _mrpc, ("#1 String", "#2 String"), _YES_NO),
    _task("STS-B", _stsb, _SENTENCES, (), "Pearson"),
    _task("QQP", _qqp, ("question1", "question2"), _YES_NO),
    GlueTaskSpec(
        "MNLI",
        (
            GlueSplit("test_matched", "test", _mnli),
            GlueSplit("test_mismatched", "test", _mnli_mm),
            GlueSplit("dev_matched", "dev", _mnli),
            GlueSplit("dev_mismatched", "dev", _mnli_mm),
            GlueSplit("train", "train", _mnli),
        ),
        _SENTENCES,
        _MNLI_LABELS,
        "accuracy",
    ),
    _task("QNLI", _qnli, ("question", "sentence"), _ENTAILMENT_LABELS),
    _task("RTE", _rte, _SENTENCES, _ENTAILMENT_LABELS),
    _task("WNLI", _wnli, _SENTENCES, _YES_NO),
)


def make_examples(
    task: GlueTaskSpec, split: GlueSplit, count: int, seed: int, seen: set[tuple[str, ...]]
) -> Iterator[GlueExample]:
    """Yield up to `count` examples of a file whose texts are not in `seen`, and add their texts to `seen`.

    There are fewer only if the generator gives nothing new for `_MAX_ATTEMPTS` numbers in a row.
    Every file has its own stream of stories. So its examples, in their order, depend on the seed
    and on the texts in `seen`, which are those of files written before; a larger `count` only
    appends examples.
    """
    number = num_made = failed_attempts = 0
    while num_made < count and failed_attempts < _MAX_ATTEMPTS:
        example = split.make(seed, f"{task.name} {split.file}", number)
        number += 1
        failed_attempts += 1
        # Sorted, because a pair in reverse order counts as the same texts.
        if example is not None and (texts := tuple(sorted(example.texts))) not in seen:
            seen.add(texts)
            num_made += 1
            failed_attempts = 0
            yield example


def table_rows(
    task: GlueTaskSpec, split: GlueSplit, examples: list[GlueExample]
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a file in the layout of GLUE, header first if the file has one."""
    layout = _LAYOUTS.get(task.name, _plain_rows)
    yield from layout(task.text_columns, split.partition, examples)


def gold_rows(examples: list[GlueExample]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a file of gold answers, in the format of a GLUE submission."""
    yield "index", "prediction"
    for index, example in enumerate(examples):
        yield str(index), example.label


_Row = tuple[str, ...]
_Rows = Iterator[_Row]


def _plain_rows(text_columns: _Row, partition: str, examples: list[GlueExample]) -> _Rows:
    is_test = partition == "test"
    yield ("index", *text_columns) if is_test else ("index", *text_columns, "label")
    for index, example in enumerate(examples):
        yield (str(index), *example.texts) if is_test else (str(index), *example.texts, example.label)


def _cola_rows(text_columns: _Row, partition: str, examples: list[GlueExample]) -> _Rows:
    if partition == "test":
        yield from _plain_rows(text_columns, partition, examples)
        return
    for example in examples:
        yield example.category, example.label, "" if example.label == "1" else "*", *example.texts


def _sst_rows(text_columns: _Row, partition: str, examples: list[GlueExample]) -> _Rows:
    if partition == "test":
        yield from _plain_rows(text_columns, partition, examples)
        return
    yield "sentence", "label"
    for example in examples:
        yield *example.texts, example.label


def _mrpc_rows(_: _Row, partition: str, examples: list[GlueExample]) -> _Rows:
    yield ("index" if partition == "test" else "Quality"), "#1 ID", "#2 ID", "#1 String", "#2 String"
    for index, example in enumerate(examples):
        first = str(index) if partition == "test" else example.label
        yield first, str(2 * index + 1), str(2 * index + 2), *example.texts


def _stsb_rows(_: _Row, partition: str, examples: list[GlueExample]) -> _Rows:
    columns = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *_SENTENCES)
    is_test = partition == "test"
    yield columns if is_test else (*columns, "score")
    for index, example in enumerate(examples):
        line = (str(index), example.category, "none", "none", str(index), "none", "none", *example.texts)
        yield line if is_test else (*line, example.label)


def _qqp_rows(text_columns: _Row, partition: str, examples: list[GlueExample]) -> _Rows:
    if partition == "test":
        yield "id", *text_columns
        for index, example in enumerate(examples):
            yield str(index), *example.texts
        return
    yield "id", "qid1", "qid2", *text_columns, "is_duplicate"
    for index, example in enumerate(examples):
        yield str(index), str(2 * index + 1), str(2 * index + 2), *example.texts, example.label


def _mnli_rows(_: _Row, partition: str, examples: list[GlueExample]) -> _Rows:
    """Yield the rows of a file of MNLI; the columns for parses are empty."""
    parses = ("sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse")
    annotators = {"train": 1, "dev": 5, "test": 0}[partition]
    labels = (*(f"label{number + 1}" for number in range(annotators)), "gold_label") if annotators else ()
    yield "index", "promptID", "pairID", "genre", *parses, *_SENTENCES, *labels
    for index, example in enumerate(examples):
        line = (
            str(index),
            str(index),
            f"{index}{example.label[0]}",
            example.category,
            *("",) * 4,
            *example.texts,
        )
        if partition == "test":
            line = (*line[:2], str(index), *line[3:])  # the pairID above contains a letter of the label
        yield (*line, *(example.label,) * len(labels))


_LAYOUTS: dict[str, Callable[[_Row, str, list[GlueExample]], _Rows]] = {
    "CoLA": _cola_rows,
    "SST-2": _sst_rows,
    "MRPC": _mrpc_rows,
    "STS-B": _stsb_rows,
    "QQP": _qqp_rows,
    "MNLI": _mnli_rows,
}
