"""Long work speaks, short work does not, quiet work never."""

import io
from collections.abc import Iterator

import pytest

from albertine import progress


class Clock:
    """A clock that moves as the test says."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    progress.be_quiet(False)
    yield
    progress.be_quiet(False)


def work(clock: Clock, seconds: int) -> None:
    for _ in progress.track(range(seconds), "Counting", unit="words"):
        clock.now += 1


def test_short_work_is_silent(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 1)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_there_are_plain_lines_now_and_then(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    work(clock, 40)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Counting: 5% of 40 words, 1.0 words/s, 38 s left"
    assert lines[1] == "Counting: 30% of 40 words, 1.0 words/s, 28 s left"
    assert lines[-1] == "Counting: 40 words, 1.0 words/s, took 40 s"
    assert len(lines) == 5


def test_on_a_terminal_one_line_is_written_over(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    work(clock, 10)
    shown = terminal.getvalue()
    assert shown.startswith("\rCounting: 20% of 10 words")
    assert shown.count("\n") == 1
    assert shown.endswith("took 10 s\x1b[K\n")


def test_quiet_work_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress.be_quiet(True)
    work(clock, 40)
    progress.say("done")
    assert capsys.readouterr().err == ""


def test_interrupted_work_ends_its_line(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    def interrupted_work() -> None:
        with progress.advancing("Counting", total=None) as advance:
            clock.now += 5
            advance(5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    assert terminal.getvalue() == "\rCounting: 5 items, 1.0 items/s, 5 s so far\x1b[K\n"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_durations_read_as_one_would_say_them(seconds: float, words: str) -> None:
    assert progress.duration(seconds) == words


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
def test_bytes_have_the_unit_that_they_need(count: int, text: str) -> None:
    assert progress.size(count) == text


def test_operations_have_the_unit_that_they_need() -> None:
    assert progress.operations(1.75e8) == "175 MFLOP"
    assert progress.operations(6.17e8 * 3) == "1.85 GFLOP"
