"""Tests of `examples/publish.py`: the model card, the package, and the upload to a local server."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from huggingface_hub import ModelCard

from albertine.corpus.corpus import Corpus
from albertine.inference.minimal_pairs import PairAccuracy
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.pretrain.settings import PretrainSettings
from albertine.report_card.card import ReportCard, TaskScores
from albertine.report_card.recipe import TASK_RECIPES
from albertine.report_card.results import (
    BaselineScores,
    CopiedData,
    EstimatedScore,
    HeldOutScores,
    MinimalPairScores,
)
from albertine.settings import HeadSettings, ModelSettings
from tests.conftest import write_text
from tests.interop.hub_server import HubHandler, run_script, serve_repository
from tests.interop.test_hub import load_in_process

EXAMPLES = Path(__file__).parent.parent / "examples"
PUSH_SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import albertine
from pathlib import Path
from publish import push
try:
    print(push(Path(sys.argv[2]), sys.argv[3]))
except albertine.AlbertineError as error:
    print(type(error).__name__, error)
"""


class UploadHandler(HubHandler):
    """A hub that accepts uploads to `someone/small`.

    Attributes:
        token: the only token that may write.
        large_files: content of the files that were uploaded by their checksum.
        requests: number of requests.
        endpoint: address of this server.
    """

    token = "secret"
    large_files: dict[str, bytes]
    requests: int = 0
    endpoint: str

    def do_GET(self) -> None:  # noqa: N802
        UploadHandler.requests += 1
        super().do_GET()

    def do_PUT(self) -> None:  # noqa: N802
        content = self.rfile.read(int(self.headers["content-length"]))
        UploadHandler.large_files[hashlib.sha256(content).hexdigest()] = content
        self.send(200, b"")

    def do_POST(self) -> None:  # noqa: N802
        UploadHandler.requests += 1
        content = self.rfile.read(int(self.headers["content-length"]))
        path = urlsplit(self.path).path
        if self.headers.get("authorization") != f"Bearer {self.token}" and path != "/api/validate-yaml":
            self.send(401, b"{}")
        elif path.endswith("/commit/main"):
            self.store([json.loads(line) for line in content.splitlines()])
            url = f"{self.endpoint}/someone/small/commit/1"
            self.send(200, json.dumps({"commitUrl": url, "commitOid": "1", "success": True}).encode())
        else:
            self.send(200, json.dumps(self.response(path, json.loads(content))).encode())

    def response(self, path: str, body: dict[str, list[dict[str, str]]]) -> dict[str, object]:
        """Return the response to all requests but the last, the commit."""
        if path == "/api/validate-yaml":
            return {"errors": [], "warnings": []}
        if path.endswith("/preupload/main"):
            modes = {True: "lfs", False: "regular"}
            return {
                "files": [
                    {
                        "path": file["path"],
                        "uploadMode": modes[file["path"].endswith(".safetensors")],
                        "shouldIgnore": False,
                    }
                    for file in body["files"]
                ]
            }
        if path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**entry, "actions": {"upload": {"href": f"{self.endpoint}/{entry['oid']}"}}}
                for entry in body["objects"]
            ]
            return {"transfer": "basic", "objects": objects}
        assert path == "/api/repos/create", path
        return {"url": f"{self.endpoint}/someone/small"}

    def store(self, operations: list[dict[str, Any]]) -> None:
        """Write the files of a commit into the repository."""
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                (self.folder / value["path"]).write_bytes(base64.b64decode(value["content"]))
            elif operation["key"] == "lfsFile":
                (self.folder / value["path"]).write_bytes(self.large_files[value["oid"]])


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Serve an empty repository; yield the environment variables that make the server the hub."""
    (tmp_path / "repository").mkdir()
    UploadHandler.large_files, UploadHandler.requests = {}, 0
    with serve_repository(tmp_path / "repository", tmp_path / "home", UploadHandler) as environment:
        UploadHandler.endpoint = environment["HF_ENDPOINT"]
        yield {**environment, "HF_TOKEN": UploadHandler.token}


def push_in_process(environment: dict[str, str], package: Path, name: str = "someone/small") -> str:
    """Upload a package in a new process; return what `PUSH_SCRIPT` prints."""
    return run_script(environment, PUSH_SCRIPT, str(EXAMPLES), str(package), name)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    model = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=2, heads=4, max_length=16)
    save_folder(Model(model, HeadSettings("pretrain"), seed=4), tmp_path / "package")
    (tmp_path / "package" / "README.md").write_text("---\nlicense: mit\n---\n# A card\n")
    return tmp_path / "package"


@pytest.mark.slow
def test_an_uploaded_model_loads_by_its_name(hub: dict[str, str], package: Path) -> None:
    assert push_in_process(hub, package) == f"{UploadHandler.endpoint}/someone/small"
    uploaded = {file.name: file.read_bytes() for file in HubHandler.folder.iterdir()}
    assert uploaded == {file.name: file.read_bytes() for file in package.iterdir()}
    assert load_in_process(hub, "someone/small").startswith("2 ")


@pytest.mark.slow
def test_failed_uploads_are_one_line(hub: dict[str, str], package: Path) -> None:
    refused = push_in_process({**hub, "HF_TOKEN": "wrong"}, package)
    assert refused.startswith(
        "InputError someone/small: the hub refuses the upload (status 401); set HF_TOKEN"
    )
    invalid = push_in_process(hub, package, "not a name")
    assert invalid.startswith("InputError not a name: not a valid hub name")
    unreachable = push_in_process({**hub, "HF_ENDPOINT": "http://127.0.0.1:9"}, package)
    assert unreachable.startswith("WorkError someone/small: the upload was interrupted")
    assert all("\n" not in message for message in (refused, invalid, unreachable))
    assert not list(HubHandler.folder.iterdir())


def test_the_card_has_every_score_beside_its_baseline(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from model_card import Author, model_card

    accuracy = PairAccuracy("overall", 3600, 0, 0.61, 0.59, 0.63)
    task = TaskScores(
        TASK_RECIPES["sst-2"],
        CopiedData("SST-2", 8000, 400),
        [0.80, 0.82, 0.84],
        [0.70, 0.71, 0.72],
        BaselineScores(tf_idf=0.79, most_common_label=0.51),
    )
    card = ReportCard(
        "run",
        1_234_567,
        HeldOutScores(90, 6.5, EstimatedScore(4.25, 4.125, 4.375), EstimatedScore(0.3, 0.29, 0.31), None),
        MinimalPairScores("word-l2r", accuracy, [], []),
        [task],
        {"MNLI": "tasks/ has no MNLI"},
        {},
        3,
    )
    author = Author("someone/small", "cc-by-4.0", "Letters of 1850.", "Dear [MASK].")
    rotary = ModelSettings(rotary=True)
    text = model_card(author, PretrainSettings(), rotary, corpus.manifest, card)
    metadata = ModelCard(text).data.to_dict()  # type: ignore[no-untyped-call]
    assert (metadata["license"], metadata["pipeline_tag"]) == ("cc-by-4.0", "fill-mask")
    for line in (
        "| held-out text: loss on [MASK] tokens | 4.250 | 4.125 to 4.375 "
        "| 6.500 with token frequencies alone |",
        "| held-out text: accuracy of sentence order, % | - | - | 50.0 by chance |",
        "| BLiMP, minimal pairs, % | 61.0 | 59.0 to 63.0 | 50.0 by chance |",
        # The interval of 400 examples: 0.98 / sqrt(400) is 4.9 points.
        "| SST-2, fine-tuned shortly: accuracy, % | 82.0 | 77.1 to 86.9 "
        "| 71.0 without pre-training, 79.0 with TF-IDF |",
        "Not measured: MNLI.",
        "Letters of 1850.",
        'pipeline("fill-mask", model="someone/small", trust_remote_code=True)',
        'print(fill_mask.fill("Dear [MASK]."))',
        f"{sum(corpus.manifest.tokens.values()):,} tokens; {corpus.manifest.tokens['dev']:,} tokens",
    ):
        assert line in text
    published = model_card(author, PretrainSettings(), ModelSettings(), corpus.manifest, card)
    assert "trust_remote_code" not in published


@pytest.mark.slow
def test_a_package_has_a_card_and_opens_in_transformers(hub: dict[str, str], tmp_path: Path) -> None:
    write_text(tmp_path / "text")
    command = [sys.executable, str(EXAMPLES / "publish.py"), str(tmp_path / "text"), str(tmp_path / "out")]
    command += ["--name", "someone/small", "--license", "cc0-1.0", "--about", "Made-up words."]
    command += ["--model", "albert-tiny", "--steps", "4", "--vocab-size", "300"]
    environment = {**os.environ, **hub, "OMP_NUM_THREADS": "1"}
    for _ in range(2):  # the second time, it resumes and replaces the package
        completed = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert completed.returncode == 0, completed.stderr
    assert UploadHandler.requests == 0  # without --push
    package = tmp_path / "out" / "package"
    card = (package / "README.md").read_text(encoding="utf-8")
    (code,) = [block for block in card.split("```python\n") if block.startswith("from transformers")]
    code = code.partition("```")[0].replace("someone/small", str(package))
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "token_str" in shown.stdout
    assert {"model.safetensors", "tokenizer.json"} <= {file.name for file in package.iterdir()}
    for name in ("README.md", "settings.toml", "report-card.json", "report-card.html", "config.json"):
        assert str(tmp_path) not in (package / name).read_text(encoding="utf-8")
