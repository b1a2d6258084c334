"""Tests of reading files that may be damaged or hostile."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from albertine.checksums import file_checksum
from albertine.corpus.checked_json import read_checked_json
from albertine.corpus.manifest import read_manifest
from albertine.corpus.shards import Shard
from albertine.errors import InputError
from albertine.inference.ensemble_model import load_ensemble
from albertine.input_files import MAX_OBJECT_BYTES, read_bytes, read_json_object
from albertine.interop.tensor_bundle import read_tensor_bundle
from albertine.interop.transformers_config import read_config
from albertine.interop.weight_files import read_weights
from albertine.settings.engine import EngineOptions
from albertine.settings.toml import read_settings_file
from albertine.tasks.card import parse_card
from albertine.text.tokenizer import load_tokenizer
from albertine.train.metrics_log import read_last_metrics, read_metrics

READERS: list[tuple[str, Callable[[Path], object]]] = [
    ("config.json", read_config),
    ("task.json", parse_card),
    ("ensemble.json", lambda file: load_ensemble(file.parent, EngineOptions("cpu"))),
    ("tokenizer.json", lambda file: load_tokenizer(file.parent)),
    ("tokenizer_config.json", lambda file: load_tokenizer(file.parent)),
    ("model.safetensors", lambda file: read_weights(file.parent)),
    ("model.safetensors.index.json", lambda file: read_weights(file.parent)),
    ("pytorch_model.bin", lambda file: read_weights(file.parent)),
    ("model.index", lambda file: read_tensor_bundle(file.with_suffix(""))),
    ("metrics.jsonl", lambda file: read_metrics(file.parent)),
    ("dev-00000.arrow", file_checksum),
    ("dev-00000.arrow", Shard),
    ("manifest.json", lambda file: read_manifest(file.parent)),
    ("build.json", read_checked_json),
    ("metrics.jsonl", lambda file: read_last_metrics(file.parent)),
]


@pytest.mark.parametrize(
    ("name", "read", "target"),
    [
        *((name, read, target) for name, read in READERS for target in ("/dev/zero", "pipe")),
        ("settings.toml", read_settings_file, "/dev/zero"),
        ("settings.toml", read_settings_file, "pipe"),
        ("settings.toml", partial(read_settings_file, accept_pipe=True), "/dev/zero"),
    ],
)
def test_files_without_an_end_are_refused(
    name: str, read: Callable[[Path], object], target: str, tmp_path: Path
) -> None:
    if target == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to(target)
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        read(tmp_path / name)


def test_settings_may_come_from_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"layers = 3\n")
    os.close(writing)
    file = Path(f"/dev/fd/{reading}")
    assert read_settings_file(file, accept_pipe=True).values == {"layers": 3}
    os.close(reading)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not UTF-8"),
        (b'{"a": "\\ud800"}', "an unpaired surrogate"),
        (b'{"\\uDFFF": 1}', "an unpaired surrogate"),
        (b" " * (MAX_OBJECT_BYTES + 1), "larger than 16,000,000 bytes"),
    ],
)
def test_invalid_json_is_refused_with_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_json_object(file, "get the file again")
    assert "\n" not in str(error.value)


def test_json_with_a_surrogate_pair_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'{"a": "\\ud83d\\ude42"}')
    assert read_json_object(file, "") == {"a": "🙂"}


def test_folder_instead_of_a_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path, 10)


@pytest.mark.parametrize("content", ["a." * 40_000 + "a = 1", "a = 1\n" * 100_000, "a = [" + "[" * 50_000])
def test_settings_that_parse_slowly_are_refused(content: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content)
    with pytest.raises(InputError, match=re.escape(str(file))):
        read_settings_file(file)
