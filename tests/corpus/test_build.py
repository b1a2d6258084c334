"""Building a corpus: the same bytes however it is done, and no break that it does not survive."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albertine.cli import app
from albertine.command import run
from albertine.corpus import build, finish, jobs, manifest
from albertine.corpus.build import build_corpus
from albertine.corpus.check import check_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import Manifest
from albertine.corpus.samples import Sampler
from albertine.corpus.settings import CorpusSettings, Objective
from albertine.corpus.workplace import workplace
from albertine.errors import AlbertineError, InputError, WorkError
from albertine.lock import held
from albertine.text import sources
from albertine.text.tokenizer import load_tokenizer
from albertine.text.words import WordStarts
from tests.conftest import made_up, write_text


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()
    }


def built(text: Path, tokenizer: Path, out: Path, **asked: Any) -> Manifest:
    settings: dict[str, Any] = {"layout": "lines", "workers": 1} | asked
    return build_corpus([str(text)], tokenizer, out, CorpusSettings(**settings))


@pytest.fixture
def small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make many jobs and many shards of little text."""
    monkeypatch.setattr(sources, "PORTION_BYTES", 2000)
    monkeypatch.setattr(jobs, "JOB_BYTES", 3000)
    monkeypatch.setattr(finish, "SHARD_TOKENS", 5000)
    monkeypatch.setattr(finish, "_AT_ONCE", 7)


def read_text(text: Path) -> list[str]:
    return [one for file in sorted(text.iterdir()) for one in file.read_text().strip().split("\n\n")]


def test_a_corpus_holds_the_text(corpus: Corpus, text: Path, tokenizer: Path) -> None:
    mine = load_tokenizer(tokenizer)
    rule = WordStarts(mine)
    expected = {tuple(one for line in text.split("\n") for one in mine.ids(line)) for text in read_text(text)}
    found = set()
    counts = np.zeros(len(mine))
    for split in ("train", "dev"):
        for shard in corpus.shards(split):
            starts = shard.starts(0, len(shard.tokens))
            for one in range(len(shard.documents) - 1):
                first, last = int(shard.documents[one]), int(shard.documents[one + 1])
                tokens = shard.tokens[first:last]
                found.add(tuple(tokens.tolist()))
                assert np.array_equal(shard.starts(first, last), starts[first:last])
                assert np.array_equal(starts[first:last], rule.of(tokens))
                inside = shard.sentences[(shard.sentences >= first) & (shard.sentences < last)]
                assert inside[0] == first
                for begin, end in zip(inside, [*inside[1:], last], strict=True):
                    assert mine.text(shard.tokens[begin:end].tolist()).endswith(".")
                if split == "train":
                    counts += np.bincount(tokens, minlength=len(mine))
    assert found == expected
    manifest = corpus.manifest
    chances = counts[counts > 0] / counts.sum()
    assert manifest.unigram_entropy == pytest.approx(-(chances * np.log(chances)).sum())
    assert manifest.tokens["train"] == counts.sum()
    assert manifest.documents == {"train": 32, "dev": 8}
    assert manifest.vocab_size == 130
    assert manifest.tokenizer == mine.fingerprint == corpus.tokenizer.fingerprint


@pytest.mark.usefixtures("small_jobs")
def test_jobs_and_shards_of_any_size_hold_the_same(
    corpus: Corpus, text: Path, tokenizer: Path, tmp_path: Path
) -> None:
    manifest = built(text, tokenizer, tmp_path / "made", held_out=0.2)
    assert len(manifest.shards) > 4
    for name in ("documents", "sentences", "tokens", "words", "unigram_entropy", "duplicates"):
        assert getattr(manifest, name) == getattr(corpus.manifest, name), name
    for split in ("train", "dev"):
        joined = np.concatenate([shard.tokens for shard in Corpus(tmp_path / "made").shards(split)])
        assert np.array_equal(joined, np.concatenate([shard.tokens for shard in corpus.shards(split)]))
    check_corpus(tmp_path / "made")


