"""The fine-tuning runs of a report card: each task, with and without pre-training, with each seed.

OUT/untrained/seed-N/         the same network, with the weights with which a pre-training run begins
OUT/runs/TASK/START/seed-N/   a fine-tuned model; START is "pre-trained" or "untrained"
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from albertine import progress
from albertine.device import choose_device
from albertine.errors import InputError
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import prepare_task
from albertine.finetune.run import finetune_run
from albertine.interop.save_checkpoint import save_folder
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import untrained_model
from albertine.report_card.recipe import TASK_RECIPES, finetune_settings
from albertine.report_card.results import RunScores
from albertine.report_card.workspace import CardWorkspace
from albertine.settings import build_settings
from albertine.text.tokenizer import load_tokenizer
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.distributed import init_distributed
from albertine.train.parallel_runs import is_faster_in_parallel, run_in_parallel
from albertine.train.run_folder import read_run_settings
from albertine.train.settings import PretrainTrainSettings

Start = Literal["pre-trained", "untrained"]
STARTS: tuple[Start, ...] = get_args(Start)


@dataclass(frozen=True)
class CardRun:
    """One fine-tuning run.

    Attributes:
        workspace: the folder of the card.
        task: name of the task.
        start: the weights from which the run starts.
        seed: seed of the new layer, of the order of the examples and of untrained weights.
    """

    workspace: CardWorkspace
    task: str
    start: Start
    seed: int

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.workspace.out / "runs" / self.task / self.start / f"seed-{self.seed}"

    @property
    def steps(self) -> int:
        """Number of steps of the run."""
        return TASK_RECIPES[self.task].steps(self.workspace.copy_data(self.task).train_examples)

    @property
    def is_finished(self) -> bool:
        """Whether the run has a result."""
        return self._result_name in self.workspace.results

    @property
    def _result_name(self) -> str:
        return f"{self.task}/{self.start}/seed-{self.seed}"

    def result(self) -> RunScores:
        """Return the scores of the last step, after training unless the run is finished."""
        return self.workspace.results.get_as(RunScores, self._result_name, self._train)

    def _train(self) -> RunScores:
        workspace = self.workspace
        checkpoint = workspace.checkpoint
        if self.start == "untrained":
            checkpoint = untrained_checkpoint(workspace, self.seed)
        settings = finetune_settings(
            TASK_RECIPES[self.task],
            workspace.model_settings,
            workspace.data_folder(self.task),
            self.steps,
            self.seed,
            workspace.settings.device,
        )
        with init_distributed(settings.device) as distributed:
            data = prepare_task(str(checkpoint), settings)
            resolved = with_task_defaults(
                settings, self.task, data.model_settings, data.num_samples, data.card.max_length
            )
            name = self.folder.name
            result = finetune_run(self.folder, name, resolved, data, distributed, max_restarts=0)
        return RunScores(result.metrics[TASK_RECIPES[self.task].metric], result.metrics)


def card_runs(workspace: CardWorkspace) -> list[CardRun]:
    """Return all runs of a card, the longest first."""
    seeds = range(workspace.settings.seeds)
    return [
        CardRun(workspace, task, start, seed)
        for task in workspace.sources.tasks
        for start in STARTS
        for seed in seeds
    ]


def train_all(workspace: CardWorkspace) -> None:
    """Train all runs that are not finished: narrow models side by side, others one by one."""
    runs = card_runs(workspace)
    remaining = [run for run in runs if not run.is_finished]
    for seed in {run.seed for run in remaining}:
        untrained_checkpoint(workspace, seed)
    device = choose_device(workspace.settings.device)
    if is_faster_in_parallel(device, workspace.model_settings.hidden_size):
        total_steps = sum(run.steps for run in remaining)
        results = {run.folder: run.result for run in remaining}
        run_in_parallel("Fine-tuning", results, total_steps, device)
    else:
        for number, run in enumerate(remaining, start=1):
            name = run.folder.relative_to(workspace.out)
            progress.print_message(f"run {number} of {len(remaining)}: {name}")
            run.result()
    for run in runs:  # a finished run needs no checkpoints, which are larger than its model
        shutil.rmtree(run.folder / CHECKPOINTS_FOLDER, ignore_errors=True)


def scores_of_runs(workspace: CardWorkspace, task: str, start: Start) -> list[float]:
    """Return the score of each seed on a task."""
    seeds = range(workspace.settings.seeds)
    return [CardRun(workspace, task, start, seed).result().score for seed in seeds]


def untrained_checkpoint(workspace: CardWorkspace, seed: int) -> Path:
    """Write the network without pre-training, unless it exists; return its folder."""
    folder = workspace.out / "untrained" / f"seed-{seed}"
    if not folder.exists():
        settings = PretrainSettings(
            local_start=_has_local_start(workspace.checkpoint), train=PretrainTrainSettings(seed=seed)
        )
        model = untrained_model(workspace.model_settings, settings)
        save_folder(model, folder, tokenizer=load_tokenizer(workspace.checkpoint))
    return folder


def _has_local_start(checkpoint: Path) -> bool:
    """Return whether the run of a checkpoint began with the local start; True, the default, if unknown."""
    try:
        settings = build_settings(PretrainSettings, read_run_settings(checkpoint, PretrainSettings))
    except InputError:
        return True
    return settings.local_start
