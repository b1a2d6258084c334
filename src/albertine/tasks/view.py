"""What tuning, evaluating and joining came to, on the terminal or as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from albertine import progress
from albertine.tasks.ensemble import Joined
from albertine.tasks.evaluate import Evaluated, averages
from albertine.tasks.finetune import medians
from albertine.tasks.metrics import headline, in_words, percent, worth_showing
from albertine.tasks.run import Outcome


def show_outcomes(out: Path, task: str, outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """Print what runs came to; nothing, where another process does."""
    if not outcomes:
        return
    if as_json:
        found = {"task": task, "median": medians(outcomes), "runs": [asdict(one) for one in outcomes]}
        print(json.dumps(found, indent=2))
        return
    names = worth_showing(outcomes[0].scores)
    table = _sheet("run", "rate", "batch", "dropout", "best at", "scores", left=("run", "scores"))
    for one in outcomes:
        at = f"{one.step:,} of {one.steps:,}" + (f", {one.restarts} restarts" if one.restarts else "")
        cells = (f"{one.lr:.3g}", f"{one.batch:,}", f"{one.dropout:g}", at)
        table.add_row(one.name or out.name, *cells, in_words({name: one.scores[name] for name in names}))
    if len(outcomes) > 1:
        middle = medians(outcomes)
        table.add_row("median", *[""] * 4, in_words({name: middle[name] for name in names}))
        each = {name: [one.scores[name] for one in outcomes] for name in names}
        ends = (f"{name} {percent(name, min(row))}-{percent(name, max(row))}" for name, row in each.items())
        table.add_row("from-to", *[""] * 4, ", ".join(ends))
    printed = progress.results()
    printed.print(table)
    best = max(outcomes, key=lambda one: headline(task, one.scores))
    what = f"{out} is {best.name}" if best.name else f"{out} is the model of step {best.step:,}"
    printed.print(f"{task}, on dev; {what}", highlight=False, markup=False)
    if best.step == 0:
        progress.say(f"{out}: tuning made nothing better, and it is as it began; give it more steps")


def show_evaluated(found: Sequence[Evaluated], *, as_json: bool) -> None:
    """Print how good models are."""
    means = averages(found)
    if as_json:
        print(json.dumps({"models": [asdict(one) for one in found], "averages": means}, indent=2))
        return
    table = _sheet("model", "task", "part", "examples", "scores", left=("model", "task", "part", "scores"))
    for one in found:
        table.add_row(one.source, one.task, one.part, f"{one.examples:,}", in_words(one.scores))
    printed = progress.results()
    printed.print(table)
    for name, value in means.items():
        printed.print(f"average as in {name}: {100 * value:.1f}", highlight=False)


def show_joined(found: Joined, *, as_json: bool) -> None:
    """Print what an ensemble came to."""
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    table = _sheet("model", "alone", "taken")
    for source, value in found.singles.items():
        place = str(found.chosen.index(source) + 1) if source in found.chosen else ""
        table.add_row(source, f"{100 * value:.2f}", place)
    table.add_row("together", f"{100 * found.headline:.2f}", str(len(found.chosen)))
    printed = progress.results()
    printed.print(table)
    told = f"{found.task}, on dev: {in_words(found.scores)}; {100 * found.gain:+.2f} over the best alone"
    printed.print(told, highlight=False)


def _sheet(*titles: str, left: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        is_left = title in (left or titles[:1])
        long = title in ("model", "scores")  # these take more lines where there is too little room
        table.add_column(
            title,
            justify="left" if is_left else "right",
            no_wrap=not long,
            overflow="fold",
            min_width=24 if title == "scores" else None,
        )
    return table
