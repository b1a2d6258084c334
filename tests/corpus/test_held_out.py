"""Tests of held-out text: whole documents, or passages that share no sample with train."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.corpus import encode_jobs, shard_writer
from albertine.corpus.build import build_corpus
from albertine.corpus.check import check_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.manifest import CorpusSplit, read_manifest
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.corpus.windows import SampleWindows
from albertine.errors import InputError
from tests.conftest import made_up_sentences

TokenIds = list[int]


def write_novels(folder: Path, count: int, *, sentences: int = 900, separator: str = "\n") -> Path:
    folder.mkdir()
    for seed in range(count):
        (folder / f"{seed}.txt").write_text(separator.join(made_up_sentences(seed, sentences)))
    return folder


def build(text: Path, tokenizer: Path, out: Path, held_out: float, seed: int = 0) -> Corpus:
    settings = CorpusSettings(layout="lines", workers=1, held_out=held_out, seed=seed)
    build_corpus([str(text)], tokenizer, out, settings)
    check_corpus(out)
    return Corpus(out)


def documents(corpus: Corpus, split: CorpusSplit) -> list[TokenIds]:
    return [
        shard.tokens[start:stop].tolist()
        for shard in corpus.shards(split)
        for start, stop in itertools.pairwise(shard.document_offsets.tolist())
    ]


def texts(corpus: Corpus) -> list[list[TokenIds]]:
    """Return the documents of train, grouped by text."""
    (shard,) = corpus.shards("train")
    found: dict[int, list[TokenIds]] = {}
    for index, document in zip(shard.text_indices.tolist(), documents(corpus, "train"), strict=True):
        found.setdefault(index, []).append(document)
    return list(found.values())


@pytest.fixture(scope="module")
def novels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_novels(tmp_path_factory.mktemp("novels") / "text", 4)


@pytest.fixture(scope="module")
def whole_novels(novels: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> list[TokenIds]:
    """Return the novels of a corpus from which nothing is held out."""
    out = tmp_path_factory.mktemp("whole_novels") / "made"
    return documents(build(novels, tokenizer, out, 0.0), "train")


@pytest.fixture(scope="module")
def passages(novels: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return build(novels, tokenizer, tmp_path_factory.mktemp("passages") / "made", 0.05)


def test_passages_of_different_documents_are_held_out(passages: Corpus, whole_novels: list[TokenIds]) -> None:
    held_out, parts = documents(passages, "dev"), texts(passages)
    assert len(held_out) == len(parts) == len(whole_novels) == 4
    for novel, passage, around in zip(whole_novels, held_out, parts, strict=True):
        assert len(around) == 2
        assert around[0] + passage + around[1] == novel
        assert len(passage) == pytest.approx(0.05 * len(novel), abs=150)  # ends at a sentence
    (shard,) = passages.shards("dev")
    for start in shard.document_offsets[:-1]:
        assert passages.tokenizer.decode(shard.tokens[:start].tolist())[-1:] in ("", ".")
    assert passages.manifest.held_out_passages == 4


def test_no_window_of_train_touches_a_passage(passages: Corpus) -> None:
    (shard,) = passages.shards("train")
    windows = SampleWindows([shard], ObjectiveSettings(max_length=64))
    for epoch in range(20):
        drawn = windows.lookup(epoch, np.arange(len(windows)))
        document = np.searchsorted(shard.document_offsets, drawn.start, side="right") - 1
        assert (drawn.start >= shard.document_offsets[document]).all()
        assert (drawn.stop <= shard.document_offsets[document + 1]).all()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_nsp_takes_other_text_from_another_novel(
    passages: Corpus, whole_novels: list[TokenIds], split: CorpusSplit
) -> None:
    def novel_of(segment: TokenIds) -> int:
        text = f" {' '.join(map(str, segment))} "
        return next(number for number, novel in enumerate(joined) if text in novel)

    joined = [f" {' '.join(map(str, novel))} " for novel in whole_novels]
    dataset = PretrainDataset(passages, ObjectiveSettings(pair="nsp", max_length=64), split)
    checked = 0
    for sample in dataset.draw(np.arange(200)):
        original = sample.original_tokens()
        a, b = (original[(original > 4) & (sample.segments == number)].tolist() for number in (0, 1))
        if sample.pair_label and len(a) > 15 and len(b) > 15:  # a shorter segment can be in both by chance
            assert novel_of(a) != novel_of(b)
            checked += 1
    assert checked > 20


def test_command_says_that_passages_are_held_out(
    novels: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["corpus", "build", str(novels), "--tokenizer", str(tokenizer), "--layout", "lines"]
    arguments += ["--workers", "1", "--held-out", "0.05", "--out", str(tmp_path / "made")]
    assert run_command(app, arguments) == 0
    expected = "held out: a passage of each of 4 documents"
    assert (
        f"{expected} (5.1% of the tokens), because the documents are few and long" in capsys.readouterr().err
    )
    capsys.readouterr()
    assert run_command(app, ["corpus", "check", str(tmp_path / "made")]) == 0
    assert expected in capsys.readouterr().out
    assert read_manifest(tmp_path / "made").held_out_passages == 4


def test_passages_depend_on_the_seed_and_not_on_the_jobs(
    novels: Path, passages: Corpus, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = build(novels, tokenizer, tmp_path / "other", 0.05, seed=1)
    assert documents(other, "dev") != documents(passages, "dev")
    monkeypatch.setattr(encode_jobs, "JOB_BYTES", 100)
    monkeypatch.setattr(shard_writer, "SHARD_TOKENS", 5000)
    again = build(novels, tokenizer, tmp_path / "again", 0.05)
    assert len(again.manifest.shards) > 4
    assert documents(again, "dev") == documents(passages, "dev")
    assert documents(again, "train") == documents(passages, "train")
    dataset = PretrainDataset(again, ObjectiveSettings(pair="nsp", max_length=64))
    assert len(dataset.draw(np.arange(len(dataset)))) == len(dataset)


def test_small_fraction_takes_passages_of_two_documents(
    novels: Path, tokenizer: Path, tmp_path: Path
) -> None:
    held_out = documents(build(novels, tokenizer, tmp_path / "made", 0.001), "dev")
    assert len(held_out) == 2
    assert all(480 < len(passage) < 560 for passage in held_out)


def test_single_long_document_gives_one_passage(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = build(write_novels(tmp_path / "text", 1), tokenizer, tmp_path / "made", 0.05)
    assert "held out: a passage of one document (5" in capsys.readouterr().err
    assert corpus.manifest.documents == {"train": 2, "dev": 1}
    for split in ("train", "dev"):
        with pytest.raises(InputError, match=f"nsp needs two documents, {split} has one"):
            PretrainDataset(corpus, ObjectiveSettings(pair="nsp", max_length=64), split)


def test_text_without_sentences_is_divided_at_words(tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "text"
    folder.mkdir()
    for seed in range(2):
        words = " ".join(made_up_sentences(seed, 900)).replace(".", "").lower()
        (folder / f"{seed}.txt").write_text(words)
    corpus = build(folder, tokenizer, tmp_path / "made", 0.05)
    sizes = [len(passage) for passage in documents(corpus, "dev")]
    assert sizes == [pytest.approx(0.05 * sum(map(len, around)) / 0.95, abs=10) for around in texts(corpus)]


@pytest.mark.parametrize(("count", "sentences", "held_out"), [(30, 60, 0.1), (20, 600, 0.5)])
def test_many_or_short_documents_are_held_out_whole(
    tokenizer: Path, tmp_path: Path, count: int, sentences: int, held_out: float
) -> None:
    text = write_novels(tmp_path / "text", count, sentences=sentences)
    corpus = build(text, tokenizer, tmp_path / "made", held_out)
    assert corpus.manifest.held_out_passages is None
    assert sum(corpus.manifest.documents.values()) == count
    assert "held_out_passages" not in (tmp_path / "made" / "manifest.json").read_text()
    assert "continues" not in (tmp_path / "made" / "train-00000.arrow").read_bytes().decode("latin-1")