def test_the_number_of_processes_changes_no_byte(tokenizer: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for part in range(3):  # three jobs: each is as large as one may be
        lines = made_up(part, 60)
        (text / f"{part}.jsonl").write_text(
            "\n".join(json.dumps({"text": " ".join(lines)}) for _ in range(1)) + "\n"
        )
    words = ["corpus", "build", str(text), "--tokenizer", str(tokenizer), "--quiet"]
    for workers in ("1", "3"):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                SMALL_JOBS,
                *words,
                "--workers",
                workers,
                "--out",
                str(tmp_path / workers),
            ],
            check=True,
            capture_output=True,
        )
        assert done.returncode == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "3")
    assert {name.partition("-")[0] for name in contents(tmp_path / "1")} >= {"train", "manifest.json"}


# Every file a job of its own, so that there is work for several processes.
SMALL_JOBS = """
import sys
from albertine.corpus import jobs
jobs.JOB_BYTES = 100
from albertine.cli import app
from albertine.command import run
if __name__ == "__main__":
    sys.exit(run(app, sys.argv[1:]))
"""


@pytest.mark.usefixtures("small_jobs")
@pytest.mark.parametrize("after", [1, 4, 9, 14, 15, 17, 19])
def test_broken_off_anywhere_it_goes_on_to_the_same_bytes(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    built(text, tokenizer, tmp_path / "whole", held_out=0.2)
    made: list[str] = []
    whole_replace = Path.replace

    def counted(self: Path, target: Path) -> Path:
        made.append(Path(target).name)
        if len(made) == after:
            raise KeyboardInterrupt
        return whole_replace(self, target)

    monkeypatch.setattr(Path, "replace", counted)
    with pytest.raises(KeyboardInterrupt):
        built(text, tokenizer, tmp_path / "broken", held_out=0.2)
    monkeypatch.setattr(Path, "replace", whole_replace)
    assert not (tmp_path / "broken" / "manifest.json").exists()
    with pytest.raises(InputError, match="unfinished, run its build again" if after > 1 else "no corpus"):
        Corpus(tmp_path / "broken")
    kept = contents(tmp_path / "broken")
    times = {
        name: (tmp_path / "broken" / name).stat().st_mtime_ns for name in kept if name.endswith(".arrow")
    }
    built(text, tokenizer, tmp_path / "broken", held_out=0.2)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    for name, written in times.items():  # finished shards are not written again
        if "/" not in name:
            assert (tmp_path / "broken" / name).stat().st_mtime_ns == written


@pytest.mark.parametrize("where", ["rename", "rmtree"])
def test_broken_off_at_the_very_end_it_is_whole_or_becomes_so(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    whole_removal = shutil.rmtree

    def breaking(path: Path, *others: Any, **asked: Any) -> None:
        if path.name in ("building", ".building.partial"):
            raise KeyboardInterrupt
        whole_removal(path, *others, **asked)

    built(text, tokenizer, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Path if where == "rename" else shutil, where, breaking)
        with pytest.raises(KeyboardInterrupt):
            built(text, tokenizer, tmp_path / "broken")
    check_corpus(tmp_path / "broken")  # the manifest was there
    if where == "rename":
        built(text, tokenizer, tmp_path / "broken")
    else:
        with pytest.raises(InputError, match="a finished corpus is there"):
            built(text, tokenizer, tmp_path / "broken")
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_killed_for_real_it_goes_on(tokenizer: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for part in range(40):
        (text / f"{part:02d}.txt").write_text("\n".join(made_up(part, 300)))
    words = ["corpus", "build", str(text), "--tokenizer", str(tokenizer), "--quiet", "--workers", "2"]
    command = [sys.executable, "-c", SMALL_JOBS, *words, "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    process = subprocess.Popen([*command, str(tmp_path / "killed")], start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "killed").glob("building/part-*.arrow"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "manifest.json").exists()
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_interrupted_it_ends_at_once_with_status_130(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(made_up(1, 100_000)))
    words = ["corpus", "build", str(tmp_path / "a.txt"), "--tokenizer", str(tokenizer), "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", SMALL_JOBS, *words, "--out", str(tmp_path / "made")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "made").glob("building/note.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told


def test_another_text_does_not_go_on_with_an_unfinished_corpus(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "write_shards", full)
    with pytest.raises(OSError, match="No space"):
        built(text, tokenizer, tmp_path / "made")
    monkeypatch.setattr(build, "write_shards", finish.write_shards)
    assert not (tmp_path / "made" / "manifest.json").exists()
    write_text(tmp_path / "other", 5)
    for change in ({"language": "de"}, {"layout": "prose"}):
        with pytest.raises(InputError, match="unfinished corpus of other text, tokenizer or settings"):
            built(text, tokenizer, tmp_path / "made", **change)
    with pytest.raises(InputError, match="unfinished corpus of other text"):
        built(tmp_path / "other", tokenizer, tmp_path / "made")
    built(text, tokenizer, tmp_path / "made", workers=2)
    check_corpus(tmp_path / "made")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_is_one_line_and_leaves_no_corpus(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    # At the end there is room again, for `make coverage` to write what it counted.
    limited = "import atexit, resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limited += "before = resource.getrlimit(resource.RLIMIT_FSIZE); "
    limited += "atexit.register(resource.setrlimit, resource.RLIMIT_FSIZE, before); "
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))\n"
    words = [
        "corpus",
        "build",
        str(text),
        "--tokenizer",
        str(tokenizer),
        "--workers",
        "1",
        "--layout",
        "lines",
    ]
    command = [*words, "--out", str(tmp_path / "made")]
    done = subprocess.run(
        [sys.executable, "-c", limited + SMALL_JOBS, *command], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "made" / "manifest.json").exists()
    subprocess.run([sys.executable, "-c", SMALL_JOBS, *command, "--quiet"], check=True)
    check_corpus(tmp_path / "made")


def test_doubles_are_dropped_but_for_the_first(tokenizer: Path, tmp_path: Path) -> None:
    one, two, three = ("\n".join(made_up(seed, 20)) for seed in range(3))
    (tmp_path / "a.txt").write_text("\n\n".join([one, two, one]))
    (tmp_path / "b.txt").write_text("\n\n".join([two, three, one + "\nKa."]))
    files = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    settings = CorpusSettings(layout="lines", workers=1)
    manifest = build_corpus(files, tokenizer, tmp_path / "made", settings)
    assert (manifest.documents["train"], manifest.duplicates) == (4, 2)
    first = Corpus(tmp_path / "made").shards("train")[0]
    mine = load_tokenizer(tokenizer)
    expected = [
        sum(len(mine.ids(line)) for line in text.split("\n")) for text in (one, two, three, one + "\nKa.")
    ]
    assert np.diff(first.documents).tolist() == expected
    kept = build_corpus(
        files, tokenizer, tmp_path / "all", CorpusSettings(layout="lines", workers=1, keep_duplicates=True)
    )
    assert (kept.documents["train"], kept.duplicates) == (6, 0)


def test_documents_are_set_aside_by_seed_and_number(
    text: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aside = {}
    for name, asked in (("a", {"seed": 0}), ("b", {"seed": 0}), ("c", {"seed": 1})):
        manifest = built(text, tokenizer, tmp_path / name, held_out=0.1, **asked)
        assert manifest.documents == {"train": 36, "dev": 4}
        aside[name] = Corpus(tmp_path / name).shards("dev")[0].tokens.tolist()
    assert aside["a"] == aside["b"] != aside["c"]
    assert "held out:" not in capsys.readouterr().err
    assert built(text, tokenizer, tmp_path / "least", held_out=0.001).documents["dev"] == 1
    assert "of the text, where 0.1% was asked for" in capsys.readouterr().err
    (tmp_path / "one.txt").write_text("\n".join(made_up(1, 30)))
    with pytest.raises(
        InputError, match=r"--held-out 0\.01: whole documents are set aside, and the text is 1 document"
    ):
        built(tmp_path / "one.txt", tokenizer, tmp_path / "none", held_out=0.01)


def test_what_was_skipped_is_counted_and_listed(tokenizer: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"text": " ".join(made_up(seed, 5))}) for seed in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:2], "not JSON", *lines[2:], '{"txt": 1}']))
    with pytest.raises(InputError, match=r"a\.jsonl, byte \d+: a line that is not JSON .*--on-error skip"):
        built(tmp_path / "a.jsonl", tokenizer, tmp_path / "made")
    assert not (tmp_path / "made").exists()
    manifest = built(tmp_path / "a.jsonl", tokenizer, tmp_path / "made", on_error="skip")
    assert manifest.skipped == 2
    assert len(manifest.skipped_places) == 2
    assert manifest.documents["train"] == 4


