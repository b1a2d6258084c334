"""Settings of tasks: the data, the names of its columns, and the lengths of sequences."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import SettingError, Settings, setting

Split = Literal["dev", "test", "train"]

HEADER_HELP = (
    "The first line of a .csv or .tsv file names its columns; with --no-header it is a row, and columns are "
    "given by number, as in --text 1."
)


@dataclass(frozen=True)
class DataSettings(Settings):
    """The task, its data, and the names of the columns."""

    task: str | None = setting(
        None,
        "A task of GLUE (cola, sst-2, mrpc, sts-b, qqp, mnli, qnli, rte, wnli), squad-1.1, squad-2.0, race, "
        "dream; or, for your own data, its type: classify, multi-label, regress, tag, span, choice.",
    )
    data: str | None = setting(
        None,
        "Folder of the task in its official layout, a file (.csv, .tsv, .jsonl, .parquet, .conll, .json), "
        "a URL of either, or hub:OWNER/NAME.",
    )
    text: str = setting(
        "text",
        "Column of the text, or several whose texts are joined, as in title,body; for tag, column of the "
        "words.",
    )
    text_pair: str | None = setting(
        None, "Column of the second text, or several to join, if the task judges pairs."
    )
    label: str = setting(
        "label",
        "Column of the label, number or tags; for choice, of the correct option; for multi-label, of the "
        "labels, or several columns of 0 and 1, as in a,b,c.",
    )
    label_separator: str = setting(
        ";", "For multi-label: separator of the labels in a cell; lists in JSON and Parquet need none."
    )
    question: str = setting("question", "Column of the question.")
    context: str = setting("context", "Column of the passage.")
    answers: str = setting("answers", "Column of the answers, in the form of SQuAD or as plain text.")
    options: str = setting(
        "options", "For choice: column of the list of options, or several columns as in a,b,c,d."
    )
    id: str = setting("id", "Column of the id of a row; without such a column, rows are numbered.")
    header: bool = setting(True, HEADER_HELP)
    on_error: Literal["stop", "skip"] = setting(
        "stop", "What to do with an invalid row: stop, or skip it and report the number of skipped rows."
    )

    def check(self) -> None:
        """Raise `SettingError` if the separator of labels is empty or white space only."""
        super().check()
        if not self.label_separator.strip():
            raise SettingError("label_separator", self.label_separator, "must not be blank, as in ;")


@dataclass(frozen=True)
class SequenceSettings(Settings):
    """How examples become sequences."""

    max_length: int | None = setting(
        None,
        "Maximum tokens of a sequence; if not set, the smaller one of the paper's and the model's.",
        minimum=8,
    )
    stride: int = setting(
        128, "For span: tokens from the start of one window of a long passage to the next.", minimum=1
    )
    max_question_length: int = setting(64, "For span: maximum tokens of a question.", minimum=4)
    max_answer_length: int = setting(30, "For span: maximum tokens of an answer.", minimum=1)
    num_candidates: int = setting(
        20, "For span: number of candidate answers that are compared.", minimum=1, maximum=1000
    )
