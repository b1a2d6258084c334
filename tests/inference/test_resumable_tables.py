"""Tests of `predict` and `score` after an interruption: the same bytes, and no rows of another command."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.task_fixtures import random_words, save_untrained_model, write_csv

from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.inference import predict as predict_module
from albertine.inference import pseudo_likelihood, resumable_file, row_identity
from albertine.inference import score as score_module
from albertine.inference.predict import predict
from albertine.inference.resumable_file import ResumableFile
from albertine.inference.score import score
from albertine.inference.settings import PredictSettings, ScoreSettings
from albertine.settings import HeadSettings
from albertine.tasks import scorer
from albertine.tasks.card import TaskCard

CHUNK_SIZE, NUM_ROWS = 7, 40
Command = Callable[[Path], int]  # writes a table to a file


@pytest.fixture(scope="module")
def model(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model that classifies reviews."""
    folder = tmp_path_factory.mktemp("resume") / "model"
    card = TaskCard("classify", "classify", ("red", "blue"), ("accuracy",), max_length=64)
    return save_untrained_model(folder, checkpoint, HeadSettings("classify", labels=2), card)


def write_rows(file: Path, num_rows: int = NUM_ROWS, max_words: int = 9) -> Path:
    """Write rows of texts, some of which repeat, some near each other and some not."""
    rng = random.Random(3)
    texts = [" ".join(random_words(rng, rng.randint(1, max_words))) for _ in range(num_rows)]
    texts = [
        rng.choice(texts[: max(1, index // 2)]) if index % 3 else texts[index] for index in range(num_rows)
    ]
    texts[num_rows // 4] = "ka lo mi " * 60  # too long
    return write_csv(
        file, [{"id": f"r{index}", "text": text, "n": index} for index, text in enumerate(texts)]
    )


@pytest.fixture(autouse=True)
def checkpoint_after_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "CHUNK_SIZE", CHUNK_SIZE)
    monkeypatch.setattr(score_module, "_CHUNK_SIZE", CHUNK_SIZE)
    monkeypatch.setattr(pseudo_likelihood, "_MAX_CACHED_TOKENS", 100)
    monkeypatch.setattr(resumable_file, "_MIN_SECONDS", 0.0)
    monkeypatch.setattr(resumable_file, "_MAX_COST", float("inf"))


def predict_command(model: Path, data: Path, **settings: Any) -> Command:
    options = {"device": "cpu", "precision": "fp32", **settings}
    return lambda out: predict(model, PredictSettings(data=str(data), **options), out)


def score_command(model: Path, data: Path, **settings: Any) -> Command:
    return lambda out: score(
        model, ScoreSettings(data=str(data), device="cpu", **{"on_error": "skip", **settings}), out
    )


def interrupt(command: Command, out: Path, num_chunks: int, error: BaseException | None = None) -> None:
    """Run a command up to the checkpoint after some chunks; then an error ends it in the next one."""
    write, counter = ResumableFile.write, count()

    def interrupted_write(self: ResumableFile, text: str) -> None:
        if next(counter) == num_chunks:
            write(self, text[: len(text) // 2])
            raise error or KeyboardInterrupt
        write(self, text)

    with pytest.MonkeyPatch.context() as patch, pytest.raises((KeyboardInterrupt, OSError)):
        patch.setattr(ResumableFile, "write", interrupted_write)
        command(out)
    assert not out.exists()


def partial(out: Path) -> Path:
    return out.with_name(f"{out.name}.partial")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("predict", ".csv"),
        ("predict", ".tsv"),
        ("predict", ".jsonl"),
        ("predict --keep", ".csv"),
        ("predict --keep", ".jsonl"),
        ("predict --depth", ".jsonl"),
        ("score", ".csv"),
        ("score", ".tsv"),
        ("score token", ".jsonl"),
    ],
)
def test_an_interrupted_command_resumes_with_the_same_bytes(
    kind: str,
    suffix: str,
    model: Path,
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = write_rows(tmp_path / "data.csv")
    match kind:
        case "predict":
            command = predict_command(model, data)
        case "predict --keep":
            command = predict_command(model, data, keep="n,text")
        case "predict --depth":
            command = predict_command(model, data, depth=1)
        case "score":
            command = score_command(checkpoint, data)
        case _:
            command = score_command(checkpoint, data, method="token", tokens=True)
    expected = tmp_path / f"expected{suffix}"
    num_rows = command(expected)
    messages = capsys.readouterr().err.replace("expected", "out").splitlines()
    out = tmp_path / f"out{suffix}"
    interrupt(command, out, 0)
    assert names(tmp_path) == {"data.csv", expected.name}, "without a checkpoint, nothing is kept"
    for num_chunks in (2, 0, 3):  # of each attempt
        interrupt(command, out, num_chunks)
        assert (
            f"{partial(out)}: holds what is finished; run the same command again" in capsys.readouterr().err
        )
    assert command(out) == num_rows
    finished = 5 * CHUNK_SIZE - (1 if kind.startswith("score") else 0)
    resumed_messages = capsys.readouterr().err.splitlines()
    resumed_messages.remove(f"{out}: resuming after row {finished}")
    assert resumed_messages == messages
    assert out.read_bytes() == expected.read_bytes()
    assert names(tmp_path) == {"data.csv", expected.name, out.name}


def test_finished_rows_are_not_computed_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command = predict_command(model, data)
    interrupt(command, out, 4)
    chunks: list[int] = []
    score_chunk = scorer.Scorer.score_chunk

    def counting(self: scorer.Scorer, examples: Any) -> Any:
        chunks.append(len(examples))
        return score_chunk(self, examples)

    monkeypatch.setattr(scorer.Scorer, "score_chunk", counting)
    command(out)
    assert sum(chunks) == NUM_ROWS - 4 * CHUNK_SIZE


def test_the_same_texts_are_scored_together_after_an_interruption(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last digits might differ; so the scores that are known must be those of before."""
    data = write_rows(tmp_path / "data.csv")
    command = score_command(checkpoint, data)
    computed: list[list[bytes]] = []
    compute = pseudo_likelihood.PseudoLikelihoodScorer._compute

    def recording(self: Any, texts: Any, methods: Any) -> Any:
        computed.append([text.ids.tobytes() for text in texts])
        return compute(self, texts, methods)

    monkeypatch.setattr(pseudo_likelihood.PseudoLikelihoodScorer, "_compute", recording)
    command(tmp_path / "expected.csv")
    expected, out = computed[:], tmp_path / "out.csv"
    assert sum(map(len, expected)) < NUM_ROWS, "some texts are known"
    interrupt(command, out, 3)
    computed.clear()
    command(out)
    assert computed == expected[3:]


def test_rows_of_another_command_are_refused(
    model: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command = predict_command(model, data, keep="n")
    command(tmp_path / "expected.csv")
    interrupt(command, out, 2)
    before = {path.name: path.read_bytes() for path in partial(out).iterdir()}

    def refused(other: Command, *differences: str) -> None:
        with pytest.raises(InputError) as raised:
            other(out)
        assert str(raised.value) == (
            f"{partial(out)}: holds unfinished rows of a command that differs in {', '.join(differences)}; "
            "repeat that command, or remove the folder to start again"
        )
        assert {path.name: path.read_bytes() for path in partial(out).iterdir()} == before

    refused(predict_command(model, data, keep="text"), '--keep ("n", now "text")')
    refused(predict_command(model, data, keep="n", depth=1), "--depth (not set, now 1)")
    card = TaskCard("classify", "classify", ("red", "blue"), ("accuracy",), max_length=64)
    head = HeadSettings("classify", labels=2)
    other_model = save_untrained_model(tmp_path / "other", checkpoint, head, card, seed=4)
    refused(predict_command(other_model, data, keep="n"), "the model")
    other_data = write_rows(tmp_path / "other.csv", 50)
    refused(predict_command(model, other_data, keep="n"), "the data")
    refused(
        predict_command(model, data, keep="n", precision="bf16"),
        'the engine ("torch, fp32", now "torch, bf16")',
    )
    with monkeypatch.context() as patch:
        patch.setattr(row_identity, "__version__", "0.0.1")
        refused(command, "the version")
    content = data.read_bytes()
    data.write_bytes(content + b"r99,ka,99\n")
    refused(command, "the data")
    (partial(out) / "checkpoint.json").unlink()
    data.write_bytes(content)
    command(out)
    assert out.read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_reports_beside_a_model_do_not_change_it(model: Path, tmp_path: Path) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command = predict_command(model, data)
    interrupt(command, out, 2)
    for name in ("report.html", "answers.csv", "dev_predictions.json", "evaluation.json", "optimizer.bin"):
        (model / name).write_text("new")
    command(out)


@pytest.mark.parametrize(
    "damage",
    [
        "short content",
        "changed content",
        "no content",
        "short checkpoint",
        "changed checkpoint",
        "empty checkpoint",
    ],
)
def test_damaged_rows_are_computed_again(
    damage: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command = score_command(checkpoint, data)
    command(tmp_path / "expected.csv")
    interrupt(command, out, 3)
    kind, _, name = damage.partition(" ")
    file = partial(out) / {"content": "content", "checkpoint": "checkpoint.json"}[name]
    content = file.read_bytes()
    match kind:
        case "short":
            file.write_bytes(content[:100])
        case "changed":
            file.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        case "empty":
            file.write_bytes(b"{}")
        case _:
            file.unlink()
    capsys.readouterr()
    command(out)
    messages = capsys.readouterr().err
    assert messages.startswith(f"{partial(out)}: damaged; starting again\n")
    assert "resuming" not in messages
    assert out.read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_what_follows_the_last_checkpoint_is_dropped(model: Path, tmp_path: Path) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command = predict_command(model, data)
    command(tmp_path / "expected.csv")
    interrupt(command, out, 3)
    with (partial(out) / "content").open("ab") as stream:
        stream.write(b'r21,"half of a row')
    command(out)
    assert out.read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_a_second_command_refuses(model: Path, tmp_path: Path) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command = predict_command(model, data)
    interrupt(command, out, 3)
    message = f"{out}: another process is writing it; wait for it, or name another file"
    with file_lock(partial(out) / "lock", "busy"), pytest.raises(InputError) as raised:
        command(out)
    assert str(raised.value) == message
    command(out)


def test_a_file_that_another_command_has_just_written_is_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    monkeypatch.setattr(
        "albertine.inference.table_writer.check_output_file", lambda _: out.write_text("first")
    )
    with pytest.raises(InputError, match=r"out.csv: exists already; name another file or remove it"):
        predict_command(model, data)(out)
    assert out.read_text() == "first"
    assert names(tmp_path) == {"data.csv", "out.csv"}


def test_leftovers_of_a_finished_file_are_removed(model: Path, tmp_path: Path) -> None:
    """A command that is killed just after its file has appeared cannot remove its folder."""
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command = predict_command(model, data)
    interrupt(command, out, 3)
    (partial(out) / "content").rename(out)
    with pytest.raises(InputError, match="exists already"):
        command(out)
    assert names(tmp_path) == {"data.csv", "out.csv"}


def test_files_of_others_in_the_folder_stay(model: Path, tmp_path: Path) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    partial(out).mkdir()
    (partial(out) / "content").write_text("mine")
    with pytest.raises(
        InputError, match=r"out.csv.partial: exists, and is needed for unfinished rows; rename"
    ):
        predict_command(model, data)(out)
    assert (partial(out) / "content").read_text() == "mine"


def test_an_output_in_the_folder_of_the_data_resumes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.tsv").write_text("a")
    out = tmp_path / "data" / "out.jsonl"
    before = row_identity._data_identity(str(tmp_path / "data"), out)
    partial(out).mkdir()
    (partial(out) / "content").write_text("rows")
    out.write_text("rows")
    assert row_identity._data_identity(str(tmp_path / "data"), out) == before
    (tmp_path / "data" / "train.tsv").write_text("changed")
    assert row_identity._data_identity(str(tmp_path / "data"), out) != before


def test_a_file_of_texts_that_are_all_too_long_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data.txt", tmp_path / "out.csv"
    data.write_text(f"{'ka ' * 500}\n" * 30)
    for _ in range(2):
        with pytest.raises(InputError, match=r"no texts, but 30 that are too long"):
            score_command(checkpoint, data)(out)
        assert names(tmp_path) == {"data.txt"}


def test_a_full_disk_names_the_output_and_keeps_what_is_finished(model: Path, tmp_path: Path) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    command, error = predict_command(model, data), OSError(28, "No space left on device")
    command(tmp_path / "expected.csv")
    interrupt(command, out, 2, error)
    assert error.filename == str(out)
    command(out)
    assert out.read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_an_invalid_row_may_be_skipped_after_all(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    with pytest.raises(InputError, match=r"a text of .* tokens"):
        score_command(checkpoint, data, on_error="stop")(out)
    assert partial(out).is_dir()
    interrupt(score_command(checkpoint, data, on_error="skip"), out, 2)
    assert "resuming after row 7" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"data.csv, line 12: a text of .* fix it, or use --on-error skip"):
        score_command(checkpoint, data, on_error="stop")(out)
    assert score_command(checkpoint, data)(out) == NUM_ROWS - 1
    assert "skipped rows: 1" in capsys.readouterr().err


def test_data_without_a_version_do_not_resume(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = write_rows(tmp_path / "data.csv"), tmp_path / "out.csv"
    assert row_identity._data_identity("hub:owner/name", out) is None
    monkeypatch.setattr(predict_module, "row_identity", lambda *_: None)
    predict_command(model, data)(out)
    assert names(tmp_path) == {"data.csv", "out.csv"}


def test_checkpoints_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_file, "_MIN_SECONDS", 1.0)
    monkeypatch.setattr(resumable_file, "_MAX_COST", 0.01)
    now, saved = [0.0], []

    def slow_write(_file: Path, _value: object) -> None:
        saved.append(now[0])
        now[0] += 0.2

    monkeypatch.setattr(resumable_file, "write_checked_json", slow_write)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with (tmp_path / "content").open("ab") as stream:
        file = ResumableFile(tmp_path, {}, stream)
        while now[0] < 50:
            now[0] += 0.5
            file.write("row")
            file.save(dict)
    assert saved == [1.0, pytest.approx(21.2, abs=0.6), pytest.approx(41.4, abs=1.1)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "num_rows"), [("predict", 60_000), ("score", 12_000)])
def test_killed_processes_resume(
    kind: str, num_rows: int, model: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """The real command, killed at random moments, with its own chunks and checkpoints.

    It takes several seconds, because the first checkpoint comes after one.
    """
    data = write_rows(tmp_path / "data.csv", num_rows, max_words=2)
    words = [kind, str(model if kind == "predict" else checkpoint), "--data", str(data), "--device", "cpu"]
    words += ["--on-error", "skip", "--out"]
    out, expected = tmp_path / "out.csv", tmp_path / "expected.csv"
    command = [sys.executable, "-m", "albertine", *words]
    subprocess.run([*command, str(expected)], check=True)
    rng = random.Random(time.time_ns())
    resumed = 0
    for number in (signal.SIGKILL, signal.SIGTERM, None):
        process = subprocess.Popen([*command, str(out)], stderr=subprocess.PIPE, text=True)
        if number is not None:
            before = checkpoint_time(out)
            while process.poll() is None and checkpoint_time(out) == before:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.2))
            process.send_signal(number)
        _, messages = process.communicate()
        resumed += "resuming after row" in messages
        if out.exists():
            break
    assert out.read_bytes() == expected.read_bytes()
    assert resumed
    assert names(tmp_path) == {"data.csv", "out.csv", "expected.csv"}


def checkpoint_time(out: Path) -> int:
    file = partial(out) / "checkpoint.json"
    try:
        return int(json.loads(file.read_bytes())["value"]["bytes"])
    except OSError:
        return 0
