"""Text, tokenizers and corpora on object storage give the bytes that local ones give."""

import gzip
import io
import json
import os
import random
import subprocess
import sys
import urllib.parse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.manifest import read_manifest
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.errors import InputError
from albertine.storage import objects
from albertine.storage.cache import cache_folder
from albertine.storage.folder_manifest import UNFINISHED
from albertine.text import sources as sources_module
from albertine.text.find_sources import find_sources
from albertine.text.stored_texts import _matching_names
from tests.conftest import made_up_sentences

from .conftest import SECRET_KEY, LocalServer
from .test_folders import write_object


@pytest.fixture
def mixed_text(tmp_path: Path) -> Path:
    """Text of every format, in folders, with files that are no text and hidden ones."""
    folder = tmp_path / "mixed"
    (folder / "b").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    prose = [" ".join(made_up_sentences(seed, 400)) for seed in range(6)]
    (folder / "a.txt").write_text("\n\n".join(prose[:3]))
    (folder / "b.txt").write_text("\n".join(made_up_sentences(9, 300)))
    (folder / "b" / "z.txt.gz").write_bytes(gzip.compress(prose[3].encode()))
    (folder / "b" / "y.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in prose[4:]))
    parquet.write_table(
        pa.table({"text": made_up_sentences(20, 50)}), folder / "c.parquet", row_group_size=20
    )
    with pa.output_stream(str(folder / "d.txt.zst"), compression="zstd") as stream:
        stream.write(" ".join(made_up_sentences(21, 500)).encode())
    (folder / "readme.md").write_text("not text")
    (folder / ".hidden" / "x.txt").write_text("hidden")
    (folder / ".y.txt").write_text("hidden")
    return folder


def upload_plainly(folder: Path, url: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            write_object(f"{url}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def shard_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.arrow")}


@pytest.mark.slow
@pytest.mark.parametrize("options", ["--workers 1", "--workers 2", "--cluster ray"])
def test_a_corpus_of_urls_has_the_bytes_of_a_local_one(
    any_bucket: str,
    mixed_text: Path,
    tokenizer: Path,
    tmp_path: Path,
    options: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "ray" in options:
        pytest.importorskip("ray")  # it is not built for every platform
        monkeypatch.setenv("RAY_ADDRESS", "local")
        # Ray remembers the token of the home of its first cluster, and each test has a home of its own.
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    upload_plainly(mixed_text, f"{any_bucket}/text")
    arguments = ["--held-out", "0.1", "--tokenizer", str(tokenizer)]
    local = tmp_path / "corpus"
    assert run_command(app, ["corpus", "build", str(mixed_text), "--out", str(local), *arguments]) == 0
    out = f"{any_bucket}/corpus"
    command = ["corpus", "build", f"{any_bucket}/text", "--out", out, *arguments, *options.split()]
    assert run_command(app, command) == 0
    corpus = Corpus(Path(out))
    assert shard_bytes(corpus.folder) == shard_bytes(local)
    expected, found = read_manifest(local), corpus.manifest
    assert found.shards == expected.shards
    assert [name.removeprefix(f"{any_bucket}/text") for name in found.sources] == [
        name.removeprefix(str(mixed_text)) for name in expected.sources
    ]
    assert run_command(app, ["corpus", "check", out]) == 0
    assert run_command(app, ["corpus", "show", out]) == 0
    assert run_command(app, ["check", out]) == 0
    assert run_command(app, command) == 2  # exists already
    assert not list((cache_folder() / "work").rglob("*.arrow"))


def test_samples_of_a_corpus_on_object_storage_are_those_of_a_local_one(bucket: str, corpus: Corpus) -> None:
    upload_plainly(corpus.folder, f"{bucket}/corpus")
    objective = ObjectiveSettings(max_length=64)
    local, remote = (
        PretrainDataset(corpus, objective),
        PretrainDataset(Corpus(Path(f"{bucket}/corpus")), objective),
    )
    assert len(local) == len(remote)
    indices = np.arange(len(local))
    for first, second in zip(local.draw(indices), remote.draw(indices), strict=True):
        assert (first.tokens == second.tokens).all()


def test_an_object_whose_name_looks_like_a_pattern_is_found(any_bucket: str) -> None:
    write_object(f"{any_bucket}/notes[1].txt", b"One text.")
    write_object(f"{any_bucket}/notes1.txt", b"Another one.")
    (source,) = find_sources([f"{any_bucket}/notes[1].txt"])
    assert source.name.endswith("notes[1].txt")
    assert len(find_sources([f"{any_bucket}/notes*.txt"])) == 2


def test_text_of_an_upload_that_is_not_complete_is_refused(bucket: str) -> None:
    write_object(f"{bucket}/world/text/a.txt", b"One text.")
    write_object(f"{bucket}/world/{UNFINISHED}", b"")
    write_object(f"{bucket}/other/a.txt", b"Another one.")
    for name in ("world", "world/text"):
        with pytest.raises(InputError, match=f"{bucket}/world: an upload that is not complete"):
            find_sources([f"{bucket}/{name}"])
    assert find_sources([f"{bucket}/other", f"{bucket}/*/a.txt"])


def test_a_large_text_is_read_in_ranges(
    any_bucket: str, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chunks of a file give the documents of the local file, and no request takes the whole file."""
    file = tmp_path / "long.txt"
    rng = random.Random(0)
    sentences = made_up_sentences(3, 2000)
    file.write_text("\n\n".join(" ".join(rng.choices(sentences, k=50)) for _ in range(5000)))
    assert file.stat().st_size > 9 << 20
    write_object(f"{any_bucket}/long.txt", file.read_bytes())
    requested = []
    original = objects._ObjectReader.readinto

    def record(self: objects._ObjectReader, buffer: memoryview) -> int:
        requested.append(len(buffer))
        return original(self, buffer)

    monkeypatch.setattr(objects._ObjectReader, "readinto", record)
    (source,), (local,) = find_sources([f"{any_bucket}/long.txt"]), find_sources([str(file)])
    chunks, local_chunks = (
        list(sources_module.source_chunks(source)),
        list(sources_module.source_chunks(local)),
    )
    assert len(chunks) == len(local_chunks) > 1
    for chunk, local_chunk in zip(chunks, local_chunks, strict=True):
        assert list(sources_module.read_blocks(chunk)) == list(sources_module.read_blocks(local_chunk))
    assert max(requested) < file.stat().st_size / 2


def test_a_tokenizer_goes_to_object_storage_and_back(bucket: str, text: Path, tmp_path: Path) -> None:
    local = tmp_path / "tokenizer"
    arguments = ["--vocab-size", "200", "--allow-smaller"]
    assert run_command(app, ["tokenizer", "train", str(text), "--out", str(local), *arguments]) == 0
    upload_plainly(text, f"{bucket}/text")
    out = f"{bucket}/tokenizer"
    assert run_command(app, ["tokenizer", "train", f"{bucket}/text", "--out", out, *arguments]) == 0
    for path in local.iterdir():
        with objects.open_object(f"{out}/{path.name}") as stream:
            assert stream.read() == path.read_bytes()
    assert run_command(app, ["tokenizer", "show", out, "a text"]) == 0


def test_a_build_whose_upload_failed_is_only_uploaded_again(
    bucket: str, text: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, wanted = f"{bucket}/corpus", CorpusSettings(workers=1)

    def fail(*_: object, **__: object) -> None:
        raise InputError("no connection")

    with monkeypatch.context() as patched:
        patched.setattr("albertine.storage.upload.upload_files", fail)
        with pytest.raises(InputError, match="no connection"):
            build_corpus([str(text)], tokenizer, Path(url), wanted)
    with pytest.raises(InputError, match="of other text, tokenizer or settings"):
        build_corpus([str(text)], tokenizer, Path(url), CorpusSettings(workers=1, held_out=0.2))
    with monkeypatch.context() as patched:
        patched.setattr("albertine.corpus.build.run_jobs", fail)
        manifest = build_corpus([str(text)], tokenizer, Path(url), wanted)
    assert Corpus(Path(url)).manifest == manifest
    assert not list((cache_folder() / "work").glob("*/*.json"))


@pytest.mark.parametrize("source", ["a.txt", "-"])
def test_a_finished_corpus_of_text_that_has_changed_is_not_uploaded(
    source: str, bucket: str, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InputError("no connection")

    def build(text: str) -> None:
        (tmp_path / "a.txt").write_text(text)
        os.utime(tmp_path / "a.txt", (len(text), len(text)))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        names = ["-" if source == "-" else str(tmp_path / source)]
        build_corpus(names, tokenizer, Path(f"{bucket}/corpus"), CorpusSettings(workers=1))

    first = " ".join(made_up_sentences(1, 40))
    with monkeypatch.context() as patched:
        patched.setattr("albertine.storage.upload.upload_files", fail)
        with pytest.raises(InputError, match="no connection"):
            build(first)
    with pytest.raises(InputError, match="a finished corpus of other text"):
        build(" ".join(made_up_sentences(2, 50)))
    build(first)
    assert Corpus(Path(f"{bucket}/corpus")).manifest.documents["train"] == 1


@pytest.mark.parametrize("name", ["q?x.txt", "b//c.txt", "a\\b.txt"])
def test_an_object_whose_name_is_not_supported_is_named(name: str, server: LocalServer, bucket: str) -> None:
    folder = bucket.removeprefix("s3://")
    for key in ("good.txt", name):
        server.request("PUT", f"{folder}/text/{urllib.parse.quote(key)}", b"It is fine.")
    with pytest.raises(InputError, match="name of an object is not supported: ") as raised:
        find_sources([f"{bucket}/text"])
    assert ascii(name)[1:-1] in str(raised.value)
    assert [source.name for source in find_sources([f"{bucket}/text/g*.txt"])] == [f"{bucket}/text/good.txt"]


_NAMES = ["a.txt", "b.txt", "x/a.txt", "x/y/c.txt", "x/.h/d.txt", ".e.txt", "x/n.md", "z.d/f.txt"]
_COMPONENTS = st.sampled_from(
    ["*", "**", "x", "*.txt", "a*", "[ab].txt", "?", "y", "z.d", ".*", "*.md", ".h"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_COMPONENTS, min_size=1, max_size=4))
def test_patterns_match_what_they_match_locally(
    tmp_path_factory: pytest.TempPathFactory, components: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "patterns"
    for name in _NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    try:
        found = [
            str(Path(source.name).relative_to(folder))
            for source in find_sources(["/".join([str(folder), *components])])
        ]
    except InputError:
        found = []
    assert _matching_names(sorted(_NAMES), components) == found


_BUILD = "corpus build {} --tokenizer {{tokenizer}} --out {}"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (_BUILD.format("{bucket}/none", "{out}"), "no such"),
        (_BUILD.format("s3://no-such-bucket-here/x", "{out}"), "no such bucket"),
        (_BUILD.format("{text}", "s3://no-such-bucket-here/x"), "no such bucket"),
        (_BUILD.format("s3://k:hunter2@b/x", "{out}"), "may be secret"),
        (_BUILD.format("{text}", "s3://b/x?sig=hunter2"), "may be secret"),
        (_BUILD.format("https://h/x?sig=hunter2", "{out}"), "not supported"),
        ("corpus check {bucket}/none", "no such folder"),
        ("corpus show s3://no-such-bucket-here/x", "no such bucket"),
        ("tokenizer show {bucket}/none x", "no such folder"),
        ("check {bucket}/none", "no such"),
    ],
)
def test_wrong_urls_give_one_line_and_status_2(
    bucket: str,
    text: Path,
    tokenizer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    message: str,
) -> None:
    values = {"bucket": bucket, "text": text, "tokenizer": tokenizer, "out": tmp_path / "out"}
    status = run_command(app, command.format(**values).split())
    error = capsys.readouterr().err
    assert status == 2, error
    assert message in error
    assert len(error.splitlines()) == 1
    assert "hunter2" not in error
    assert SECRET_KEY not in error


def test_importing_the_commands_imports_no_library_of_object_storage() -> None:
    code = (
        "import albertine.cli, sys; assert not {'pyarrow', 'fsspec', 'huggingface_hub'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
