"""How many steps of a study run are planned, and how many are done."""

from collections.abc import Collection, Sequence

from albertine.study.study_run import StudyRun
from albertine.train.parallel_runs import last_step


def planned_steps(run: StudyRun, measures: Collection[str]) -> int:
    """Return the steps of its pre-training and of the fine-tuning that the measures need."""
    tasks, plan = run.tasks(measures), run.finetuning
    trainings = len(tasks) if plan is None else plan.trainings(tasks)
    return run.settings.train.steps + run.protocol.finetune_steps * trainings


def steps_done(run: StudyRun, measures: Collection[str]) -> int:
    """Return how many of these steps are done."""
    planned, tasks = planned_steps(run, measures), run.tasks(measures)
    if tasks and all(map(run.is_scored, tasks)):
        return planned
    pretraining = last_step(run.model_folder) + sum(map(last_step, run.start_model_folders()))
    return min(planned, pretraining + sum(_finetuning_steps_done(run, task) for task in tasks))


def remaining_finetuning_steps(run: StudyRun, measures: Collection[str]) -> int:
    """Return how many steps of fine-tuning are not done."""
    done = max(steps_done(run, measures), run.settings.train.steps)
    return planned_steps(run, measures) - done


def _finetuning_steps_done(run: StudyRun, task: str) -> int:
    plan = run.finetuning
    if run.is_scored(task):  # all of them; its models are removed
        return run.protocol.finetune_steps * (1 if plan is None else len(plan.rates) * plan.runs)
    return sum(map(last_step, run.task_model_folders(task)))


def planned_steps_together(runs: Sequence[StudyRun], measures: Collection[str]) -> int:
    """Return the planned steps of runs that share a pre-training, and maybe fine-tuned models."""
    training = runs[0].settings.train.steps
    return training + sum(planned_steps(run, measures) - training for run in _of_own_models(runs, measures))


def steps_done_together(runs: Sequence[StudyRun], measures: Collection[str]) -> int:
    """Return how many of these steps are done."""
    different = _of_own_models(runs, measures)
    training = min(runs[0].settings.train.steps, last_step(runs[0].model_folder))
    return sum(steps_done(run, measures) for run in different) - (len(different) - 1) * training


def _of_own_models(runs: Sequence[StudyRun], measures: Collection[str]) -> list[StudyRun]:
    """Return one run for each set of fine-tuned models, the one that has to train the most."""
    most_done_first = sorted(runs, key=lambda run: steps_done(run, measures), reverse=True)
    return list({run.finetuned_folder: run for run in most_done_first}.values())


def remaining_steps_together(runs: Sequence[StudyRun], measures: Collection[str]) -> int:
    """Return how many steps of fine-tuning are not done of any runs, some of which share their models."""
    return sum(remaining_finetuning_steps(run, measures) for run in _of_own_models(runs, measures))
