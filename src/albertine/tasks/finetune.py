"""Fine-tuning: one run, several with different seeds, or a grid of them; the best is what the folder is.

RUN/                       a model, the best on dev
RUN/results.json           what came out, of all runs
RUN/seed-0/, RUN/lr-.../   the runs, where there are several
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from albertine import progress
from albertine.errors import InputError
from albertine.tasks.metrics import headline
from albertine.tasks.prepare import prepare
from albertine.tasks.run import Outcome, make
from albertine.tasks.settings import FinetuneSettings
from albertine.tasks.table14 import settled
from albertine.tasks.trials import trials
from albertine.train.folder import publish
from albertine.train.ranks import joined
from albertine.train.snapshots import FOLDER
from albertine.train.trackers import refuse_missing
from albertine.whole import new_file

RESULTS = "results.json"


def finetune(
    source: str | None, out: Path, settings: FinetuneSettings, *, sweep: bool = False
) -> tuple[str, list[Outcome]]:
    """Tune a model on a task into a folder, or go on where that was broken off.

    Returns the task's name and what each run came to; that only the first of several processes tells.
    """
    refuse_missing(settings.train.track)
    _refuse_other(out)
    with joined(settings.device) as ranks:
        prepared = prepare(source, settings)
        base = settled(
            replace(settings, init_from=source or settings.init_from),
            prepared.task.name,
            prepared.network,
            prepared.samples,
            prepared.card.max_length,
        )
        runs = dict(trials(base, sweep=sweep)) or {"": base}
        if "" not in runs and (out / FOLDER).exists():
            raise InputError(f"{out}: is a run; several of them need a folder of their own")
        outcomes = []
        for number, (name, one) in enumerate(runs.items(), start=1):
            if len(runs) > 1 and ranks.first:
                progress.say(f"run {number} of {len(runs)}: {name}")
            outcomes.append(make(out / name, name, one, prepared, ranks))
        if not ranks.first:
            return prepared.task.name, []
        _conclude(out, prepared.task.name, outcomes)
        return prepared.task.name, outcomes


def _refuse_other(out: Path) -> None:
    """Refuse a folder of something else, before any work is done."""
    if out.exists() and (
        not out.is_dir()
        or (any(out.iterdir()) and not (out / FOLDER).is_dir() and not any(out.glob(f"*/{FOLDER}/")))
    ):
        raise InputError(f"{out}: exists already and is no run; name another folder or remove it")


def _conclude(out: Path, task: str, outcomes: Sequence[Outcome]) -> None:
    """Make the folder the best of its runs, and write what came out."""
    best = max(outcomes, key=lambda one: headline(task, one.scores))
    if best.name:
        publish(out, out / best.name)
    found = {
        "task": task,
        "median": medians(outcomes),
        "best": best.name,
        "runs": [asdict(one) for one in outcomes],
    }
    with new_file(out / RESULTS) as file:
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def medians(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the median of every score."""
    return {name: median(one.scores[name] for one in outcomes) for name in outcomes[0].scores}
