"""Writes predictions for a file or a split while they are computed, so that memory is bounded.

The output has a row for each example, as JSON lines, CSV or TSV, or it is in the format of the
task's submission server or official script: a folder for GLUE, a .json file for SQuAD.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.inference.ensemble_model import EnsembleModel, TaskModel, load_task_model
from albertine.inference.finetuned_model import resolve_columns
from albertine.inference.predict_on_cluster import ClusterPredictor
from albertine.inference.read_split import read_split
from albertine.inference.row_identity import row_identity
from albertine.inference.settings import PredictSettings
from albertine.inference.table_writer import RowChunk, TableRows, all_rows, check_table_file, write_table
from albertine.storage.objects import display_path
from albertine.storage.output_file import check_output_file, check_output_path, output_exists
from albertine.tasks.card import TaskCard
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.formats.columns import KeepRequest
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.registry import task_of_card
from albertine.tasks.scorer import ExampleScorer
from albertine.tasks.settings import Split
from albertine.tasks.task import SubmissionFormat, Task, is_table_file
from albertine.text.hub_datasets import HUB_PREFIX


def predict(
    model: str | Path,
    settings: PredictSettings,
    out: str | Path | None = None,
    *,
    executor: Executor | None = None,
) -> int:
    """Write predictions for a file or a split; return their number.

    Args:
        model: a fine-tuned run, the folder of a checkpoint or of an ensemble, or a hub name.
        settings: the data, and its columns where they differ from those of the training data.
        out: path or URL of a file of JSON lines, CSV or TSV, a folder for GLUE, a .json for SQuAD. Without
            it, JSON lines are written to standard output.
        executor: a cluster for the predictions (see `open_cluster`); None for this process.
    """
    if settings.data is None:
        raise InputError("--data is missing: a file, the task's folder, or hub:OWNER/NAME")
    rule = settings.exit_rule
    finetuned = load_task_model(model, settings.engine_options, task=settings.task, exit_rule=rule)
    split_names = split_names_to_predict(finetuned.task, settings.data, settings.split)
    write = prediction_writer(finetuned.card, settings.data, split_names, None if out is None else Path(out))
    keep = _keep_request(finetuned, settings, None if out is None else Path(out))
    is_official = is_folder(settings.data)
    # Data that cannot be read must fail before any split is predicted, and before a cluster is started.
    for name in split_names if is_official or executor is not None else ():
        next(read_split(finetuned, name, settings, require_labels=False))
    predictor = finetuned.create_scorer() if executor is None else ClusterPredictor(executor, model, settings)
    count = 0
    for name in split_names:
        rows = _PredictedRows(finetuned, predictor, settings, name, keep)
        count += write(name, rows)
        title = f"{settings.data}, {name}" if is_official else settings.data
        rows.counts.print_warnings(title)
        if rows.num_unanswered:
            num_examples = rows.counts.num_examples
            progress.print_message(
                f"{title}: {rows.num_unanswered:,} of {num_examples:,} questions have no answer"
            )
        if rule is not None:
            progress.print_message(f"{title}: mean depth {rows.mean_depth:.2f} steps")
    return count


class _PredictedRows(TableRows):
    """The predictions for a split.

    Attributes:
        counts: counts of the truncated and unknown tokens of its examples.
        num_unanswered: number of questions about a passage that are predicted to have no answer.
    """

    def __init__(
        self,
        model: TaskModel,
        predictor: ExampleScorer | ClusterPredictor,
        settings: PredictSettings,
        split_name: str,
        keep: KeepRequest | None,
    ):
        self._model, self._predictor, self._settings = model, predictor, settings
        self._split_name, self._keep = split_name, keep
        self.counts = EncodingCounts(model.tokenizer.special_ids)
        self.num_unanswered, self._depth_sum = 0, 0.0

    @property
    def mean_depth(self) -> float:
        """Mean number of steps of depth of the predictions."""
        return self._depth_sum / max(1, self.counts.num_examples)

    def chunks(self, num_finished: int) -> Iterator[RowChunk]:
        """Yield the predictions for the examples after some that are finished."""
        settings, name = self._settings, self._split_name
        assert settings.data is not None
        examples = read_split(self._model, name, settings, require_labels=False, keep=self._keep)
        description = f"Predicting {name}" if is_folder(settings.data) else "Predicting"
        tracked = progress.track(islice(examples, num_finished, None), description, unit="examples")
        for chunk in self._predictor.predict_chunks(tracked, self.counts):
            self._depth_sum += sum(prediction.get("depth", 0.0) for _, prediction in chunk)
            self.num_unanswered += sum(prediction.get("answer") == "" for _, prediction in chunk)
            yield RowChunk(chunk, len(chunk))

    def identity(self, out: Path) -> Mapping[str, Any] | None:
        """Return all that the predictions depend on."""
        model, settings = self._model, self._settings
        members = model.members if isinstance(model, EnsembleModel) else [model]
        folders = [member.folder for member in members]
        if isinstance(model, EnsembleModel):
            folders.append(Path(model.source))
        assert settings.data is not None
        columns = resolve_columns(model.card, settings)
        engines = [member.engine for member in members]
        identity = row_identity(folders, engines, settings.device, columns, settings.data, out)
        # The nodes of a cluster may compute in another precision than this machine.
        is_remote = isinstance(self._predictor, ClusterPredictor)
        return identity and {**identity, "--split": self._split_name, "--cluster": is_remote}

    def state(self) -> dict[str, Any]:
        """Return the counts so far."""
        return {
            "counts": self.counts.state(),
            "depth_sum": self._depth_sum,
            "num_unanswered": self.num_unanswered,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.counts.restore(state["counts"])
        self._depth_sum, self.num_unanswered = state["depth_sum"], state["num_unanswered"]


# Values that predictions of all task types have, or may have.
_COMMON_VALUES = ("id", "depth", "truncated_tokens")


def _keep_request(model: TaskModel, settings: PredictSettings, out: Path | None) -> KeepRequest | None:
    """Return the columns to keep; raise `InputError` if the data or the output has no columns."""
    data, task = settings.data, model.task
    if settings.keep is None or data is None:
        return None
    is_table = is_table_file(data) or data.startswith(HUB_PREFIX)
    if not is_table or task.has_official_layout(data):
        raise InputError(
            f"{data}: --keep needs a table with columns: .csv, .tsv, .jsonl or .parquet; leave it out"
        )
    submission = task.submission
    if submission and _is_submission(submission, task, data, out):
        assert out is not None
        raise InputError(
            f"{display_path(out)}: has answers only; with --keep, name a .jsonl, .csv or .tsv file"
        )
    is_json = out is None or out.suffix.lower() == ".jsonl"
    values = model.task_type.prediction_schema()["properties"] if is_json else task.task_type.table_columns
    return KeepRequest(settings.keep, {*_COMMON_VALUES, *values}, resolve_columns(model.card, settings).id)


def split_names_to_predict(task: Task, data: str, split: Split | None = None) -> tuple[str, ...]:
    """Return the names of the parts of a split; without a split, of the one to predict by default."""
    if split is None:
        split = task.split_to_predict(data)
        if split != "test":
            progress.print_message(f"{data}: no test split of {task.name}; predicting {split}")
    return task.split_names(split, data)


def prediction_writer(
    card: TaskCard, data: str, split_names: Sequence[str], out: Path | None
) -> Callable[[str, TableRows], int]:
    """Return the function that writes the predictions for a part of a split and returns their number.

    Raises `InputError` if the output cannot be written, before any prediction is computed.
    """
    task = task_of_card(card)
    submission = task.submission
    if submission and _is_submission(submission, task, data, out):
        assert out is not None
        files = {name: submission.file(name, out) for name in split_names}
        for file in files.values():
            check_output_path(file)
        # Some of several files may be from an interrupted call: `write_one_of_several_files`.
        if all(output_exists(file) for file in files.values()):
            check_output_file(next(iter(files.values())))
        return lambda name, rows: submission.write(all_rows(rows), files[name])
    if out is not None:
        check_table_file(out, [submission.suffix] if submission and submission.suffix else [])
    columns = task.task_type.table_columns
    separator = _list_separator(card, task)
    return lambda _, rows: write_table(rows, out, columns, "predictions", list_separator=separator)


def _list_separator(card: TaskCard, task: Task) -> str:
    """Return the separator of lists in a cell; sets of labels have that of the training data."""
    in_data = card.columns.get("label_separator")  # a card has it for any task
    has_label_sets = "label_separator" in task.task_type.column_settings
    return in_data if in_data and has_label_sets else task.task_type.list_separator


def _is_submission(submission: SubmissionFormat, task: Task, data: str, out: Path | None) -> bool:
    """Return whether to write the official format: a file by its suffix, a folder for an official layout."""
    if submission.suffix:
        return out is not None and out.suffix.lower() == submission.suffix
    if is_folder(data) and (out is None or out.suffix):
        name = "--out" if out is None else display_path(out)
        raise InputError(
            f"{name}: predictions for the folder of {task.name} are files for its server; "
            "name a folder for them"
        )
    return is_folder(data)