def test_an_error_in_a_process_is_told_like_one_here(tokenizer: Path, tmp_path: Path) -> None:
    for part in range(4):
        (tmp_path / f"{part}.txt").write_bytes(b"fine text.\n\xff" if part == 3 else b"fine text. ")
    words = ["corpus", "build", str(tmp_path), "--tokenizer", str(tokenizer), "--workers", "2"]
    command = [sys.executable, "-c", SMALL_JOBS, *words, "--out", str(tmp_path / "made")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "3.txt, byte 11: not UTF-8" in done.stderr
    assert "Traceback" not in done.stderr


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    "how", ["changed", "shorter", "missing", "manifest", "counts", "tokenizer", "format"]
)
def test_check_names_what_is_damaged(
    corpus: Corpus, tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(corpus.folder, copy)
    assert run(app, ["corpus", "check", str(copy)]) == 0
    assert "every checksum and count agrees" in capsys.readouterr().err
    shard, manifest = copy / "train-00000.arrow", copy / "manifest.json"
    if how == "changed":
        damage(shard)
    elif how == "shorter":
        shard.write_bytes(shard.read_bytes()[:-100])
    elif how == "missing":
        shard.unlink()
    elif how == "manifest":
        manifest.write_text(manifest.read_text()[:-30])
    elif how == "counts":
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"documents": None}))
    elif how == "tokenizer":
        file = copy / "tokenizer" / "tokenizer.json"
        file.write_text(file.read_text().replace('"▁ka', '"▁kx'))
    else:
        manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 9'))
    capsys.readouterr()
    assert run(app, ["corpus", "check", str(copy)]) in (1, 2)
    told = capsys.readouterr().err
    named = {
        "manifest": "manifest.json",
        "counts": "manifest.json",
        "tokenizer": "tokenizer",
        "format": "format 9",
    }.get(how, "train-00000.arrow")
    assert named in told
    assert told.count("\n") == 1


