"""The nine tasks of GLUE: what makes an example of each, and the columns that its files have."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from albertine.world.english import acceptability, opinions, winograd
from albertine.world.english.grammar import capital
from albertine.world.stories import Story, make_story, make_story_of_any_length
from albertine.world.tasks import inference, pairs

_YES_NO = ("0", "1")
_ENTAILMENT_LABELS = ("entailment", "not_entailment")
_STORY_GENRES = ("household", "journey", "market", "letters", "mystery")
_MATCHED_GENRES = ("household", "market", "letters", "mystery")
_MISMATCHED_GENRES = ("journey", "report")
_MAX_ATTEMPTS = 20_000  # in a row without an example: never seen, but better than for ever


class GlueExample(NamedTuple):
    """The texts of one example, its gold label, and where it comes from."""

    texts: tuple[str, ...]
    label: str
    source: str  # the genre of the story, or the construction of the sentence
    origin: Any  # what a test needs to find the label again


ExampleMaker = Callable[[int, str, int], GlueExample | None]


def _random(seed: int, stream: str, number: int) -> Callable[[], float]:
    return Random(f"{seed} {stream} {number} example").random


def _story(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> tuple[Story, Callable[[], float]]:
    return make_story(seed, stream, number, genres), _random(seed, stream, number)


def _cola(seed: int, stream: str, number: int) -> GlueExample:
    made = acceptability.make_acceptability_example(_random(seed, stream, number))
    return GlueExample((made.sentence,), str(int(made.acceptable)), made.phenomenon, made)


def _sst(seed: int, stream: str, number: int) -> GlueExample:
    made = opinions.make_opinion(_random(seed, stream, number))
    return GlueExample((capital(made.sentence) + ".",), str(int(made.is_positive)), "opinion", made)


def _wnli(seed: int, stream: str, number: int) -> GlueExample:
    made = winograd.make_winograd_example(_random(seed, stream, number))
    return GlueExample((made.sentence, made.claim), str(int(made.is_true)), made.schema, made)


def _pair_example(
    seed: int,
    stream: str,
    number: int,
    genres: tuple[str, ...],
    make: Callable[[Story, Callable[[], float], bool], pairs.LabelledTextPair | None],
    labels: tuple[str, str],
) -> GlueExample | None:
    """Make a pair whose label is drawn before any story is, from the first story that allows it."""
    random = _random(seed, stream, number)
    same = random() < 0.5
    for turn in range(_MAX_ATTEMPTS):
        tale = make_story_of_any_length(seed, f"{stream} {number}", turn, genres)
        made = make(tale, random, same)
        if made is not None:
            return GlueExample((made.first, made.second), labels[same], tale.genre, made)
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
    tale, random = _story(seed, stream, number, _STORY_GENRES)
    made = pairs.similarity_pair(tale, random)
    return made and GlueExample((made.first, made.second), f"{made.score:.3f}", tale.genre, made)


def _inference_example(
    seed: int,
    stream: str,
    number: int,
    genres: tuple[str, ...],
    label: str,
    claim_family: str,
    size: tuple[int, int],
) -> GlueExample | None:
    """Make an example of inference; genre and polarity are drawn apart from the label and the family."""
    random = Random(f"{seed} {stream} {number} kind").random
    fit = [genre for genre in inference.GENRES_BY_FAMILY[claim_family] if genre in genres]
    genre = fit[int(random() * len(fit))]
    affirmed = random() < 0.5
    for turn in range(_MAX_ATTEMPTS):
        tale = make_story_of_any_length(seed, f"{stream} {number}", turn, (genre,))
        made = inference.make_inference_example(tale, random, label, claim_family, affirmed, *size)
        if made is not None:
            return GlueExample((made.premise, made.hypothesis), label, tale.genre, made)
    return None


def _mnli_maker(genres: tuple[str, ...]) -> ExampleMaker:
    def make(seed: int, stream: str, number: int) -> GlueExample | None:
        random = _random(seed, stream, number)
        label = _MNLI_LABELS[int(random() * 3)]
        family = _CLAIM_FAMILIES[int(random() * len(_CLAIM_FAMILIES))]
        return _inference_example(seed, stream, number, genres, label, family, (3, 6))

    return make


_MNLI_LABELS = (inference.ENTAILMENT, inference.NEUTRAL, inference.CONTRADICTION)
_CLAIM_FAMILIES = ("place", "holder", "spot", "stock", "condition", "order")
_mnli, _mnli_mm = _mnli_maker(_MATCHED_GENRES), _mnli_maker(_MISMATCHED_GENRES)


def _rte(seed: int, stream: str, number: int) -> GlueExample | None:
    """Make an example whose premise is longer, and of two labels: it follows, or it does not."""
    random = _random(seed, stream, number)
    follows = random() < 0.5
    family = (*_CLAIM_FAMILIES, "direction")[int(random() * 7)]
    refuted = random() < 0.5 or family == "direction"  # where a place stands is never left open
    label = inference.ENTAILMENT if follows else inference.CONTRADICTION if refuted else inference.NEUTRAL
    made = _inference_example(seed, stream, number, (*_STORY_GENRES, "place"), label, family, (6, 11))
    return made and made._replace(label=_ENTAILMENT_LABELS[not follows])


class GlueSplit(NamedTuple):
    """One file of a task: its name, which size it has, and what makes its examples."""

    file: str
    partition: str  # train, dev or test
    make: ExampleMaker


class GlueTaskSpec(NamedTuple):
    """A task: its folder, its files, its columns, and how it is scored."""

    name: str
    splits: tuple[GlueSplit, ...]
    text_columns: tuple[str, ...]  # the columns of its texts
    labels: tuple[str, ...]  # empty if it is a number
    metric: str


def _task(
    name: str, make: ExampleMaker, texts: tuple[str, ...], labels: tuple[str, ...], metric: str = "accuracy"
) -> GlueTaskSpec:
    return GlueTaskSpec(
        name, tuple(GlueSplit(size, size, make) for size in ("test", "dev", "train")), texts, labels, metric
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


def examples(
    task: GlueTaskSpec, split: GlueSplit, count: int, seed: int, seen: set[tuple[str, ...]]
) -> Iterator[GlueExample]:
    """Yield the examples of a file; none whose texts have been seen, which go into `seen`.

    Every file has stories of its own. Its examples do not depend on how many are asked
    for, nor on those of files that come after it.
    """
    number = made = failed_attempts = 0
    while made < count and failed_attempts < _MAX_ATTEMPTS:
        example = split.make(seed, f"{task.name} {split.file}", number)
        number += 1
        failed_attempts += 1
        if (
            example is not None and (texts := tuple(sorted(example.texts))) not in seen
        ):  # nor the other way round
            seen.add(texts)
            made += 1
            failed_attempts = 0
            yield example


def table_rows(task: GlueTaskSpec, split: GlueSplit, rows: list[GlueExample]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a file, its header first, in the columns that GLUE has."""
    layout = _LAYOUTS.get(task.name, _plain_rows)
    yield from layout(task.text_columns, split.partition, rows)


