"""`albertine export --to web`: its tokenizer, its libraries, and what it refuses."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.model.model_fixtures import random_strip
from tests.sentencepiece_fixture import sentencepiece_model
from tests.task_fixtures import LABELS, MODEL, save_untrained_model

from albertine import pipeline
from albertine.cli import app
from albertine.command import run_command
from albertine.engines.exported_folder import open_engine
from albertine.engines.model_files import write_model
from albertine.errors import InputError, WorkError
from albertine.export import npm_packages
from albertine.export.export import export
from albertine.export.npm_packages import NpmPackage, copy_libraries, has_cached_packages, package_archives
from albertine.export.settings import ExportSettings
from albertine.export.web_page import PAGE_FILES, first_visit_bytes
from albertine.export.web_tokenizer import expected_ids, hard_texts, run_web_tokenizer
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.settings.schema import SettingError
from albertine.tasks.card import TaskCard
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.text.tokenizer_training import build_tokenizer

_SOURCES = Path(npm_packages.__file__).parent / "web"
BERT_WORDS = (
    "the ida put it a b c d e i n o s t 1 0 , . ( ) - 漢 字 中 国 é ß n ##a ##b ##e ##s ##t ##o ##é ο δ σ ##ς"
)
CARD = TaskCard("classify", "classify", labels=LABELS, metric_names=("accuracy",), max_length=64)


@pytest.fixture
def classifier(checkpoint: Path, tmp_path: Path) -> Path:
    return save_untrained_model(tmp_path / "classifier", checkpoint, HeadSettings("classify", labels=3), CARD)


def tokenizer_folder(kind: str, folder: Path, made: Path) -> Path:
    if kind == "trained":
        return made
    folder.mkdir()
    if kind == "sentencepiece":
        (folder / "spiece.model").write_bytes(sentencepiece_model())
    elif kind.startswith("bert"):
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(BERT_WORDS.split())]
        (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        if kind == "bert, cased":
            (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    else:
        texts = [text for text in hard_texts() if "\0" not in text] * 3
        (folder / "text.txt").write_text("\n".join(texts), encoding="utf-8")
        settings = TokenizerSettings(
            vocab_size=3000,
            layout="lines",
            allow_smaller=True,
            byte_fallback=kind == "bytes",
            cased=kind == "accents",
            keep_accents=kind == "accents",
        )
        build_tokenizer([str(folder / "text.txt")], folder / "made", settings)
        return folder / "made"
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sentencepiece", "bert", "trained", "bert, cased", "bytes", "accents"])
def test_a_thousand_hard_texts_have_the_same_ids(
    kind: str, tokenizer: Path, archives: dict[NpmPackage, Path], tmp_path: Path
) -> None:
    loaded = load_tokenizer(tokenizer_folder(kind, tmp_path / "tokenizer", tokenizer))
    page = tmp_path / "page"
    page.mkdir()
    copy_libraries(archives, page / "lib", gpu=False)
    shutil.copy(_SOURCES / "tokenizer.js", page)
    (page / "tokenizer.json").write_text(json.dumps(loaded.pipeline()), encoding="utf-8")
    (page / "page.json").write_text(json.dumps({"special": vars(loaded.special_ids)}))
    node = shutil.which("node")
    assert node is not None
    texts = hard_texts()
    assert len(texts) == 1000
    answers = run_web_tokenizer(node, page, texts)
    for text, answer, expected in zip(texts, answers, expected_ids(loaded, texts), strict=True):
        assert {use: answer[use] for use in expected} == expected, text
    plain = ["Ida put the café in 1899, didn't she?", "naïve Zürich ß ﬁne", "漢字 한국어 🙂 x"]
    for text, answer in zip(plain, run_web_tokenizer(node, page, plain), strict=True):
        ((_, offsets),) = loaded.encode_with_offsets([text])
        starts = [len(text[:index].encode("utf-16-le")) // 2 for index in range(len(text) + 1)]
        assert answer["offsets"] == [[starts[start], starts[end]] for start, end in offsets]


@pytest.mark.slow
def test_the_folder_predicts_in_python_and_says_what_a_visit_costs(
    classifier: Path, archives: dict[NpmPackage, Path], tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    assert run_command(app, ["export", str(classifier), "--to", "web", "--out", str(out)]) == 0
    assert "verified; its outputs equal those of" in capsys.readouterr().err.replace("\n", " ")
    actual, expected = pipeline(out)("kalo mi"), pipeline(classifier, precision="fp32")("kalo mi")
    assert actual["probability"] == pytest.approx(expected["probability"], abs=1e-5)
    readme = (out / "README.md").read_text(encoding="utf-8")
    assert "python -m http.server 8000" in readme
    total, compressed = first_visit_bytes(out)
    assert 3_500_000 < compressed < 4_500_000 < total
    page = json.loads((out / "page.json").read_text(encoding="utf-8"))
    assert page["tasks"][0]["labels"] == list(LABELS)
    assert page["blocks"] == [["block.onnx"]] * 2 * MODEL.layers


@pytest.mark.slow
def test_int8_has_a_quarter_of_the_weights_and_no_files_for_webgpu(
    classifier: Path, archives: dict[NpmPackage, Path], tmp_path: Path
) -> None:
    full = export(classifier, tmp_path / "full", ExportSettings(to="web"))
    small = export(classifier, tmp_path / "small", ExportSettings(to="web", precision="int8"), force=True)
    assert small.num_bytes < full.num_bytes
    sizes = [(tmp_path / name / "tokens.bin").stat().st_size for name in ("full", "small")]
    assert sizes[0] == 4 * sizes[1]
    assert (tmp_path / "full" / "lib" / "ort-gpu.wasm").is_file()
    assert not (tmp_path / "small" / "lib" / "ort-gpu.wasm").exists()


@pytest.mark.slow
def test_a_missing_block_is_named(classifier: Path, archives: dict[NpmPackage, Path], tmp_path: Path) -> None:
    export(classifier, tmp_path / "out", ExportSettings(to="web"))
    (tmp_path / "out" / "block.onnx").unlink()
    with pytest.raises(InputError, match=r"block\.onnx: missing"):
        pipeline(tmp_path / "out")


@pytest.mark.slow
def test_a_graph_that_cannot_run_is_named(tmp_path: Path) -> None:
    write_model(Model(MODEL, HeadSettings("classify")), tmp_path, "onnx", in_steps=True)
    settings = replace(MODEL, step_signal=True)  # the graph of the block has no such input
    head = HeadSettings("classify")
    engine = open_engine("web", tmp_path / "embed.onnx", torch.float32, settings, head, "it", in_steps=True)
    with pytest.raises(InputError, match=r"block\.onnx: ONNX Runtime cannot run it"):
        engine.run(random_strip([3]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth_rule": "halting"}, "depth_rule = halting: its steps are not calls"),
        ({"step_rank": 2}, "step_rank = 2: its steps are not calls"),
        ({"step_vectors": True}, "step_vectors = true: its steps are not calls"),
    ],
)
def test_plans_whose_steps_differ_are_refused(
    changes: dict[str, Any], message: str, checkpoint: Path, tmp_path: Path
) -> None:
    model = Model(replace(MODEL, **changes), HeadSettings("pretrain"))
    save_folder(model, tmp_path / "model", tokenizer=load_tokenizer(checkpoint))
    with pytest.raises(InputError, match=message):
        export(tmp_path / "model", tmp_path / "out", ExportSettings(to="web"))
    assert not (tmp_path / "out").exists()


def test_archives_of_a_folder_are_checked(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"--packages: .*onnxruntime-web-1\.30\.0\.tgz is missing; run: npm pack"
    ):
        package_archives(tmp_path)
    (tmp_path / "onnxruntime-web-1.30.0.tgz").write_bytes(b"another")
    with pytest.raises(InputError, match="not the published archive, or damaged"):
        package_archives(tmp_path)


def test_a_folder_of_archives_takes_the_place_of_npm(
    archives: dict[NpmPackage, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in archives.values():
        shutil.copy(file, tmp_path)
    monkeypatch.setenv("PATH", "")
    assert package_archives(tmp_path).keys() == archives.keys()


def fake_npm(folder: Path, script: str) -> None:
    folder.mkdir()
    (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "npm").chmod(0o755)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            None,
            "export to web needs npm, to fetch onnxruntime-web 1.30.0; install Node.js, or give --packages",
        ),
        ("echo refused >&2; exit 1", r"npm cannot fetch onnxruntime-web 1.30.0 \(status 1: refused\)"),
        ("exit 0", r"npm cannot fetch onnxruntime-web 1.30.0 \(status 0\)"),
        (
            'while [ $# -gt 1 ]; do shift; done; echo x > "$1/onnxruntime-web-1.30.0.tgz"',
            "fetched another archive",
        ),
    ],
)
def test_failures_of_npm_are_one_line(
    script: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", "")
    else:
        fake_npm(tmp_path / "bin", script)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises((InputError, WorkError), match=message):
        package_archives(None)
    assert not has_cached_packages()
    assert list(tmp_path.glob("cache/albertine/npm/*")) == []


def test_settings_of_the_web_need_it() -> None:
    with pytest.raises(SettingError, match="needs to = web"):
        ExportSettings(packages=Path("p")).check()
    with pytest.raises(SettingError, match="needs to = openvino"):
        ExportSettings(to="web", precision="int8", calibrate=Path("rows.csv")).check()


def test_all_files_of_the_page_are_package_data() -> None:
    assert {file.name for file in _SOURCES.iterdir()} == {*PAGE_FILES, "ids.js"}


_WORDS_OF_TEXTS = """
import { TASKS } from "%s";
const page = { max_length: 64, special: { unk: 1, cls: 2, sep: 3 } };
const words = (text) => TASKS.tag.encode({ text }, page, { ids: () => [7] }).details.words;
process.stdin.setEncoding("utf8");
let input = "";
process.stdin.on("data", (part) => { input += part; });
process.stdin.on("end", () => console.log(JSON.stringify(JSON.parse(input).map(words))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_splits_words_as_python_does(tmp_path: Path) -> None:
    """For each character of the basic plane; a byte order mark is white space to JavaScript alone."""
    characters = [chr(code) for code in range(1, 1 << 16) if not 0xD800 <= code < 0xE000]
    blocks = [
        "".join(f"a{character}b " for character in characters[i : i + 16]) for i in range(0, 63_487, 16)
    ]
    script = tmp_path / "words.mjs"
    script.write_text(
        _WORDS_OF_TEXTS % (Path(npm_packages.__file__).parent / "web" / "tasks.js").as_uri(), encoding="utf-8"
    )
    command = [shutil.which("node") or "", str(script)]
    output = subprocess.run(command, input=json.dumps(blocks), capture_output=True, text=True, check=True)
    assert json.loads(output.stdout) == [block.split() for block in blocks]
