"""The report of a pre-training run: what was trained, how it went, what it knows, and how to go on."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.model.parameters import bert_of_same_shape, count_parameters
from albertine.pretrain.guess import Guesser, guesser
from albertine.pretrain.settings import PretrainSettings
from albertine.report import held_out
from albertine.report.curves import Learner, learning
from albertine.report.examples import filled, ordered
from albertine.report.inside import Shown, movement, parameters
from albertine.report.page import Page, Section, commands, side_by_side, table, text
from albertine.report.picture import kind_of, picture
from albertine.settings import ModelSettings, read, write
from albertine.train.folder import settings_of
from albertine.train.journal import HELD_OUT, Line, points, read_journal

ANSWERS = {
    "sop": "hidden pieces, and their order",
    "nsp": "hidden pieces, and what belongs together",
    "none": "hidden pieces",
}
_EXAMPLES = 4
_SEED = 0  # of what is asked


def pretrained(run: Path) -> Page:
    """Lay out a run, under way or done."""
    settings, lines = read(PretrainSettings, settings_of(run)), read_journal(run)
    if not any("tokens" in line for line in lines):
        raise InputError(f"{run}: has taken no step yet; there is nothing to report")
    guess, pair = guesser(run), settings.objective.pair
    model = guess.model.model
    went = [side_by_side(learning([Learner("", run, 1)], pair)), _events(lines)]
    told = (line for line in write(settings).splitlines() if not line.startswith("#"))
    sections = [
        Section("The network", what_it_is(model, ANSWERS[pair])),
        Section("How it learned", went),
        *_knows(guess, _corpus(settings, guess), pair),
        Section("The settings", [commands(*told)]),
        Section("What to do next", [_next(run)]),
    ]
    return Page(run.resolve().name, _summary(settings, lines), _facts(model, lines), sections)


def _corpus(settings: PretrainSettings, guess: Guesser) -> Corpus | None:
    """Return the corpus of a run, if it is still there, with held-out documents in the same pieces."""
    try:
        corpus = Corpus(settings.corpus) if settings.corpus else None
    except InputError:
        return None
    if corpus is None or corpus.tokenizer.fingerprint != guess.tokenizer.fingerprint:
        return None
    return corpus if held_out.can_be_asked(corpus, guess) else None


def what_it_is(model: ModelSettings, answers: str) -> list[str]:
    """Picture a network, and count it beside the BERT of its shape."""
    bert, name = bert_of_same_shape(model), kind_of(model)
    drawn = picture(model, name, answers)
    if bert == model:
        return [drawn]
    networks = [Shown("this one", model, 1), Shown("BERT of its shape", bert, 2)]
    return [side_by_side([drawn, parameters(networks)])]


def _facts(model: ModelSettings, lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Return the numbers that stand at the top."""
    steps = [line for line in lines if "tokens" in line]
    found = [
        ("parameters of the encoder", f"{count_parameters(model).encoder:,}"),
        ("tokens seen", f"{steps[-1]['tokens'] / 1e6:,.1f}M"),
        ("of training", progress.duration(steps[-1]["seconds"])),
    ]
    losses, right = (points(lines, f"{HELD_OUT}{name}") for name in ("mlm_loss", "pair_accuracy"))
    if losses:
        found.append(("loss on hidden pieces, held out", f"{losses[-1][1]:.3f}"))
    if right:
        found.append(("pairs right, held out", f"{right[-1][1]:.1%}"))
    return found


def _knows(guess: Guesser, corpus: Corpus | None, pair: str) -> list[Section]:
    """Ask a model about held-out text; nothing, where there is none."""
    if corpus is None:
        return []
    layers = Shown("", guess.model.model, 1, held_out.followed(guess, corpus, _SEED))
    return [
        gaps(guess, corpus, _EXAMPLES, _SEED),
        *([orders(guess, corpus, _EXAMPLES, _SEED + 1)] if pair == "sop" else []),
        Section("What the layers do", [side_by_side(movement([layers]))]),
    ]


def gaps(guess: Guesser, corpus: Corpus, count: int, seed: int) -> Section:
    """Show what a model puts in gaps."""
    said = "From text that it never saw, one word hidden: its first guesses, and how likely it finds each."
    found = held_out.to_fill(guess, corpus, count, seed)
    return Section("What it puts in a gap", [text(said), side_by_side(map(filled, found))] if found else [])


def orders(guess: Guesser, corpus: Corpus, count: int, seed: int) -> Section:
    """Show how sure a model is of the order of segments."""
    said = "Two segments in the order of the text: the chance that it gives this order, asked both ways."
    found = held_out.to_order(guess, corpus, count, seed)
    return Section("Which comes first", [text(said), side_by_side(map(ordered, found))] if found else [])


def _summary(settings: PretrainSettings, lines: Sequence[Line]) -> str:
    model, train = settings.model, settings.train
    taken = max(line["step"] for line in lines)
    how_far = "" if taken >= train.steps else f" It has taken {taken:,} of {train.steps:,} steps."
    return (
        f"A pre-training run: {model.layers} layers of width {model.hidden_size} ({kind_of(model)}), "
        f"objective {settings.objective.pair}, {train.optimizer} at {train.lr:g}, "
        f"{train.batch_tokens:,} tokens a step.{how_far}"
    )


def _events(lines: Sequence[Line]) -> str:
    told = [(f"{line['step']:,}", str(line["event"])) for line in lines if "event" in line]
    return table(("step", "what happened"), told, prose=True) if told else ""


def _next(run: Path) -> str:
    name = shlex.quote(str(run))
    return commands(
        f'albertine fill {name} "The old [MASK] was locked."',
        f"albertine finetune {name} --task classify --data reviews.csv --label stars --out judge",
        "albertine predict judge --data new.csv --out answers.csv",
    )