def test_a_torn_corpus_is_refused_when_it_is_opened(corpus: Corpus, tmp_path: Path) -> None:
    whole = (corpus.folder / "train-00000.arrow").read_bytes()
    shutil.copytree(corpus.folder, tmp_path / "copy")
    for cut in [0, 5, 100, *random.Random(1).sample(range(len(whole)), 20)]:
        (tmp_path / "copy" / "train-00000.arrow").write_bytes(whole[:cut])
        with pytest.raises(AlbertineError, match="train-00000"):
            Corpus(tmp_path / "copy").shards("train")


def test_a_changed_byte_of_what_arrow_says_is_refused_or_harmless(corpus: Corpus, tmp_path: Path) -> None:
    """Where the file tells of its columns, at its ends. What is in them `corpus check` knows."""
    whole = (corpus.folder / "train-00000.arrow").read_bytes()
    shutil.copytree(corpus.folder, tmp_path / "copy")
    draw = random.Random(1)
    refused = 0
    for at in [*draw.sample(range(300), 40), *draw.sample(range(len(whole) - 400, len(whole)), 60)]:
        damaged = bytearray(whole)
        damaged[at] ^= draw.randrange(1, 256)
        (tmp_path / "copy" / "train-00000.arrow").write_bytes(damaged)
        try:
            changed = Corpus(tmp_path / "copy")
            Sampler(changed, Objective(max_length=32)).draw(np.arange(50))
        except AlbertineError:
            refused += 1
    assert refused > 5