def gold_rows(rows: list[GlueExample]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a file of gold answers, laid out as a submission to GLUE is."""
    yield "index", "prediction"
    for index, row in enumerate(rows):
        yield str(index), row.label


Columns = tuple[str, ...]
_Rows = Iterator[Columns]


def _plain_rows(texts: Columns, size: str, rows: list[GlueExample]) -> _Rows:
    hidden = size == "test"
    yield ("index", *texts) if hidden else ("index", *texts, "label")
    for index, row in enumerate(rows):
        yield (str(index), *row.texts) if hidden else (str(index), *row.texts, row.label)


def _cola_rows(texts: Columns, size: str, rows: list[GlueExample]) -> _Rows:
    if size == "test":
        yield from _plain_rows(texts, size, rows)
        return
    for row in rows:
        yield row.source, row.label, "" if row.label == "1" else "*", *row.texts


def _sst_rows(texts: Columns, size: str, rows: list[GlueExample]) -> _Rows:
    if size == "test":
        yield from _plain_rows(texts, size, rows)
        return
    yield "sentence", "label"
    for row in rows:
        yield *row.texts, row.label


def _mrpc_rows(_: Columns, size: str, rows: list[GlueExample]) -> _Rows:
    yield ("index" if size == "test" else "Quality"), "#1 ID", "#2 ID", "#1 String", "#2 String"
    for index, row in enumerate(rows):
        first = str(index) if size == "test" else row.label
        yield first, str(2 * index + 1), str(2 * index + 2), *row.texts


def _stsb_rows(_: Columns, size: str, rows: list[GlueExample]) -> _Rows:
    columns = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *_SENTENCES)
    hidden = size == "test"
    yield columns if hidden else (*columns, "score")
    for index, row in enumerate(rows):
        line = (str(index), row.source, "none", "none", str(index), "none", "none", *row.texts)
        yield line if hidden else (*line, row.label)


def _qqp_rows(texts: Columns, size: str, rows: list[GlueExample]) -> _Rows:
    if size == "test":
        yield "id", *texts
        for index, row in enumerate(rows):
            yield str(index), *row.texts
        return
    yield "id", "qid1", "qid2", *texts, "is_duplicate"
    for index, row in enumerate(rows):
        yield str(index), str(2 * index + 1), str(2 * index + 2), *row.texts, row.label


def _mnli_rows(_: Columns, size: str, rows: list[GlueExample]) -> _Rows:
    """Lay out MNLI; the columns of its parses stay empty, since nothing is parsed here."""
    parses = ("sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse")
    votes = {"train": ("label1",), "dev": tuple(f"label{n}" for n in range(1, 6)), "test": ()}[size]
    labels = (*votes, "gold_label") if votes else ()
    yield "index", "promptID", "pairID", "genre", *parses, *_SENTENCES, *labels
    for index, row in enumerate(rows):
        line = (str(index), str(index), f"{index}{row.label[0]}", row.source, *("",) * 4, *row.texts)
        if size == "test":
            line = (*line[:2], str(index), *line[3:])  # the name of a pair would tell its label
        yield (*line, *(row.label,) * len(labels))


_LAYOUTS: dict[str, Callable[[Columns, str, list[GlueExample]], _Rows]] = {
    "CoLA": _cola_rows,
    "SST-2": _sst_rows,
    "MRPC": _mrpc_rows,
    "STS-B": _stsb_rows,
    "QQP": _qqp_rows,
    "MNLI": _mnli_rows,
}
