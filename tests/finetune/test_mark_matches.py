"""Tests of fine-tuning with --mark-matches, through the command line: from training to predictions."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from tests.finetune.pair_fixtures import accuracy, check_saved_model
from tests.task_fixtures import MODEL, finetune_words

from albertine.checksums import json_checksum
from albertine.cli import app
from albertine.command import run_command
from albertine.finetune.settings import FinetuneSettings
from albertine.finetune.two_texts import with_marks
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.train.checkpoints import SETTINGS_KEY, STATE_FILE

_OPTIONS = {
    "task": "classify",
    "text-pair": "other",
    "dropout": "0",
    "train.precision": "fp32",
    "train.steps": "60",
    "train.lr": "5e-3",
    "train.warmup": "6",
    "train.batch-size": "16",
    "train.optimizer": "adamw",
    "train.evaluate-every": "60",
}


@pytest.fixture(scope="module")
def start(checkpoint: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untrained checkpoint."""
    folder = tmp_path_factory.mktemp("start") / "start"
    settings = replace(MODEL, embedding_size=32, hidden_size=32)
    save_folder(
        Model(settings, HeadSettings("pretrain"), seed=1), folder, tokenizer=load_tokenizer(tokenizer)
    )
    return folder


def arguments(
    start: Path, data: Path, out: Path, changes: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    return [*finetune_words(start, data, out, _OPTIONS | dict(changes)), "--mark-matches"]


@pytest.fixture(scope="module")
def run(start: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "marked"
    assert run_command(app, arguments(start, data, folder)) == 0
    return folder


def match_vector(folder: Path) -> torch.Tensor:
    match = load_folder(folder).encoder.embedding.match
    assert match is not None
    return match.detach()


def test_common_words_are_learned_at_once(run: Path, start: Path, data: Path, tmp_path: Path) -> None:
    assert accuracy(run) > 0.95
    assert match_vector(run).abs().max() > 0.01
    unmarked = arguments(start, data, tmp_path / "unmarked")[:-1]
    run_command(app, unmarked)
    assert accuracy(tmp_path / "unmarked") < 0.8


def test_the_saved_model_evaluates_and_predicts_as_in_training(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads((run / "config.json").read_text())["mark_matches"]
    check_saved_model(run, data, tmp_path, capsys)


def test_another_task_starts_with_the_trained_vector(run: Path, data: Path, tmp_path: Path) -> None:
    """A run that starts from it keeps marking, whether or not the option is given again."""
    words = arguments(
        run, data, tmp_path / "next", {"train.steps": "1", "train.warmup": "0", "train.lr": "1e-9"}
    )
    run_command(app, words[:-1])
    assert torch.allclose(match_vector(tmp_path / "next"), match_vector(run), atol=1e-6)


@pytest.mark.parametrize("second", ["other", ""], ids=["pairs", "single texts"])
def test_pairs_are_marked_by_default(tokenizer: Path, data: Path, tmp_path: Path, second: str) -> None:
    folder = tmp_path / "start"
    model = Model(replace(MODEL, rotary=True), HeadSettings("pretrain"), seed=1)
    save_folder(model, folder, tokenizer=load_tokenizer(tokenizer))
    changes = {"train.steps": "1", "train.warmup": "0", "text-pair": second}
    words = [word for word in arguments(folder, data, tmp_path / "run", changes) if word != "--mark-matches"]
    run_command(app, words)  # one step learns nothing, which is another exit status
    assert json.loads((tmp_path / "run" / "config.json").read_text())["mark_matches"] == bool(second)


def test_frozen_embeddings_still_learn_the_vector(start: Path, data: Path, tmp_path: Path) -> None:
    words = arguments(start, data, tmp_path / "run", {"train.steps": "5", "train.warmup": "1"})
    run_command(app, [*words, "--train.freeze-embeddings"])
    assert match_vector(tmp_path / "run").abs().max() > 0
    tables = [load_folder(folder).encoder.embedding.tokens.weight for folder in (start, tmp_path / "run")]
    assert torch.equal(*tables)


def test_one_text_per_example_is_refused(
    start: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, arguments(start, data, tmp_path / "out", {"text-pair": ""})) == 2
    assert "has only one text per example, so no token is in both; leave" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_of_one_segment_is_refused(
    tokenizer: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, folder = replace(MODEL, segments=1), tmp_path / "start"
    save_folder(Model(settings, HeadSettings("mlm"), seed=1), folder, tokenizer=load_tokenizer(tokenizer))
    assert run_command(app, arguments(folder, data, tmp_path / "out")) == 2
    assert "--mark-matches: the model has one segment" in capsys.readouterr().err


def remove_from_checkpoints(run: Path, line: str) -> None:
    """Remove a setting from all checkpoints, as if an earlier version had written them."""
    for file in run.glob(f"checkpoints/step-*/{STATE_FILE}"):
        state = json.loads(file.read_text())["state"]
        assert line in state[SETTINGS_KEY]
        state[SETTINGS_KEY] = state[SETTINGS_KEY].replace(line, "")
        file.write_text(json.dumps({"sha256": json_checksum(state), "state": state}))


def test_runs_of_earlier_versions_resume(
    start: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = arguments(start, data, tmp_path / "run", {"train.steps": "4", "train.warmup": "1"})[:-1]
    status = run_command(app, words)
    assert status != 2
    remove_from_checkpoints(tmp_path / "run", "mark_matches = false\n")
    assert run_command(app, words) == status
    capsys.readouterr()
    assert run_command(app, [*words, "--mark-matches"]) == 2
    assert "a run with mark_matches = false, not true" in capsys.readouterr().err


def test_an_unmarked_run_of_pairs_resumes_on_request(
    tokenizer: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier version began it, when pairs were not marked by default."""
    model = Model(replace(MODEL, rotary=True), HeadSettings("pretrain"), seed=1)
    save_folder(model, tmp_path / "start", tokenizer=load_tokenizer(tokenizer))
    words = arguments(tmp_path / "start", data, tmp_path / "run", {"train.steps": "4", "train.warmup": "1"})[
        :-1
    ]
    status = run_command(app, [*words, "--no-mark-matches"])
    assert status != 2
    remove_from_checkpoints(tmp_path / "run", "mark_matches = false\n")
    capsys.readouterr()
    assert run_command(app, words) == 2
    assert "a run with mark_matches = false, not true" in capsys.readouterr().err
    assert run_command(app, [*words, "--no-mark-matches"]) == status


def test_single_texts_are_no_error_for_a_model_that_marks(run: Path, data: Path, tmp_path: Path) -> None:
    """The settings of such a run say that its model marks matches; they repeat the run."""
    words = arguments(run, data, tmp_path / "one", {"text-pair": "", "train.steps": "2", "train.warmup": "1"})
    run_command(app, words[:-1])
    assert "mark_matches = true" in (tmp_path / "one" / "settings.toml").read_text()
    again = ["finetune", "--config", str(tmp_path / "one" / "settings.toml")]
    run_command(app, [*again, "--out", str(tmp_path / "again")])
    assert (tmp_path / "again" / "results.json").exists()


def test_marking_cannot_be_switched_off(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = arguments(run, data, tmp_path / "run", {"train.steps": "1", "train.warmup": "0"})
    run_command(app, [*words[:-1], "--no-mark-matches"])
    message = "--no-mark-matches has no effect: the model to start from marks matches\n"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "has_two_texts", "option", "expected"),
    [
        ({"rotary": True}, True, None, True),
        ({"rotary": True}, True, False, False),
        ({"rotary": True}, False, None, False),
        ({}, True, None, False),
        ({}, True, True, True),
        ({"mark_matches": True}, False, None, True),
        ({"mark_matches": True}, False, False, True),
    ],
)
def test_the_default_depends_on_texts_and_model(
    changes: dict[str, Any],
    has_two_texts: bool,
    option: bool | None,
    expected: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A model that `transformers` has stays one unless the user says otherwise."""
    settings = FinetuneSettings(task="classify", data="unused", mark_matches=option)
    marked = with_marks(replace(MODEL, **changes), settings, has_two_texts=has_two_texts)
    assert marked.mark_matches == expected
    is_plain_pair = not changes and has_two_texts and option is None
    assert ("--mark-matches would mark" in capsys.readouterr().err) == is_plain_pair
