"""Building a corpus: reproducible bytes, resuming after any interruption, errors and checks."""

import dataclasses
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albertine import atomic
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus import build, duplicates, encode_jobs, job_report, manifest, shard_writer
from albertine.corpus.build import build_corpus
from albertine.corpus.build_folder import locked_build_folder
from albertine.corpus.check import check_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.manifest import Manifest, read_manifest
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.errors import AlbertineError, ExitStatus, InputError, WorkError
from albertine.file_lock import file_lock
from albertine.text import sources
from albertine.text.token_text import split_marker
from albertine.text.tokenizer import load_tokenizer
from albertine.text.word_encoder import WordBoundaries
from tests.conftest import made_up_sentences, write_text


def file_contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def run_build(text: Path, tokenizer: Path, out: Path, **options: Any) -> Manifest:
    settings: dict[str, Any] = {"layout": "lines", "workers": 1} | options
    return build_corpus([str(text)], tokenizer, out, CorpusSettings(**settings))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.txt", {"field": "story"}, "--field story: is for .jsonl"),
        ("a.jsonl", {"layout": "prose"}, "--layout prose: is for .txt files"),
        ("a.txt", {"seed": 3}, "seed = 3: chooses the held-out text"),
    ],
)
def test_settings_without_effect_are_refused(
    name: str, options: dict[str, Any], message: str, tokenizer: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text('{"text": "One boat. Two boats."}\n')
    with pytest.raises(InputError, match=re.escape(message)):
        run_build(tmp_path / name, tokenizer, tmp_path / "made", **{"layout": "auto", **options})


def test_settings_for_one_of_several_formats_are_accepted(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("One boat.\nTwo boats.\n")
    (tmp_path / "text" / "b.jsonl").write_text('{"story": "Three boats."}\n')
    manifest = run_build(tmp_path / "text", tokenizer, tmp_path / "made", field="story")
    assert manifest.documents["train"] == 2


@pytest.fixture
def small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make jobs and shards so small that a short text gives many."""
    monkeypatch.setattr(sources, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(encode_jobs, "JOB_BYTES", 3000)
    monkeypatch.setattr(shard_writer, "SHARD_TOKENS", 5000)
    monkeypatch.setattr(duplicates, "_FINGERPRINTS_PER_FILE", 7)


def read_documents(text: Path) -> list[str]:
    return [
        document for file in sorted(text.iterdir()) for document in file.read_text().strip().split("\n\n")
    ]


def test_corpus_holds_the_text(corpus: Corpus, text: Path, tokenizer: Path) -> None:
    loaded = load_tokenizer(tokenizer)
    boundaries = WordBoundaries(loaded)
    expected = {
        tuple(
            token_id
            for line in document.split("\n")
            for token_id in loaded.encode(line, add_special_tokens=False)
        )
        for document in read_documents(text)
    }
    actual = set()
    counts = np.zeros(len(loaded))
    for split in ("train", "dev"):
        for shard in corpus.shards(split):
            starts = shard.word_starts(0, len(shard.tokens))
            for start, stop in itertools.pairwise(shard.document_offsets.tolist()):
                tokens = shard.tokens[start:stop]
                actual.add(tuple(tokens.tolist()))
                assert np.array_equal(shard.word_starts(start, stop), starts[start:stop])
                assert np.array_equal(starts[start:stop], boundaries.starts(tokens))
                sentences = shard.sentence_starts[
                    (shard.sentence_starts >= start) & (shard.sentence_starts < stop)
                ]
                assert sentences[0] == start
                for begin, end in itertools.pairwise([*sentences, stop]):
                    assert loaded.decode(shard.tokens[begin:end].tolist()).endswith(".")
                if split == "train":
                    counts += np.bincount(tokens, minlength=len(loaded))
    assert actual == expected
    manifest = corpus.manifest
    frequencies = counts[counts > 0] / counts.sum()
    assert manifest.unigram_entropy == pytest.approx(-(frequencies * np.log(frequencies)).sum())
    assert manifest.tokens["train"] == counts.sum()
    assert manifest.documents == {"train": 32, "dev": 8}
    assert manifest.vocab_size == 220
    assert manifest.tokenizer_fingerprint == loaded.fingerprint == corpus.tokenizer.fingerprint


@pytest.mark.usefixtures("small_jobs")
def test_job_and_shard_sizes_do_not_change_the_corpus(
    corpus: Corpus, text: Path, tokenizer: Path, tmp_path: Path
) -> None:
    manifest = run_build(text, tokenizer, tmp_path / "made", held_out=0.2)
    assert len(manifest.shards) > 4
    for name in ("documents", "sentences", "tokens", "words", "unigram_entropy", "duplicates"):
        assert getattr(manifest, name) == getattr(corpus.manifest, name), name
    for split in ("train", "dev"):
        actual = np.concatenate([shard.tokens for shard in Corpus(tmp_path / "made").shards(split)])
        assert np.array_equal(actual, np.concatenate([shard.tokens for shard in corpus.shards(split)]))
    check_corpus(tmp_path / "made")


@pytest.mark.slow
def test_worker_count_does_not_change_output(tokenizer: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for seed in range(3):  # three files, so three jobs
        record = {"text": " ".join(made_up_sentences(seed, 60))}
        (text / f"{seed}.jsonl").write_text(json.dumps(record) + "\n")
    arguments = ["corpus", "build", str(text), "--tokenizer", str(tokenizer), "--quiet"]
    for workers in ("1", "3"):
        command = [sys.executable, "-c", SMALL_JOBS, *arguments, "--workers", workers]
        subprocess.run([*command, "--out", str(tmp_path / workers)], check=True, capture_output=True)
    assert file_contents(tmp_path / "1") == file_contents(tmp_path / "3")
    assert {name.partition("-")[0] for name in file_contents(tmp_path / "1")} >= {"train", "manifest.json"}


# One job per file, so that several processes have work.
SMALL_JOBS = """
import sys
from albertine.corpus import encode_jobs
encode_jobs.JOB_BYTES = 100
from albertine.cli import app
from albertine.command import run_command
if __name__ == "__main__":
    sys.exit(run_command(app, sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("small_jobs")
@pytest.mark.parametrize("interrupted_write", [1, 4, 9, 14, 15, 17, 19])
def test_interrupted_build_resumes_to_the_same_bytes(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted_write: int
) -> None:
    run_build(text, tokenizer, tmp_path / "whole", held_out=0.2)
    writes = itertools.count(1)  # an atomic write ends with `Path.replace`
    original_replace = Path.replace

    def replace_or_interrupt(self: Path, target: Path) -> Path:
        if next(writes) == interrupted_write:
            raise KeyboardInterrupt
        return original_replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_build(text, tokenizer, tmp_path / "interrupted", held_out=0.2)
    monkeypatch.setattr(Path, "replace", original_replace)
    assert not (tmp_path / "interrupted" / "manifest.json").exists()
    with pytest.raises(InputError, match="unfinished, repeat its" if interrupted_write > 1 else "no corpus"):
        Corpus(tmp_path / "interrupted")
    finished_shards = {file: file.stat().st_mtime_ns for file in (tmp_path / "interrupted").glob("*.arrow")}
    run_build(text, tokenizer, tmp_path / "interrupted", held_out=0.2)
    assert file_contents(tmp_path / "interrupted") == file_contents(tmp_path / "whole")
    for file, modified in finished_shards.items():  # not written again
        assert file.stat().st_mtime_ns == modified


@pytest.mark.usefixtures("small_jobs")
def test_a_build_reads_the_names_of_its_files_only_at_its_start(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the time of a write is proportional to the number of parts."""
    searched = []
    original = atomic.partial_paths

    def recorded(folder: Path, name: str | None = None) -> list[Path]:
        searched.append((folder.name, name))
        return original(folder, name)

    monkeypatch.setattr(atomic, "partial_paths", recorded)
    manifest = run_build(text, tokenizer, tmp_path / "made", held_out=0.2)
    assert len(manifest.shards) > 4
    assert searched == [("made", "building"), ("building", "corpus.lock")][: len(searched)]


def damage(file: Path, kind: str) -> None:
    content = file.read_bytes()
    damaged = {
        "bit": content[:-20] + bytes([content[-20] ^ 4]) + content[-19:],
        "zeros": bytes(len(content)),
        "truncated": content[: len(content) // 2],
        "empty": b"",
        "appended": content + b"x",
    }
    file.write_bytes(damaged[kind])


@pytest.mark.slow
@pytest.mark.usefixtures("small_jobs")
@pytest.mark.parametrize("kind", ["bit", "zeros", "truncated", "empty", "appended"])
@pytest.mark.parametrize(
    "name",
    ["building/part-000001.arrow", "building/part-000001.json", "building/shards.json", "train-00000.arrow"],
)
def test_damage_of_an_unfinished_corpus_is_repaired(
    name: str, kind: str, text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    run_build(text, tokenizer, tmp_path / "whole", held_out=0.2)
    with monkeypatch.context() as patch:
        patch.setattr(build, "write_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_build(text, tokenizer, tmp_path / "made", held_out=0.2)
    damage(tmp_path / "made" / name, kind)
    run_build(text, tokenizer, tmp_path / "made", held_out=0.2)
    assert file_contents(tmp_path / "made") == file_contents(tmp_path / "whole")


@pytest.mark.parametrize("kind", ["bit", "zeros", "truncated", "empty"])
def test_damaged_record_of_a_build_is_refused(
    kind: str, text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_build(text, tokenizer, tmp_path / "made")
    damage(tmp_path / "made" / "building" / "build.json", kind)
    with pytest.raises(InputError, match=r"build.json: damaged; remove .*made and build again"):
        run_build(text, tokenizer, tmp_path / "made")


def test_damaged_copy_of_the_tokenizer_is_written_again(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    manifest = run_build(text, tokenizer, tmp_path / "undisturbed")
    with monkeypatch.context() as patch:
        patch.setattr(build, "run_jobs", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_build(text, tokenizer, tmp_path / "made")
    flip_bit(tmp_path / "made" / "tokenizer" / "tokenizer.json")
    assert run_build(text, tokenizer, tmp_path / "made") == manifest
    assert file_contents(tmp_path / "made") == file_contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("interrupted_call", ["rename", "rmtree"])
def test_build_interrupted_during_cleanup_is_complete_or_resumes(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted_call: str
) -> None:
    original_rmtree = shutil.rmtree

    def interrupt(path: Path, *others: Any, **options: Any) -> None:
        if path.name in ("building", ".building.partial"):
            raise KeyboardInterrupt
        original_rmtree(path, *others, **options)

    run_build(text, tokenizer, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Path if interrupted_call == "rename" else shutil, interrupted_call, interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_build(text, tokenizer, tmp_path / "interrupted")
    check_corpus(tmp_path / "interrupted")  # the manifest is written before the cleanup
    if interrupted_call == "rename":
        run_build(text, tokenizer, tmp_path / "interrupted")
    else:
        with pytest.raises(InputError, match="already a finished corpus"):
            run_build(text, tokenizer, tmp_path / "interrupted")
    assert file_contents(tmp_path / "interrupted") == file_contents(tmp_path / "whole")


@pytest.mark.slow
def test_killed_build_resumes(tokenizer: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for seed in range(40):
        (text / f"{seed:02d}.txt").write_text("\n".join(made_up_sentences(seed, 300)))
    arguments = ["corpus", "build", str(text), "--tokenizer", str(tokenizer), "--quiet", "--workers", "2"]
    command = [sys.executable, "-c", SMALL_JOBS, *arguments, "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    process = subprocess.Popen([*command, str(tmp_path / "killed")], start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "killed").glob("building/part-*.arrow"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "manifest.json").exists()
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    assert file_contents(tmp_path / "killed") == file_contents(tmp_path / "whole")


def test_interrupt_exits_with_status_130(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(made_up_sentences(1, 100_000)))
    arguments = ["corpus", "build", str(tmp_path / "a.txt"), "--tokenizer", str(tokenizer), "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", SMALL_JOBS, *arguments, "--out", str(tmp_path / "made")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "made").glob("building/build.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error


def test_resuming_with_other_text_or_settings_is_refused(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_with_full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "write_shards", fail_with_full_disk)
    with pytest.raises(OSError, match="No space"):
        run_build(text, tokenizer, tmp_path / "made")
    monkeypatch.setattr(build, "write_shards", shard_writer.write_shards)
    assert not (tmp_path / "made" / "manifest.json").exists()
    write_text(tmp_path / "other", 5)
    for change in ({"language": "de"}, {"layout": "prose"}):
        with pytest.raises(InputError, match="unfinished corpus of other text, tokenizer or settings"):
            run_build(text, tokenizer, tmp_path / "made", **change)
    with pytest.raises(InputError, match="unfinished corpus of other text"):
        run_build(tmp_path / "other", tokenizer, tmp_path / "made")
    run_build(text, tokenizer, tmp_path / "made", workers=2)
    check_corpus(tmp_path / "made")


def test_unfinished_corpus_of_format_1_is_refused(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    with locked_build_folder(tmp_path / "whole") as work:
        shutil.copytree(work, tmp_path / "made" / "building")
    building = tmp_path / "made" / "building"
    (building / "note.json").touch()
    (building / "part-000000.arrow").touch()
    with pytest.raises(InputError, match=r"format 1, written by an older version .*; remove"):
        run_build(text, tokenizer, tmp_path / "made")
    assert (building / "part-000000.arrow").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_full_disk_gives_one_line_error_and_no_corpus(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    # The limit is lifted at exit, so that `make coverage` can write its data.
    limit_file_size = "import atexit, resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit_file_size += "before = resource.getrlimit(resource.RLIMIT_FSIZE); "
    limit_file_size += "atexit.register(resource.setrlimit, resource.RLIMIT_FSIZE, before); "
    limit_file_size += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))\n"
    arguments = ["corpus", "build", str(text), "--tokenizer", str(tokenizer), "--workers", "1"]
    arguments += ["--layout", "lines", "--out", str(tmp_path / "made")]
    result = subprocess.run(
        [sys.executable, "-c", limit_file_size + SMALL_JOBS, *arguments], capture_output=True, text=True
    )
    assert result.returncode == 1
    assert "File too large" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "made" / "manifest.json").exists()
    subprocess.run([sys.executable, "-c", SMALL_JOBS, *arguments, "--quiet"], check=True)
    check_corpus(tmp_path / "made")


def test_duplicates_are_dropped(tokenizer: Path, tmp_path: Path) -> None:
    a, b, c = ("\n".join(made_up_sentences(seed, 20)) for seed in range(3))
    longer_a = a + "\nKa."
    (tmp_path / "a.txt").write_text("\n\n".join([a, b, a]))
    (tmp_path / "b.txt").write_text("\n\n".join([b, c, longer_a]))
    files = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    settings = CorpusSettings(layout="lines", workers=1)
    manifest = build_corpus(files, tokenizer, tmp_path / "made", settings)
    assert (manifest.documents["train"], manifest.duplicates) == (4, 2)
    (shard,) = Corpus(tmp_path / "made").shards("train")
    loaded = load_tokenizer(tokenizer)
    expected = [
        sum(len(loaded.encode(line, add_special_tokens=False)) for line in text.split("\n"))
        for text in (a, b, c, longer_a)
    ]
    assert np.diff(shard.document_offsets).tolist() == expected
    keep_all = CorpusSettings(layout="lines", workers=1, keep_duplicates=True)
    manifest = build_corpus(files, tokenizer, tmp_path / "all", keep_all)
    assert (manifest.documents["train"], manifest.duplicates) == (6, 0)


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_held_out_documents_are_held_out(tokenizer: Path, tmp_path: Path, seed: int) -> None:
    texts = ["\n".join(made_up_sentences(number, 8)) for number in range(30)]
    (tmp_path / "a.txt").write_text("\n\n".join(texts * 5))
    settings = CorpusSettings(layout="lines", workers=1, keep_duplicates=True, held_out=0.1, seed=seed)
    build_corpus([str(tmp_path / "a.txt")], tokenizer, tmp_path / "made", settings)
    corpus = Corpus(tmp_path / "made")
    documents = {
        split: {
            tuple(shard.tokens[start:stop].tolist())
            for shard in corpus.shards(split)
            for start, stop in itertools.pairwise(shard.document_offsets.tolist())
        }
        for split in ("train", "dev")
    }
    assert documents["dev"]
    assert not documents["dev"] & documents["train"]


def test_held_out_documents_depend_on_seed_and_fraction(
    text: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held_out = {}
    for name, options in (("a", {"seed": 0}), ("b", {"seed": 0}), ("c", {"seed": 1})):
        manifest = run_build(text, tokenizer, tmp_path / name, held_out=0.1, **options)
        assert manifest.documents == {"train": 36, "dev": 4}
        held_out[name] = Corpus(tmp_path / name).shards("dev")[0].tokens.tolist()
    assert held_out["a"] == held_out["b"] != held_out["c"]
    assert "held out:" not in capsys.readouterr().err
    assert run_build(text, tokenizer, tmp_path / "least", held_out=0.001).documents["dev"] == 1
    assert "of the tokens, 0.1% requested" in capsys.readouterr().err
    (tmp_path / "one.txt").write_text("\n".join(made_up_sentences(1, 30)))
    with pytest.raises(
        InputError,
        match=r"--held-out 0\.01: .* 10,240 tokens, .*; give more files or records, --layout lines",
    ):
        run_build(tmp_path / "one.txt", tokenizer, tmp_path / "none", held_out=0.01)
    assert not (tmp_path / "none").exists()  # other options may read it as several documents


def test_skipped_records_are_counted_and_listed(tokenizer: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"text": " ".join(made_up_sentences(seed, 5))}) for seed in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:2], "not JSON", *lines[2:], '{"txt": 1}']))
    with pytest.raises(InputError, match=r"a\.jsonl, byte \d+: not JSON .*--on-error skip"):
        run_build(tmp_path / "a.jsonl", tokenizer, tmp_path / "made", layout="auto")
    assert not (tmp_path / "made").exists()
    manifest = run_build(tmp_path / "a.jsonl", tokenizer, tmp_path / "made", layout="auto", on_error="skip")
    assert manifest.skipped == 2
    assert len(manifest.skipped_locations) == 2
    assert manifest.documents["train"] == 4


def test_names_of_files_that_are_not_utf_8_are_listed(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "text"
    write_text(folder, 2)
    next(folder.iterdir()).rename(folder / "caf\udce9.txt")
    (folder / "\udcff.parquet").write_bytes(b"no Parquet")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(build, "write_shards", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_build(folder, tokenizer, tmp_path / "made", on_error="skip")
    manifest = run_build(folder, tokenizer, tmp_path / "made", on_error="skip")
    assert any(name.endswith("/caf\udce9.txt") for name in manifest.sources)
    assert "/\udcff.parquet: damaged" in manifest.skipped_locations[0]
    assert read_manifest(tmp_path / "made") == manifest
    check_corpus(tmp_path / "made")
    assert run_command(app, ["corpus", "show", str(tmp_path / "made")]) == 0


@pytest.mark.usefixtures("small_jobs")
def test_lost_characters_are_counted_over_all_jobs(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [" ".join(made_up_sentences(seed, 40)) for seed in range(6)]
    (tmp_path / "text").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "text" / f"{number}.txt").write_text(f"{text} ЩЪ x漢x щ.\n", encoding="utf-8")
    manifest = run_build(tmp_path / "text", tokenizer, tmp_path / "made")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "are unknown" in line]
    assert line.startswith("18 of ")
    assert "characters without a token: щ 12, ъ 6, 漢 6; " in line
    assert manifest.unknown_tokens == 18
    assert manifest.lost_characters == {"щ": 12, "ъ": 6, "漢": 6}
    assert read_manifest(tmp_path / "made").lost_characters == manifest.lost_characters
    unknown = load_tokenizer(tokenizer).special_ids.unk
    tokens = [shard.tokens for shard in Corpus(tmp_path / "made").shards("train")]
    assert (np.concatenate(tokens) == unknown).sum() == 18


def test_characters_that_a_bert_vocabulary_lacks_inside_words_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n.\n")
    (tmp_path / "a.txt").write_text("ab aab bb.\n" * 3)
    manifest = run_build(tmp_path / "a.txt", tmp_path, tmp_path / "made", language="en")
    assert manifest.unknown_tokens == 3
    assert manifest.lost_characters == {"a": 3}
    assert "characters without a token: a 3; " in capsys.readouterr().err


def test_listed_locations_of_all_jobs_are_bounded(tmp_path: Path) -> None:
    parts = [tmp_path / f"part-{number}.arrow" for number in range(3)]
    for part in parts:
        part.write_bytes(b"")
        messages = [f"{part.name} {number}" for number in range(60)]
        job_report.write_report(part, part, job_report.JobReport(skipped=70, skipped_locations=messages))
    total = job_report.sum_reports(parts)
    assert total.skipped == 210
    assert len(total.skipped_locations) == 100
    assert total.skipped_locations[60] == "part-1.arrow 0"


@pytest.mark.usefixtures("small_jobs")
def test_text_of_another_language_gives_one_warning(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("Der Müller hört früh die Vögel.\n\n" * 300, encoding="utf-8")
    run_build(tmp_path / "a.txt", tokenizer, tmp_path / "made")
    detected, line = capsys.readouterr().err.splitlines()[:2]
    assert detected == (
        "language: German (100% of 12 passages sampled); sentences are split by its rules; "
        "--language overrides this"
    )
    assert line.startswith(f"{tmp_path / 'a.txt'}: 16.0% of the letters are accented")
    assert "--keep-accents" in line
    assert "--language" not in line


def test_manifest_without_lost_characters_is_read(corpus: Corpus, tmp_path: Path) -> None:
    values = dataclasses.asdict(corpus.manifest)
    del values["unknown_tokens"], values["lost_characters"]
    (tmp_path / "manifest.json").write_text(json.dumps(values))
    assert read_manifest(tmp_path) == dataclasses.replace(
        corpus.manifest, unknown_tokens=0, lost_characters={}
    )


def test_worker_error_is_reported_in_one_line(tokenizer: Path, tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.txt").write_bytes(b"fine text.\n\xff" if number == 3 else b"fine text. ")
    arguments = ["corpus", "build", str(tmp_path), "--tokenizer", str(tokenizer), "--workers", "2"]
    command = [sys.executable, "-c", SMALL_JOBS, *arguments, "--out", str(tmp_path / "made")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert "3.txt, byte 11: not UTF-8" in result.stderr
    assert "Traceback" not in result.stderr


def flip_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage", ["changed", "shorter", "missing", "manifest", "counts", "tokenizer", "format"]
)
def test_check_names_the_damaged_file(
    corpus: Corpus, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus.folder, copy)
    assert run_command(app, ["corpus", "check", str(copy)]) == 0
    assert "all checksums and counts agree" in capsys.readouterr().err
    shard, manifest = copy / "train-00000.arrow", copy / "manifest.json"
    if damage == "changed":
        flip_bit(shard)
    elif damage == "shorter":
        shard.write_bytes(shard.read_bytes()[:-100])
    elif damage == "missing":
        shard.unlink()
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:-30])
    elif damage == "counts":
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"documents": None}))
    elif damage == "tokenizer":
        file = copy / "tokenizer" / "tokenizer.json"
        file.write_text(file.read_text().replace('"▁ka', '"▁kx'))
    else:
        manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 9'))
    capsys.readouterr()
    assert run_command(app, ["corpus", "check", str(copy)]) == ExitStatus.BAD_INPUT
    error = capsys.readouterr().err
    expected = {
        "manifest": "manifest.json",
        "counts": "manifest.json",
        "tokenizer": "tokenizer",
        "format": "format 9",
    }.get(damage, "train-00000.arrow")
    assert expected in error
    assert error.count("\n") == 1


def change_score(file: Path) -> None:
    """Change the score of a token, which changes neither the vocabulary nor the ids of most texts."""
    content = json.loads(file.read_text())
    content["model"]["vocab"][-1][1] = -99.0
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("file", "damage", "problem"),
    [
        ("tokenizer.json", change_score, "tokenizer.json: changed since the corpus was built"),
        ("tokenizer_config.json", flip_bit, "tokenizer_config.json: changed since"),
        ("tokenizer_config.json", Path.unlink, "tokenizer_config.json: missing"),
        ("vocab.txt", Path.touch, "vocab.txt: not a file of the corpus"),
    ],
)
def test_changed_tokenizer_is_refused(
    corpus: Corpus, tmp_path: Path, file: str, damage: Callable[[Path], None], problem: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus.folder, copy)
    damage(copy / "tokenizer" / file)
    with pytest.raises(InputError, match=problem):
        check_corpus(copy)
    with pytest.raises(InputError, match=problem):
        _ = Corpus(copy).tokenizer


def test_corpus_without_checksums_of_the_tokenizer_is_read(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus.folder, copy)
    values = json.loads((copy / "manifest.json").read_text())
    del values["tokenizer_files"], values["sha256"]
    (copy / "manifest.json").write_text(json.dumps(values))
    check_corpus(copy)
    assert "but the manifest has none of the tokenizer" in capsys.readouterr().err


def shard_entry(**changes: Any) -> dict[str, Any]:
    entry = {"file": "train-0.arrow", "split": "train", "documents": 1, "sentences": 1, "tokens": 1}
    return entry | {"sha256": ""} | changes


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"skipped": -1}, "skipped: -1 is no count"),
        ({"skipped": True}, "skipped is true, expected an integer"),
        ({"unigram_entropy": "5.1"}, "unigram_entropy is text, expected a number"),
        ({"unigram_entropy": float("nan")}, "unigram_entropy is NaN, expected a number"),
        ({"tokens": {"train": 10**400, "dev": 0}}, "a value of tokens is 1000"),
        ({"documents": None}, "documents is null, expected an object"),
        ({"documents": {"train": 1}}, "documents: not one count per split"),
        ({"sources": {}}, "sources is an object, expected a list"),
        ({"sources": [1]}, "an item of sources is 1, expected text"),
        ({"lost_characters": {"x": "1"}}, "a value of lost_characters is text, expected an integer"),
        ({"shards": [shard_entry(file=["a"])]}, "file is a list, expected text"),
        ({"shards": [shard_entry(file="../train-0.arrow")]}, "the file of a shard is '../train-0.arrow'"),
        ({"shards": [shard_entry(split="test")]}, "split is text, expected one of train, dev"),
        ({"shards": [7]}, "an item of shards is 7, expected an object"),
        ({"held_out_passages": "2"}, "held_out_passages is text, expected an integer or null"),
        ({"new": 1}, "unknown field 'new'"),
        ({"unigram_entropy": 2.5}, "changed since the corpus was built"),
        ({"settings": {}}, "changed since the corpus was built"),
    ],
)
def test_invalid_manifest_is_refused(
    corpus: Corpus, tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    values = json.loads((corpus.folder / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(values | changes))
    with pytest.raises(InputError, match=re.escape(problem)) as raised:
        Corpus(tmp_path)
    assert len(str(raised.value)) < 500
    assert "build the corpus again" in str(raised.value)


def test_nested_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        Corpus(tmp_path)


def test_truncated_shard_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    whole = (corpus.folder / "train-00000.arrow").read_bytes()
    shutil.copytree(corpus.folder, tmp_path / "copy")
    for size in [0, 5, 100, *random.Random(1).sample(range(len(whole)), 20)]:
        (tmp_path / "copy" / "train-00000.arrow").write_bytes(whole[:size])
        with pytest.raises(AlbertineError, match="train-00000"):
            Corpus(tmp_path / "copy").shards("train")


def test_changed_byte_in_arrow_metadata_is_refused_or_harmless(corpus: Corpus, tmp_path: Path) -> None:
    """Arrow's metadata is at both ends of the file; `corpus check` finds changes of the columns."""
    whole = (corpus.folder / "train-00000.arrow").read_bytes()
    shutil.copytree(corpus.folder, tmp_path / "copy")
    rng = random.Random(1)
    refused = 0
    for offset in [*rng.sample(range(300), 40), *rng.sample(range(len(whole) - 400, len(whole)), 60)]:
        damaged = bytearray(whole)
        damaged[offset] ^= rng.randrange(1, 256)
        (tmp_path / "copy" / "train-00000.arrow").write_bytes(damaged)
        try:
            copy = Corpus(tmp_path / "copy")
            PretrainDataset(copy, ObjectiveSettings(max_length=32)).draw(np.arange(50))
        except AlbertineError:
            refused += 1
    assert refused > 5


def test_show_prints_samples(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    show = ["corpus", "show", str(corpus.folder)]
    assert run_command(app, [*show, "--samples", "4", "--objective.max-length", "64"]) == 0
    output = capsys.readouterr().out
    assert output.count("to predict") == 5  # four samples and the legend
    assert "[CLS]" in output
    assert "{" in output
    assert run_command(app, [*show, "--split", "dev", "--objective.pair", "nsp", "--json"]) == 0
    samples = json.loads(capsys.readouterr().out)["samples"]
    assert len(samples) == 3
    assert len(samples[0]["tokens"]) == len(samples[0]["segments"])


def test_a_space_that_is_a_token_is_shown_as_one(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["corpus", "show", str(corpus.folder)]) == 0
    assert "a space that is a token of its own" in capsys.readouterr().out.replace("\n", " ")
    shown, previous = "", " "
    for token in ("▁crow", "s", "▁", "q", "ua", "."):
        separator, bare = split_marker(token, previous, marks_continuations=False)
        shown += separator + bare
        previous = token[-1]
    assert shown == " crow/s ␣/q/ua."


def test_empty_text_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n")
    with pytest.raises(InputError, match="no document with words"):
        run_build(tmp_path / "a.txt", tokenizer, tmp_path / "made")
    with pytest.raises((InputError, WorkError), match="no corpus"):
        Corpus(tmp_path)


def test_foreign_folder_is_left_unchanged(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "building").mkdir(parents=True)
    (folder / "building" / "plan.txt").write_text("a plan")
    (folder / "photo.jpg").write_text("x")
    for source in (text, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="exists already"):
            run_build(source, tokenizer, folder)
    assert file_contents(folder) == {"building/plan.txt": b"a plan", "photo.jpg": b"x"}
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no such file"):
        run_build(tmp_path / "nowhere", tokenizer, tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="exists already"):
        run_build(text, tokenizer, tmp_path / "file")


def test_leftover_build_folder_of_a_finished_corpus_is_removed(
    text: Path, tokenizer: Path, tmp_path: Path
) -> None:
    manifest = run_build(text, tokenizer, tmp_path / "made")
    expected = file_contents(tmp_path / "made")
    leftover = tmp_path / "made" / ".building.partial"
    leftover.mkdir()
    (leftover / "part-00000.arrow").write_bytes(b"x")
    (leftover / "corpus.lock").touch()
    with (
        file_lock(leftover / "corpus.lock", "locked"),
        pytest.raises(InputError, match="another process is building there"),
    ):
        run_build(text, tokenizer, tmp_path / "made")
    with pytest.raises(InputError, match="already a finished corpus"):
        run_build(text, tokenizer, tmp_path / "made")
    assert file_contents(tmp_path / "made") == expected
    assert Corpus(tmp_path / "made").manifest == manifest


def test_removal_of_the_build_folder_may_be_interrupted_anywhere(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a killed call has removed, the next one removes the rest."""

    class Killed(BaseException):
        pass

    def count_removals(limit: int | None) -> int:
        """Build a corpus until a number of files of its build folder are removed; return how many were."""
        shutil.rmtree(tmp_path / "made", ignore_errors=True)
        removed = 0

        def remove(function: Any, path: Any, *args: Any, **options: Any) -> None:
            nonlocal removed
            if (tmp_path / "made" / ".building.partial").exists():
                if removed == limit:
                    raise Killed
                removed += 1
            function(path, *args, **options)

        with monkeypatch.context() as patch:
            for name in ("unlink", "rmdir"):
                patch.setattr(os, name, partial(remove, getattr(os, name)))
            with suppress(Killed):
                run_build(text, tokenizer, tmp_path / "made")
        return removed

    removals = count_removals(None)
    assert removals > 3
    for limit in range(removals):
        assert count_removals(limit) == limit
        with pytest.raises(InputError, match="already"):
            run_build(text, tokenizer, tmp_path / "made")
        assert not (tmp_path / "made" / ".building.partial").exists(), limit


def test_build_killed_in_its_first_moments_starts_again(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    leftover = tmp_path / "made" / ".building.0123abcd.partial"
    leftover.mkdir(parents=True)
    (leftover / "corpus.lock").touch()
    manifest = run_build(text, tokenizer, tmp_path / "made")
    assert not leftover.exists()
    assert Corpus(tmp_path / "made").manifest == manifest


def test_a_path_that_is_too_long_leaves_no_files(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        run_build(text / ("x" * 5000), tokenizer, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_second_build_in_the_same_folder_is_refused(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    with locked_build_folder(tmp_path / "made") as work:
        (work / "part-000000.arrow").write_text("unfinished")
        with pytest.raises(InputError, match="another process is building there"):
            run_build(text, tokenizer, tmp_path / "made")
        assert (work / "part-000000.arrow").exists()


@pytest.mark.slow
def test_workers_exit_with_their_parent(tokenizer: Path, tmp_path: Path) -> None:
    for seed in range(30):
        (tmp_path / f"{seed:02d}.txt").write_text("\n".join(made_up_sentences(seed, 3000)))
    arguments = ["corpus", "build", str(tmp_path), "--tokenizer", str(tokenizer), "--quiet", "--workers", "2"]
    command = [sys.executable, "-c", SMALL_JOBS, *arguments, "--out", str(tmp_path / "made")]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "made").glob("building/part-*.arrow")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)  # raises once all processes of the group have exited
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail("workers outlived their parent")


@pytest.mark.usefixtures("small_jobs")
def test_changed_shard_settings_reuse_parts_and_rewrite_shards(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_with_full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    original = manifest.write_manifest
    monkeypatch.setattr(build, "write_manifest", fail_with_full_disk)
    with pytest.raises(OSError, match="No space"):
        run_build(text, tokenizer, tmp_path / "made", held_out=0.1)
    monkeypatch.setattr(build, "write_manifest", original)
    run_build(text, tokenizer, tmp_path / "made", held_out=0.3)
    assert Corpus(tmp_path / "made").manifest.documents == {"train": 28, "dev": 12}
    check_corpus(tmp_path / "made")


def test_failed_build_resumes_with_on_error_skip(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_jobs, "JOB_BYTES", 100)
    (tmp_path / "a.txt").write_text("\n".join(made_up_sentences(1, 20)))
    (tmp_path / "b.jsonl").write_text('{"text": "\\ud800"}\n')
    with pytest.raises(InputError, match=r"b\.jsonl, byte 0: an unpaired surrogate"):
        run_build(tmp_path, tokenizer, tmp_path / "made")
    assert run_build(tmp_path, tokenizer, tmp_path / "made", on_error="skip").skipped == 1
