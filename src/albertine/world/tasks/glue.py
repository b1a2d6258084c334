"""The nine tasks of GLUE: what makes an example of each, and the columns that its files have."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from albertine.world.english import acceptability, opinions, twins
from albertine.world.english.grammar import capital
from albertine.world.stories import Story, story, untold
from albertine.world.tasks import inference, pairs

_YES_NO = ("0", "1")
_FOLLOWS = ("entailment", "not_entailment")
_STORIES = ("household", "journey", "market", "letters", "mystery")
_MATCHED = ("household", "market", "letters", "mystery")
_MISMATCHED = ("journey", "report")
_MOST_TRIES = 20_000  # in a row without an example: never seen, but better than for ever


class Example(NamedTuple):
    """The texts of one example, its gold label, and where it comes from."""

    texts: tuple[str, ...]
    label: str
    source: str  # the genre of the story, or the construction of the sentence
    origin: Any  # what a test needs to find the label again


Make = Callable[[int, str, int], Example | None]


def _random(seed: int, stream: str, number: int) -> Callable[[], float]:
    return Random(f"{seed} {stream} {number} example").random


def _story(seed: int, stream: str, number: int, genres: tuple[str, ...]) -> tuple[Story, Callable[[], float]]:
    return story(seed, stream, number, genres), _random(seed, stream, number)


def _cola(seed: int, stream: str, number: int) -> Example:
    made = acceptability.judged(_random(seed, stream, number))
    return Example((made.sentence,), str(int(made.acceptable)), made.phenomenon, made)


def _sst(seed: int, stream: str, number: int) -> Example:
    made = opinions.opinion(_random(seed, stream, number))
    return Example((capital(made.sentence) + ".",), str(int(made.good)), "opinion", made)


def _wnli(seed: int, stream: str, number: int) -> Example:
    made = twins.riddle(_random(seed, stream, number))
    return Example((made.sentence, made.claim), str(int(made.true)), made.schema, made)


def _pair(
    seed: int,
    stream: str,
    number: int,
    genres: tuple[str, ...],
    make: Callable[[Story, Callable[[], float], bool], pairs.Pair | None],
    labels: tuple[str, str],
) -> Example | None:
    """Make a pair whose label is drawn before any story is, from the first story that allows it."""
    random = _random(seed, stream, number)
    same = random() < 0.5
    for turn in range(_MOST_TRIES):
        tale = untold(seed, f"{stream} {number}", turn, genres)
        made = make(tale, random, same)
        if made is not None:
            return Example((made.first, made.second), labels[same], tale.genre, made)
    return None


def _mrpc(seed: int, stream: str, number: int) -> Example | None:
    return _pair(seed, stream, number, _STORIES, pairs.paraphrase, _YES_NO)


def _qqp(seed: int, stream: str, number: int) -> Example | None:
    return _pair(seed, stream, number, (*_STORIES, "place"), pairs.duplicates, _YES_NO)


def _qnli(seed: int, stream: str, number: int) -> Example | None:
    return _pair(seed, stream, number, (*_STORIES, "place"), pairs.answering, (_FOLLOWS[1], _FOLLOWS[0]))


def _stsb(seed: int, stream: str, number: int) -> Example | None:
    tale, random = _story(seed, stream, number, _STORIES)
    made = pairs.similar(tale, random)
    return made and Example((made.first, made.second), f"{made.score:.3f}", tale.genre, made)


def _inferred(
    seed: int,
    stream: str,
    number: int,
    genres: tuple[str, ...],
    label: str,
    family: str,
    size: tuple[int, int],
) -> Example | None:
    """Make an example of inference; genre and polarity are drawn apart from the label and the family."""
    random = Random(f"{seed} {stream} {number} kind").random
    fit = [genre for genre in inference.GENRES_OF[family] if genre in genres]
    genre = fit[int(random() * len(fit))]
    affirmed = random() < 0.5
    for turn in range(_MOST_TRIES):
        tale = untold(seed, f"{stream} {number}", turn, (genre,))
        made = inference.inference(tale, random, label, family, affirmed, *size)
        if made is not None:
            return Example((made.premise, made.hypothesis), label, tale.genre, made)
    return None


def _mnli_of(genres: tuple[str, ...]) -> Make:
    def make(seed: int, stream: str, number: int) -> Example | None:
        random = _random(seed, stream, number)
        label = _THREE[int(random() * 3)]
        family = _CLAIMS[int(random() * len(_CLAIMS))]
        return _inferred(seed, stream, number, genres, label, family, (3, 6))

    return make


_THREE = (inference.ENTAILMENT, inference.NEUTRAL, inference.CONTRADICTION)
_CLAIMS = ("place", "holder", "spot", "stock", "condition", "order")
_mnli, _mnli_mm = _mnli_of(_MATCHED), _mnli_of(_MISMATCHED)


def _rte(seed: int, stream: str, number: int) -> Example | None:
    """Make an example whose premise is longer, and of two labels: it follows, or it does not."""
    random = _random(seed, stream, number)
    follows = random() < 0.5
    family = (*_CLAIMS, "direction")[int(random() * 7)]
    refuted = random() < 0.5 or family == "direction"  # where a place stands is never left open
    label = inference.ENTAILMENT if follows else inference.CONTRADICTION if refuted else inference.NEUTRAL
    made = _inferred(seed, stream, number, (*_STORIES, "place"), label, family, (6, 11))
    return made and made._replace(label=_FOLLOWS[not follows])


class Split(NamedTuple):
    """One file of a task: its name, which size it has, and what makes its examples."""

    file: str
    size: str  # train, dev or test
    make: Make


class Task(NamedTuple):
    """A task: its folder, its files, its columns, and how it is scored."""

    name: str
    splits: tuple[Split, ...]
    texts: tuple[str, ...]  # the columns of its texts
    labels: tuple[str, ...]  # empty if it is a number
    metric: str


def _task(
    name: str, make: Make, texts: tuple[str, ...], labels: tuple[str, ...], metric: str = "accuracy"
) -> Task:
    return Task(
        name, tuple(Split(size, size, make) for size in ("test", "dev", "train")), texts, labels, metric
    )


_SENTENCES = ("sentence1", "sentence2")
TASKS = (
    _task("CoLA", _cola, ("sentence",), _YES_NO, "Matthews"),
    _task("SST-2", _sst, ("sentence",), _YES_NO),
    _task("MRPC", _mrpc, ("#1 String", "#2 String"), _YES_NO),
    _task("STS-B", _stsb, _SENTENCES, (), "Pearson"),
    _task("QQP", _qqp, ("question1", "question2"), _YES_NO),
    Task(
        "MNLI",
        (
            Split("test_matched", "test", _mnli),
            Split("test_mismatched", "test", _mnli_mm),
            Split("dev_matched", "dev", _mnli),
            Split("dev_mismatched", "dev", _mnli_mm),
            Split("train", "train", _mnli),
        ),
        _SENTENCES,
        _THREE,
        "accuracy",
    ),
    _task("QNLI", _qnli, ("question", "sentence"), _FOLLOWS),
    _task("RTE", _rte, _SENTENCES, _FOLLOWS),
    _task("WNLI", _wnli, _SENTENCES, _YES_NO),
)


def examples(
    task: Task, split: Split, count: int, seed: int, seen: set[tuple[str, ...]]
) -> Iterator[Example]:
    """Yield the examples of a file; none whose texts have been seen, which go into `seen`.

    Every file has stories of its own. Its examples do not depend on how many are asked
    for, nor on those of files that come after it.
    """
    number = made = idle = 0
    while made < count and idle < _MOST_TRIES:
        example = split.make(seed, f"{task.name} {split.file}", number)
        number += 1
        idle += 1
        if (
            example is not None and (texts := tuple(sorted(example.texts))) not in seen
        ):  # nor the other way round
            seen.add(texts)
            made += 1
            idle = 0
            yield example


def table(task: Task, split: Split, rows: list[Example]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a file, its header first, in the columns that GLUE has."""
    layout = _LAYOUTS.get(task.name, _plain)
    yield from layout(task.texts, split.size, rows)


