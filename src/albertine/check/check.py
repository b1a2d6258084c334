"""Checks data before they are used: reads them once, gives each text to all checks, and collects findings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.check.corpus_facts import corpus_findings
from albertine.check.documents import DocumentCheck
from albertine.check.duplicates import DuplicateCheck
from albertine.check.encoding import EncodingCheck
from albertine.check.findings import Check, DataItem, Finding
from albertine.check.labels import LabelCheck
from albertine.check.language import LanguageCheck
from albertine.check.questions import QuestionCheck
from albertine.check.reading import DataErrors, document_items, is_table, table_items
from albertine.check.settings import MIN_MAX_LENGTH, CheckSettings
from albertine.check.task_items import task_items
from albertine.check.tokens import TokenizationCheck
from albertine.corpus.check import check_corpus
from albertine.corpus.manifest import MANIFEST_FILE
from albertine.errors import InputError
from albertine.interop.hub import locate_tokenizer
from albertine.interop.transformers_config import read_config
from albertine.json_input import RECODE
from albertine.storage.objects import find_object
from albertine.storage.urls import join_url, storage_url
from albertine.tasks.formats.conll import CONLL_SUFFIXES
from albertine.tasks.formats.data_files import data_suffix, has_header_line, refuse_spreadsheet
from albertine.tasks.registry import find_task
from albertine.text.find_sources import find_sources
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.text.language_detection import detect_source_language
from albertine.text.settings import ReadingSettings
from albertine.text.sources import Source
from albertine.text.tokenizer import load_tokenizer

_DEFAULT_MAX_LENGTH = 512
_TAG_SUFFIXES = {*CONLL_SUFFIXES} - {".txt"}
_SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class CheckReport:
    """The result of a check.

    Attributes:
        texts: number of rows and documents that were read.
        corpora: number of corpora.
        findings: what was found, errors first.
    """

    texts: int
    corpora: int
    findings: tuple[Finding, ...]

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        counts = {f"{severity}s": self.count(severity) for severity in _SEVERITIES}
        return {
            "texts": self.texts,
            "corpora": self.corpora,
            **counts,
            "findings": [asdict(finding) for finding in self.findings],
        }


def check_data(data: Sequence[str], settings: CheckSettings | None = None) -> CheckReport:
    """Return what will go wrong when data are used.

    Args:
        data: text files, folders, tables, hub datasets or corpora.
        settings: columns, tokenizer and dev file.
    """
    settings = settings or CheckSettings()
    corpora = [name for name in data if _is_corpus(name)]
    others = [name for name in data if name not in corpora]
    findings: list[Finding] = []
    num_texts = 0
    for name in corpora:
        manifest = check_corpus(Path(name)).manifest
        findings += corpus_findings(name, manifest)
    if corpora and not others:
        _refuse_options_of_data(corpora[0], settings)
    else:
        data_findings, num_texts = _check_sources(others, settings)
        findings += data_findings
    findings.sort(key=lambda finding: _SEVERITIES.index(finding.severity))
    return CheckReport(num_texts, len(corpora), tuple(findings))


def _refuse_options_of_data(corpus: str, settings: CheckSettings) -> None:
    """Raise `InputError` for settings about texts and tables, which a built corpus has none of."""
    defaults = CheckSettings()
    for key in (field.name for field in fields(CheckSettings)):
        if getattr(settings, key) != getattr(defaults, key):
            option = "--no-header" if key == "header" else f"--{key.replace('_', '-')}"
            raise InputError(f"{corpus}: a corpus, for which {option} is not used; leave it out")


def _is_corpus(name: str) -> bool:
    url = storage_url(name)
    if url is not None:
        return find_object(join_url(url, MANIFEST_FILE)) is not None
    return (Path(name) / MANIFEST_FILE).is_file()


def _check_sources(data: Sequence[str], settings: CheckSettings) -> tuple[list[Finding], int]:
    folder = None if settings.tokenizer is None else locate_tokenizer(settings.tokenizer)
    tokenizer = None if folder is None else load_tokenizer(folder)
    encoding, errors = EncodingCheck(), DataErrors()
    task = None if settings.task is None else find_task(settings.task)
    train_checks: list[Check] = [LanguageCheck(tokenizer), DocumentCheck(settings.vocab_size)]
    both_checks: list[Check] = [
        DuplicateCheck(tokenizer.normalize if tokenizer else str),
        LabelCheck(are_numbers=task is not None and task.task_type.predicts_numbers),
        QuestionCheck(tokenizer),
    ]
    if tokenizer is not None and folder is not None:
        both_checks.append(TokenizationCheck(tokenizer, settings.max_length or _max_length(folder)))
    for name in (*data, *([settings.dev] if settings.dev else [])):
        refuse_spreadsheet(name)
    if task is None:
        items = _items(find_sources(data, accept_tables=True), settings, encoding, errors)
    else:
        items = ((item, False) for item in task_items(data, task, settings, errors))
    num_texts = 0
    with progress.progress_counter("Checking", total=None, unit="texts") as advance:
        for item, is_encoding_known in items:
            num_texts += 1
            advance(1)
            if not is_encoding_known:
                encoding.observe(item)
            for check in [*both_checks, *(train_checks if item.split == "train" else [])]:
                check.observe(item)
    findings = [*_unreadable(errors), *encoding.findings()]
    if not num_texts and any(finding.severity == "error" for finding in findings):  # these are the reason
        return findings, num_texts
    for check in [*train_checks, *both_checks]:
        findings += check.findings()
    if any(finding.kind in ("not-utf-8", "unreadable") for finding in findings):
        findings = [finding for finding in findings if finding.kind != "one-label"]  # a consequence
    return findings, num_texts


def _items(
    sources: Sequence[Source], settings: CheckSettings, encoding: EncodingCheck, errors: DataErrors
) -> Iterator[tuple[DataItem, bool]]:
    """Yield all items, those of dev last, and whether their characters have been checked line by line."""
    reading = ReadingSettings(field=settings.text)
    _check_columns(sources, settings)
    detected = detect_source_language([source for source in sources if source.format != "hub"], reading)
    reading = ReadingSettings(field=settings.text, language=detected.code or "en")
    for source in sources:
        if data_suffix(Path(source.name)) in _TAG_SUFFIXES:
            raise InputError(f"{source.name}: words with tags, which albertine check reads with --task tag")
        if source.format == "hub" or is_table(source.name):
            items = table_items(source.name, settings, "train", reading.splitter_language, errors)
            yield from ((item, False) for item in items)
        else:
            yield from ((item, True) for item in document_items(source, reading, encoding, errors))
    if settings.dev is not None:
        if not settings.dev.startswith(HUB_PREFIX) and not is_table(settings.dev):
            raise InputError(f"--dev {settings.dev}: not a table; expected .csv, .tsv, .jsonl or .parquet")
        items = table_items(settings.dev, settings, "dev", reading.splitter_language, errors)
        yield from ((item, False) for item in items)


def _check_columns(sources: Sequence[Source], settings: CheckSettings) -> None:
    """Raise `InputError` if the settings are about columns that the data do not have."""
    is_any_table = any(source.format == "hub" or is_table(source.name) for source in sources)
    if is_any_table or settings.dev is not None:
        tables = [*(source.name for source in sources), *([settings.dev] if settings.dev else [])]
        if not settings.header and not any(map(has_header_line, tables)):
            raise InputError(f"{tables[0]}: --no-header is for .csv and .tsv files; leave it out")
        return
    text = None if settings.text == CheckSettings().text else settings.text
    options = {
        "--label": settings.label,
        "--label-separator": settings.label_separator,
        "--text-pair": settings.text_pair,
        "--text": text,
    }
    given = [option for option, value in options.items() if value is not None]
    given += [] if settings.header else ["--no-header"]
    if given and sources:
        raise InputError(
            f"{sources[0].name}: a text, which has no columns; remove {' and '.join(given)}, or give a .csv, "
            ".tsv, .jsonl or .parquet file"
        )


def _max_length(folder: Path) -> int:
    """Return the maximum length of the model in a folder, if there is one."""
    config = folder / "config.json"
    length = read_config(config).get("max_position_embeddings") if config.is_file() else None
    return length if isinstance(length, int) and length >= MIN_MAX_LENGTH else _DEFAULT_MAX_LENGTH


def _unreadable(errors: DataErrors) -> Iterable[Finding]:
    """Yield findings about rows that could not be read."""
    if (tally := errors.not_utf_8).count:
        message = "rows that are not UTF-8"
        yield Finding("error", "not-utf-8", message, tally.count, location=tally.location, advice=RECODE)
    if (tally := errors.unreadable).count:
        yield Finding(
            "error",
            "unreadable",
            "rows that cannot be read",
            tally.count,
            tally.example,
            tally.location,
            "correct or remove them",
        )
