"""`hf://` URLs: models, text and tables of a repository, with a local server in place of the hub."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import ModelSettings
from tests.conftest import made_up_sentences
from tests.interop.hub_server import HubHandler, run_script, serve_repository
from tests.interop.test_hub import LOAD_SCRIPT

SETTINGS = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=3, heads=4, max_length=16)

pytestmark = pytest.mark.slow


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Serve a repository with a model, text and a table; yield the environment variables that name it."""
    repository = tmp_path / "repository"
    save_folder(Model(SETTINGS, seed=4), repository / "model")
    (repository / "text" / "inner").mkdir(parents=True)
    (repository / "text" / "a.txt").write_text("\n".join(made_up_sentences(1, 300)))
    (repository / "text" / "inner" / "b.txt").write_text("\n".join(made_up_sentences(2, 300)))
    with serve_repository(repository, tmp_path / "home") as environment:
        yield {**environment, "ALBERTINE_CACHE": str(tmp_path / "cache")}


def albertine(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a new process, because the library reads the variables when it is imported."""
    return subprocess.run(
        [sys.executable, "-m", "albertine", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_model_of_a_folder_is_loaded(hub: dict[str, str]) -> None:
    completed = albertine(hub, "info", "hf://someone/small/model", "--json")
    assert completed.returncode == 0, completed.stderr
    assert '"layers": 3' in completed.stdout
    assert HubHandler.downloads
    assert all(name.startswith("model/") for name in HubHandler.downloads)


def test_a_changed_file_of_the_same_size_is_downloaded_again(hub: dict[str, str]) -> None:
    url = "hf://models/someone/small/model"
    first = run_script(hub, LOAD_SCRIPT, url)
    assert run_script(hub, LOAD_SCRIPT, url) == first
    weights = HubHandler.folder / "model" / "model.safetensors"
    size = weights.stat().st_size
    shutil.rmtree(HubHandler.folder / "model")
    save_folder(Model(SETTINGS, seed=5), HubHandler.folder / "model")
    assert weights.stat().st_size == size
    assert run_script(hub, LOAD_SCRIPT, url) != first


@pytest.mark.parametrize("kind", ["", "datasets/"])
def test_text_is_read(hub: dict[str, str], tmp_path: Path, kind: str) -> None:
    """A tokenizer trained on text of the hub is that of the same local text."""
    vocabularies = list[bytes]()
    for text in (f"hf://{kind}someone/small/text", str(HubHandler.folder / "text")):
        out = tmp_path / f"tokenizer-{len(vocabularies)}"
        completed = albertine(hub, "tokenizer", "train", text, "--vocab-size", "220", "--out", str(out))
        assert completed.returncode == 0, completed.stderr
        vocabularies.append((out / "tokenizer.json").read_bytes())
    assert vocabularies[0] == vocabularies[1]
    assert {"text/a.txt", "text/inner/b.txt"} <= set(HubHandler.downloads)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hf://someone/small/none", "hf://someone/small/none: no such folder"),
        ("hf://someone/else", "hf://someone/else: no such folder, or an empty one; if it is private, "),
        ("hf://someone", "hf://someone: not a repository; expected hf://OWNER/NAME/PATH"),
    ],
)
def test_a_wrong_url_gives_one_line(hub: dict[str, str], url: str, message: str) -> None:
    completed = albertine(hub, "info", url)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert message in completed.stderr
    assert len(completed.stderr.splitlines()) == 1
