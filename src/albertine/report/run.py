"""The report of one run: what was trained, how it went, what it knows, and how to go on."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.interop.huggingface import CARD
from albertine.interop.load import load_checkpoint
from albertine.model.parameters import bert_of_same_shape, count_parameters
from albertine.pretrain.guess import Guesser, guesser
from albertine.pretrain.settings import PretrainSettings
from albertine.report import held_out
from albertine.report.curves import Learner, learning, tuning
from albertine.report.examples import filled, ordered
from albertine.report.inside import Shown, movement, parameters
from albertine.report.page import Page, Section, commands, side_by_side, table, text
from albertine.report.picture import picture
from albertine.settings import ModelSettings, read, write
from albertine.tasks.finetune import RESULTS
from albertine.train.folder import settings_of
from albertine.train.journal import JOURNAL, read_journal

REPORT = "report.html"
_EXAMPLES = 4


def report(run: Path) -> Path:
    """Write the report of a run into its folder."""
    if not (run / CARD).exists() and not (run / JOURNAL).exists():
        raise InputError(f"{run}: no run; a report tells of what albertine pretrain or finetune made")
    page = _tuned(run) if (run / CARD).exists() else _pretrained(run)
    page.write(run / REPORT)
    progress.say(f"{run / REPORT}: open it in a browser")
    return run / REPORT


def _pretrained(run: Path) -> Page:
    settings, lines = read(PretrainSettings, settings_of(run)), read_journal(run)
    if not any("tokens" in line for line in lines):
        raise InputError(f"{run}: has taken no step yet; there is nothing to report")
    guess, corpus = guesser(run), _corpus(settings)
    model = guess.model.model
    name = run.resolve().name
    sections = [
        Section("The network", what_it_is(model)),
        Section("How it learned", [side_by_side(learning([Learner(name, run, 1)])), _events(lines)]),
    ]
    if corpus is not None:
        sections += knows(guess, corpus, name)
    sections.append(
        Section(
            "The settings",
            [commands(*(line for line in write(settings).splitlines() if not line.startswith("#")))],
        )
    )
    sections.append(Section("What to do next", [next_commands(run)]))
    return Page(name, _summary(settings, lines), facts_of(model, lines), sections)


def _corpus(settings: PretrainSettings) -> Corpus | None:
    """Return the corpus of a run, if it is still there and has held-out documents."""
    try:
        corpus = Corpus(settings.corpus) if settings.corpus else None
    except InputError:
        return None
    return corpus if corpus is not None and corpus.manifest.documents["dev"] else None


def what_it_is(model: ModelSettings) -> list[str]:
    """Picture a network, and count it beside the BERT of its shape."""
    bert = bert_of_same_shape(model)
    if bert == model:
        return [picture(model, "BERT: every layer has weights of its own")]
    mine, theirs = Shown("ALBERT", model, 1), Shown("BERT of its shape", bert, 2)
    return [side_by_side([picture(model, "From pieces to both objectives"), parameters([mine, theirs])])]


def facts_of(model: ModelSettings, lines: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the numbers that stand at the top of a run's report."""
    steps = [line for line in lines if "tokens" in line]
    measured = [line for line in lines if "held_out_mlm_loss" in line]
    found = [
        ("parameters of the encoder", f"{count_parameters(model).encoder:,}"),
        ("tokens seen", f"{steps[-1]['tokens'] / 1e6:,.1f}M"),
        ("of training", progress.duration(steps[-1]["seconds"])),
    ]
    if measured:
        found.append(("loss on hidden pieces, held out", f"{measured[-1]['held_out_mlm_loss']:.3f}"))
        if "held_out_pair_accuracy" in measured[-1]:
            found.append(("pairs right, held out", f"{measured[-1]['held_out_pair_accuracy']:.1%}"))
    return found


def knows(guess: Guesser, corpus: Corpus, name: str) -> list[Section]:
    """Ask a model about held-out text."""
    seed = 0
    layers = Shown(name, guess.model.model, 1, held_out.followed(guess, corpus, seed))
    return [
        Section(
            "What it puts in a gap",
            [
                text("Text that it never saw, one word hidden: its guesses, and how likely it finds each."),
                side_by_side([filled([one]) for one in held_out.to_fill(guess, corpus, _EXAMPLES, seed)]),
            ],
        ),
        Section(
            "Which comes first",
            [
                text("Two segments of the text: the chance that it gives each order."),
                side_by_side(
                    [ordered([one]) for one in held_out.to_order(guess, corpus, _EXAMPLES, seed + 1)]
                ),
            ]
            if guess.orders
            else [],
        ),
        Section("What the layers do", [side_by_side(movement([layers]))]),
    ]


def _summary(settings: PretrainSettings, lines: Sequence[dict[str, Any]]) -> str:
    model, train = settings.model, settings.train
    taken = max(line["step"] for line in lines)
    how_far = "" if taken >= train.steps else f" So far it has taken {taken:,} of {train.steps:,} steps."
    kind = "ALBERT" if model.share == "all" else "BERT" if model.share == "none" else f"sharing {model.share}"
    return (
        f"A pre-training run: {model.layers} layers of width {model.hidden_size} ({kind}), "
        f"objective {settings.objective.pair}, {train.optimizer} at {train.lr:g}, "
        f"{train.batch_tokens:,} tokens a step.{how_far}"
    )


def _events(lines: Sequence[dict[str, Any]]) -> str:
    told = [(f"{line['step']:,}", str(line["event"])) for line in lines if "event" in line]
    return table(("step", "what happened"), told) if told else ""


def next_commands(run: Path) -> str:
    """Return what one may do with a pre-trained run."""
    name = shlex.quote(str(run))
    return commands(
        f'albertine fill {name} "The old [MASK] was locked."',
        f"albertine finetune {name} --task classify --data reviews.csv --label stars --out judge",
        "albertine predict judge --data new.csv --out answers.csv",
    )


def _tuned(run: Path) -> Page:
    card = json.loads((run / CARD).read_text(encoding="utf-8"))
    results = json.loads((run / RESULTS).read_text(encoding="utf-8")) if (run / RESULTS).exists() else None
    if results is None:
        raise InputError(f"{run}: is not finished (no {RESULTS}); run the same albertine finetune again")
    task, model = results["task"], load_checkpoint(run).model
    best = run / results["best"]
    facts = [
        (name, _percent(value)) for name, value in results["median"].items() if not name.endswith("threshold")
    ]
    runs = [
        [
            one["name"] or run.resolve().name, f"{one['lr']:.3g}", f"{one['batch']}", f"{one['dropout']:g}",
            f"{one['step']:,} of {one['steps']:,}",
            ", ".join(f"{name} {_percent(value)}" for name, value in one["scores"].items()),
        ]
        for one in results["runs"]
    ]  # fmt: skip
    sections = [
        Section("How it learned", [side_by_side(tuning(best, task))]),
        Section("The runs", [table(("run", "rate", "batch", "dropout", "best at", "on dev"), runs)]),
        Section("The network", what_it_is(model)),
        Section(
            "What to do next",
            [commands(f"albertine predict {shlex.quote(str(run))} --data NEW --out OUT")],
        ),
    ]
    labels = f" Labels: {', '.join(card['labels'])}." if card["labels"] else ""
    lead = f"A model tuned on {task} ({card['kind']}).{labels}"
    return Page(run.resolve().name, lead, facts[:6], sections)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
