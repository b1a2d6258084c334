"""Settings of `albertine check`; without heavy imports, so that --help is fast."""

from dataclasses import dataclass
from pathlib import Path

from albertine.settings import Settings, setting
from albertine.settings.schema import SettingError
from albertine.tasks.settings import HEADER_HELP, DataSettings

MIN_MAX_LENGTH = 8  # tokens of a row; smaller lengths leave no room for text
_QUESTION_COLUMNS = ("question", "context", "answers", "options")


@dataclass(frozen=True)
class CheckSettings(Settings):
    """Settings of a check of data."""

    task: str | None = setting(
        None,
        "The task of the data, as in finetune: its rows are then read and checked as there, also "
        "SQuAD, questions with options, CoNLL and folders in an official layout.",
    )
    text: str = setting("text", "Column of the text, in a table, or several, as in title,body.")
    text_pair: str | None = setting(None, "Column of the second text.")
    label: str | None = setting(None, "Column of the label; by default `label`, if there is one.")
    question: str = setting("question", "With --task: column of the question.")
    context: str = setting("context", "With --task: column of the passage.")
    answers: str = setting("answers", "With --task: column of the answers.")
    options: str = setting(
        "options", "With --task: column of the list of options, or several columns as in a,b,c,d."
    )
    label_separator: str | None = setting(
        None,
        'Separator of several labels in a cell, as for --task multi-label, such as ";"; by default a cell is '
        "one label. Lists, and columns of 0 and 1, need none.",
    )
    header: bool = setting(True, HEADER_HELP)
    dev: str | None = setting(None, "The dev examples, to compare with DATA: a table, or what --task reads.")
    tokenizer: Path | None = setting(
        None,
        "Tokenizer, model or run (folder, URL or hub name), to count unknown characters and rows that are "
        "too long.",
    )
    max_length: int | None = setting(
        None,
        "Maximum tokens of a row, special tokens included; by default those of the model in --tokenizer, "
        "or 512.",
        minimum=MIN_MAX_LENGTH,
        maximum=1_000_000,
    )
    vocab_size: int | None = setting(
        None,
        "Warn if the text is too small for a vocabulary of this size.",
        minimum=110,
        maximum=1_000_000,
    )

    def check(self) -> None:
        """Raise `SettingError` for a blank separator, or settings that need another one."""
        if self.label_separator is not None and not self.label_separator.strip():
            raise SettingError("label_separator", self.label_separator, "must not be blank, as in ;")
        if self.max_length is not None and self.tokenizer is None:
            raise SettingError("max_length", self.max_length, "needs a tokenizer", ("tokenizer",))
        for key in _QUESTION_COLUMNS:
            if self.task is None and getattr(self, key) != getattr(DataSettings, key):
                raise SettingError(key, getattr(self, key), "needs a task", ("task",))