def gold(rows: list[Example]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a file of gold answers, laid out as a submission to GLUE is."""
    yield "index", "prediction"
    for index, row in enumerate(rows):
        yield str(index), row.label


Columns = tuple[str, ...]
_Lines = Iterator[Columns]


def _plain(texts: Columns, size: str, rows: list[Example]) -> _Lines:
    hidden = size == "test"
    yield ("index", *texts) if hidden else ("index", *texts, "label")
    for index, row in enumerate(rows):
        yield (str(index), *row.texts) if hidden else (str(index), *row.texts, row.label)


def _cola_lines(texts: Columns, size: str, rows: list[Example]) -> _Lines:
    if size == "test":
        yield from _plain(texts, size, rows)
        return
    for row in rows:
        yield row.source, row.label, "" if row.label == "1" else "*", *row.texts


def _sst_lines(texts: Columns, size: str, rows: list[Example]) -> _Lines:
    if size == "test":
        yield from _plain(texts, size, rows)
        return
    yield "sentence", "label"
    for row in rows:
        yield *row.texts, row.label


def _mrpc_lines(_: Columns, size: str, rows: list[Example]) -> _Lines:
    yield ("index" if size == "test" else "Quality"), "#1 ID", "#2 ID", "#1 String", "#2 String"
    for index, row in enumerate(rows):
        first = str(index) if size == "test" else row.label
        yield first, str(2 * index + 1), str(2 * index + 2), *row.texts


def _stsb_lines(_: Columns, size: str, rows: list[Example]) -> _Lines:
    columns = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *_SENTENCES)
    hidden = size == "test"
    yield columns if hidden else (*columns, "score")
    for index, row in enumerate(rows):
        line = (str(index), row.source, "none", "none", str(index), "none", "none", *row.texts)
        yield line if hidden else (*line, row.label)


def _qqp_lines(texts: Columns, size: str, rows: list[Example]) -> _Lines:
    if size == "test":
        yield "id", *texts
        for index, row in enumerate(rows):
            yield str(index), *row.texts
        return
    yield "id", "qid1", "qid2", *texts, "is_duplicate"
    for index, row in enumerate(rows):
        yield str(index), str(2 * index + 1), str(2 * index + 2), *row.texts, row.label


def _mnli_lines(_: Columns, size: str, rows: list[Example]) -> _Lines:
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


_LAYOUTS: dict[str, Callable[[Columns, str, list[Example]], _Lines]] = {
    "CoLA": _cola_lines,
    "SST-2": _sst_lines,
    "MRPC": _mrpc_lines,
    "STS-B": _stsb_lines,
    "QQP": _qqp_lines,
    "MNLI": _mnli_lines,
}
