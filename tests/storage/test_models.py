"""Models on object storage predict what local ones predict."""

import json
from pathlib import Path

import pytest
import torch

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.storage.cache import cache_folder
from albertine.storage.upload import upload_new_folder
from tests.task_fixtures import checkpoint, finetune_settings, reviews, write_csv

from .conftest import SECRET_KEY

__all__ = ["checkpoint", "finetune_settings"]


def test_a_loaded_model_has_the_weights_of_the_folder(bucket: str, checkpoint: Path) -> None:
    url = f"{bucket}/models/albert"
    upload_new_folder(checkpoint, url)
    local, remote = albertine.load(checkpoint), albertine.load(url)
    expected = local.state_dict()
    assert all(torch.equal(weight, expected[name]) for name, weight in remote.state_dict().items())
    assert albertine.load_tokenizer(url).fingerprint == albertine.load_tokenizer(checkpoint).fingerprint
    texts = ["ka lo mi.", "ren tas."]
    vectors = albertine.pipeline(url, task="embed")(texts)
    assert (vectors == albertine.pipeline(checkpoint, task="embed")(texts)).all()


def test_settings_and_tokenizer_need_no_weights(
    bucket: str, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{bucket}/{checkpoint.name}"
    upload_new_folder(checkpoint, url)
    assert run_command(app, ["info", url, "--json"]) == 0
    remote = json.loads(capsys.readouterr().out)
    assert run_command(app, ["info", str(checkpoint), "--json"]) == 0
    local = json.loads(capsys.readouterr().out)
    assert str(remote).replace(url, "") == str(local).replace(str(checkpoint), "")
    assert run_command(app, ["tokenizer", "show", url, "ka lo"]) == 0
    assert not list(cache_folder().rglob("*.safetensors"))


def test_predictions_are_those_of_the_local_run(
    bucket: str,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A fine-tuned run predicts and is evaluated from object storage, without its checkpoints."""
    run = tmp_path / "run"
    finetune(str(checkpoint), run, finetune_settings)
    url = f"{bucket}/run"
    upload_new_folder(run, url)
    data = write_csv(tmp_path / "new.csv", reviews(9, 12))
    outputs: list[bytes] = []
    for model in (str(run), url):
        out = tmp_path / f"{len(outputs)}.csv"
        assert run_command(app, ["predict", model, "--data", str(data), "--out", str(out)]) == 0
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1]
    texts = [str(row["review"]) for row in reviews(3, 5)]
    assert albertine.pipeline(url)(texts) == albertine.pipeline(run)(texts)
    assert run_command(app, ["evaluate", url, "--data", str(data)]) == 0
    assert not list(cache_folder().rglob("optimizer.safetensors"))
    capsys.readouterr()
    assert run_command(app, ["evaluate", url, "--data", str(finetune_settings.data)]) == 0
    assert f"{url} was trained on rows of this file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("predict {bucket}/none --data {data}", "no such folder"),
        ("predict s3://no-such-bucket-here/x --data {data}", "no such bucket"),
        ("predict s3://k:hunter2@b/x --data {data}", "may be secret"),
        ("evaluate {bucket}/none --data {data}", "no such folder"),
        ("serve {bucket}/none --port 0", "no such folder"),
        ("export {bucket}/none --out {out}", "no such folder"),
        ("info {bucket}/none", "no such folder"),
        ("embed {bucket}/none --data {data}", "no such folder"),
        (
            "finetune {bucket}/none --task classify --data {data} --text review --label stars --out {out}",
            "no such folder",
        ),
        ("convert https://h/x?sig=hunter2 {out}", "not supported"),
    ],
)
def test_wrong_urls_of_models_give_one_line_and_status_2(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, message: str
) -> None:
    data = write_csv(tmp_path / "new.csv", reviews(9, 3))
    values = {"bucket": bucket, "data": data, "out": tmp_path / "out"}
    status = run_command(app, command.format(**values).split())
    error = capsys.readouterr().err
    assert status == 2, error
    assert message in error
    assert len(error.splitlines()) == 1
    assert "hunter2" not in error
    assert SECRET_KEY not in error


def test_pipeline_raises_the_same_error(bucket: str) -> None:
    with pytest.raises(InputError, match="no such folder"):
        albertine.pipeline(f"{bucket}/none")


def test_errors_name_the_url_of_a_model(
    bucket: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{bucket}/models/albert"
    upload_new_folder(checkpoint, url)
    command = ["evaluate", url, "--data", str(write_csv(tmp_path / "rows.csv", reviews(2, 3)))]
    assert run_command(app, command) == 2
    error = capsys.readouterr().err
    assert url in error
    assert str(cache_folder()) not in error
