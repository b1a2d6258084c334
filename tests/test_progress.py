"""Tests of progress lines and messages."""

import io
import json
from collections.abc import Iterator

import pytest
from rich.table import Table
from rich.text import Text

from albertine import progress


class FakeClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def not_quiet() -> Iterator[None]:
    progress.set_quiet(False)
    yield
    progress.set_quiet(False)


def count_items(clock: FakeClock, seconds: int) -> None:
    for _ in progress.track(range(seconds), "Counting", unit="words"):
        clock.now += 1


def test_short_work_prints_nothing(clock: FakeClock, capsys: pytest.CaptureFixture[str]) -> None:
    count_items(clock, 1)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_lines_are_printed(clock: FakeClock, capsys: pytest.CaptureFixture[str]) -> None:
    count_items(clock, 40)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Counting: 5% of 40 words, 1.0 words/s, 38 s left"
    assert lines[1] == "Counting: 30% of 40 words, 1.0 words/s, 28 s left"
    assert lines[-1] == "Counting: 40 words, 1.0 words/s, took 40 s"
    assert len(lines) == 5


def test_terminal_line_is_overwritten(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr("sys.stderr", terminal)
    count_items(clock, 10)
    output = terminal.getvalue()
    assert output.startswith("\rCounting: 20% of 10 words")
    assert output.count("\n") == 1
    assert output.endswith("took 10 s\x1b[K\n")


def test_quiet_prints_nothing(clock: FakeClock, capsys: pytest.CaptureFixture[str]) -> None:
    progress.set_quiet(True)
    count_items(clock, 40)
    progress.print_message("done")
    assert capsys.readouterr().err == ""


def test_interruption_ends_the_line(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr("sys.stderr", terminal)

    def interrupted_work() -> None:
        with progress.progress_counter("Counting", total=None) as advance:
            clock.now += 5
            advance(5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    assert terminal.getvalue() == "\rCounting: 5 items, 1.0 items/s, 5 s so far\x1b[K\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_format_duration(seconds: float, text: str) -> None:
    assert progress.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (999_950_000, "1 GB"),
        (23_600_000, "23.6 MB"),
        (10**18, "1,000,000 TB"),
    ],
)
def test_format_bytes(count: int, text: str) -> None:
    assert progress.format_bytes(count) == text


def test_format_flops() -> None:
    assert progress.format_flops(1.75e8) == "175 MFLOP"
    assert progress.format_flops(6.17e8 * 3) == "1.85 GFLOP"


def test_messages_hold_no_control_characters_and_have_a_maximum_length(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress.print_message("bad\x1b[31m \u202ename\x07\nsecond line: né 한국어")
    assert capsys.readouterr().err == "bad\\x1b[31m \\u202ename\\x07\nsecond line: né 한국어\n"
    progress.print_message(f"{'a' * 5000}; free disk space")
    line = capsys.readouterr().err
    assert len(line) <= progress.MAX_LINE_LENGTH + 1
    assert line.startswith("aaaa")
    assert line.endswith("aaaa; free disk space\n")


def test_tables_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("label", "score")
    table.add_row("good\x1b]0;title\x07", "1.0")
    table.add_row(Text("plain"), "2.0")
    progress.result_console().print(table)
    output = capsys.readouterr().out
    assert "good\\x1b" in output
    assert "\x1b" not in output
    assert "plain" in output


def test_json_holds_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": "a\x7f\x9b\u202e\ud800\U000e0001", "plain": "né 한국어"}
    progress.print_json(value)
    output = capsys.readouterr().out
    assert json.loads(output) == value
    assert all(line.isprintable() for line in output.splitlines())
    assert "né 한국어" in output


def test_one_item_is_in_the_singular() -> None:
    assert progress.progress_text("Predicting", 1, 1, 2.0, "batches").startswith("Predicting: 1 batch, 0.5 ")
    assert progress.progress_text("Predicting", 2, None, 2.0, "chunks").startswith("Predicting: 2 chunks, ")
