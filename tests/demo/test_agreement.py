"""Tests of the grammar test of a demo: pairs from held-out English sentences, and none from other text."""

import json
import random
import xml.etree.ElementTree as Tree
from dataclasses import replace
from pathlib import Path

import pytest

import albertine
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import CorpusSettings
from albertine.demo import agreement
from albertine.demo.agreement import print_agreement, run_agreement_test
from albertine.demo.agreement_section import agreement_section
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.text.tokenizer_training import build_tokenizer
from tests.task_fixtures import MODEL

STARTS = ("he was", "she was", "they were", "we were", "she has", "he has been", "they have been")
MIDDLES = ("a little late for", "not quite ready for", "very happy about", "thinking of", "angry about")
ENDS = ("the winter", "the old house", "her brother's letter", "the long journey", "an evening in the town")


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of English sentences, half of it held out."""
    folder = tmp_path_factory.mktemp("english")
    rng = random.Random(0)
    sentences = [f"{s} {m} {e}, and nobody said why." for s in STARTS for m in MIDDLES for e in ENDS]
    rng.shuffle(sentences)
    documents = ["\n".join(sentences[start : start + 5]) for start in range(0, len(sentences), 5)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    source = [str(folder / "text.txt")]
    build_tokenizer(source, folder / "tokenizer", TokenizerSettings(vocab_size=150, layout="lines"))
    settings = CorpusSettings(layout="lines", workers=1, held_out=0.5)
    build_corpus(source, folder / "tokenizer", folder / "corpus", settings)
    return Corpus(folder / "corpus")


@pytest.fixture(scope="module")
def run(english: Corpus) -> Path:
    """An untrained model."""
    folder = english.folder.parent / "albert"
    tokenizer = load_tokenizer(english.folder.parent / "tokenizer")
    model = Model(replace(MODEL, vocab_size=len(tokenizer)), HeadSettings("pretrain"), seed=1)
    save_folder(model, folder, tokenizer=tokenizer)
    return folder


def test_accuracies_and_scores_are_those_of_the_pairs(
    english: Corpus,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(agreement, "_MIN_PAIRS", 12)
    result = run_agreement_test(english, tmp_path / "pairs", [run], seed=0)
    assert not result.reason
    (model,) = result.models.values()
    lines = (tmp_path / "pairs" / "pairs.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    held_out = {
        english.tokenizer.decode(shard.tokens[start:stop].tolist())
        for shard in english.shards("dev")
        for start, stop in zip(
            shard.sentence_starts, [*shard.sentence_starts[1:], len(shard.tokens)], strict=True
        )
    }
    assert {row["sentence_good"] for row in rows} <= held_out
    pipeline = albertine.fill_mask_pipeline(run, device="cpu")
    correct: dict[str, list[bool]] = {}
    for row in rows:
        good, bad = pipeline.score([row["sentence_good"], row["sentence_bad"]])
        correct.setdefault(row["UID"], []).append(good.pll > bad.pll)
    assert {kind.name: kind.accuracy for kind in model.kinds} == pytest.approx(
        {name: sum(values) / len(values) for name, values in correct.items()}
    )
    assert {kind.name: kind.num_pairs for kind in model.kinds} == {k: len(v) for k, v in correct.items()}
    assert min(map(len, correct.values())) >= 12
    assert "was, were" in correct
    assert len({scored.pair.kind for scored in model.examples}) == min(4, len(correct))
    for scored in model.examples:
        good, bad = pipeline.score([scored.pair.good_sentence, scored.pair.bad_sentence])
        assert (scored.good_score, scored.bad_score) == pytest.approx((good.pll, bad.pll), abs=1e-4)

    html = "".join(agreement_section(result, {"albert": "ALBERT"}).blocks)
    page = " ".join(Tree.fromstring(f"<div>{html}</div>").itertext())
    assert "ALBERT, overall" in page
    assert html.count("<mark>") == len(model.examples) == html.count("preferred</span>")
    for scored in model.examples:
        assert f"{scored.good_score:.2f}" in page
        assert f"{scored.bad_score:.2f}" in page
    print_agreement(result)
    assert f"of {len(rows):,} minimal pairs" in capsys.readouterr().err


def test_kinds_with_few_pairs_are_one_kind(
    english: Corpus, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sizes(min_pairs: int) -> dict[str, int]:
        monkeypatch.setattr(agreement, "_MIN_PAIRS", min_pairs)
        result = run_agreement_test(english, tmp_path / "pairs", [run], seed=0)
        return {kind.name: kind.num_pairs for model in result.models.values() for kind in model.kinds}

    all_kinds = sizes(1)
    assert len(all_kinds) > 1
    assert sizes(max(all_kinds.values()) + 1) == {"other forms": sum(all_kinds.values())}


def test_too_few_pairs_give_a_reason(
    english: Corpus, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "_MIN_PAIRS", 1_000)
    result = run_agreement_test(english, tmp_path / "pairs", [run], seed=0)
    assert not result.models
    assert "fewer than 1000 minimal pairs" in result.reason


def test_text_that_is_not_english_has_no_pairs(
    corpus: Corpus, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_agreement_test(corpus, tmp_path / "pairs", [checkpoint], seed=0)
    assert not result.models
    assert not (tmp_path / "pairs").exists()
    print_agreement(result)
    assert "minimal pairs are made from English" in capsys.readouterr().err
    (block,) = agreement_section(result, {"albert": "ALBERT"}).blocks
    assert "No grammar test: minimal pairs are made from English" in block