def test_samples_are_shown(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(app, ["corpus", "show", str(corpus.folder), "--samples", "4", "--objective.max-length", "64"])
        == 0
    )
    shown = capsys.readouterr().out
    assert shown.count("to be predicted") == 5
    assert "[CLS]" in shown
    assert "{" in shown
    assert (
        run(
            app, ["corpus", "show", str(corpus.folder), "--split", "dev", "--objective.pair", "nsp", "--json"]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)["samples"]
    assert len(told) == 3
    assert len(told[0]["pieces"]) == len(told[0]["types"])


def test_a_corpus_of_nothing_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n")
    with pytest.raises(InputError, match="no document with words"):
        built(tmp_path / "a.txt", tokenizer, tmp_path / "made")
    with pytest.raises((InputError, WorkError), match="no corpus"):
        Corpus(tmp_path)


def test_a_folder_of_someone_else_is_left_alone(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    mine = tmp_path / "project"
    (mine / "building").mkdir(parents=True)
    (mine / "building" / "plan.txt").write_text("a house")
    (mine / "photo.jpg").write_text("x")
    for source in (text, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="exists already"):
            built(source, tokenizer, mine)
    assert contents(mine) == {"building/plan.txt": b"a house", "photo.jpg": b"x"}
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no such file"):
        built(tmp_path / "nowhere", tokenizer, tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="exists already"):
        built(text, tokenizer, tmp_path / "file")


def test_a_build_that_was_ended_in_its_last_moment_is_finished(
    text: Path, tokenizer: Path, tmp_path: Path
) -> None:
    whole = built(text, tokenizer, tmp_path / "made")
    made = contents(tmp_path / "made")
    left = tmp_path / "made" / ".building.partial"
    left.mkdir()
    (left / "part-00000.arrow").write_bytes(b"x")
    (left / "corpus.lock").touch()
    with (
        held(left / "corpus.lock", "mine"),
        pytest.raises(InputError, match="another process is building there"),
    ):
        built(text, tokenizer, tmp_path / "made")
    with pytest.raises(InputError, match="a finished corpus is there"):
        built(text, tokenizer, tmp_path / "made")
    assert contents(tmp_path / "made") == made
    assert Corpus(tmp_path / "made").manifest == whole


def test_two_builds_do_not_share_a_folder(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    with workplace(tmp_path / "made") as work:
        (work / "part-000000.arrow").write_text("under way")
        with pytest.raises(InputError, match="another process is building there"):
            built(text, tokenizer, tmp_path / "made")
        assert (work / "part-000000.arrow").exists()


def test_workers_end_with_the_process_that_started_them(tokenizer: Path, tmp_path: Path) -> None:
    for part in range(30):
        (tmp_path / f"{part:02d}.txt").write_text("\n".join(made_up(part, 3000)))
    words = ["corpus", "build", str(tmp_path), "--tokenizer", str(tokenizer), "--quiet", "--workers", "2"]
    command = [sys.executable, "-c", SMALL_JOBS, *words, "--out", str(tmp_path / "made")]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "made").glob("building/part-*.arrow")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)  # is anyone of the group alive?
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail("workers live on")


@pytest.mark.usefixtures("small_jobs")
def test_other_doubles_or_held_out_keep_the_parts_and_not_the_shards(
    text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    whole = manifest.write_manifest
    monkeypatch.setattr(build, "write_manifest", failing)
    with pytest.raises(OSError, match="No space"):
        built(text, tokenizer, tmp_path / "made", held_out=0.1)
    monkeypatch.setattr(build, "write_manifest", whole)
    built(text, tokenizer, tmp_path / "made", held_out=0.3)
    assert Corpus(tmp_path / "made").manifest.documents == {"train": 28, "dev": 12}
    check_corpus(tmp_path / "made")


def test_what_stopped_the_work_can_be_skipped_then(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "JOB_BYTES", 100)
    (tmp_path / "a.txt").write_text("\n".join(made_up(1, 20)))
    (tmp_path / "b.jsonl").write_text('{"text": "\\ud800"}\n')
    with pytest.raises(InputError, match=r"b\.jsonl, byte 0: half a character"):
        built(tmp_path, tokenizer, tmp_path / "made")
    assert built(tmp_path, tokenizer, tmp_path / "made", on_error="skip").skipped == 1
