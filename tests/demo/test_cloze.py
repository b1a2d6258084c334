"""Tests of multiple-choice questions made from a text: one option is original; the seed determines them."""

import json
from pathlib import Path

import pytest

from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import CorpusSettings
from albertine.demo.cloze import write_cloze_questions
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("cloze")
    write_world(folder / "world", WorldSettings(stories=500, extra=0, other=0, train=0, workers=1))
    text = [str(folder / "world" / "text")]
    build_tokenizer(text, folder / "tokenizer", TokenizerSettings(vocab_size=900))
    build_corpus(text, folder / "tokenizer", folder / "corpus", CorpusSettings(workers=1, held_out=0.05))
    return Corpus(folder / "corpus")


def test_exactly_one_option_is_from_the_text(corpus: Corpus, tmp_path: Path) -> None:
    summary = write_cloze_questions(corpus, tmp_path / "out", {"train": 200, "dev": 30}, 0)
    assert (summary["train"]["questions"], summary["dev"]["questions"]) == (200, 30)
    # Near 0.25, up to the noise of 200 questions.
    assert 0.15 < summary["train"]["most_common_accuracy"] < 0.38
    # Decoded text may differ from the source in spaces and capitals.
    text = "".join(
        "".join(file.read_text(encoding="utf-8").lower().split())
        for file in sorted((corpus.folder.parent / "world" / "text").iterdir())
    )
    labels, is_in_text = [], []
    for line in (tmp_path / "out" / "train.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        assert len(set(row["options"])) == 4
        assert len({len(option.split()) for option in row["options"]}) == 1
        correct_option = row["options"][row["label"]]
        for option in row["options"]:
            differing = [a for a, b in zip(option.split(), correct_option.split(), strict=True) if a != b]
            assert len(differing) == (option != correct_option)
        labels.append(row["label"])
        is_in_text.append(all("".join(part.split()) in text for part in (row["context"], correct_option)))
    assert sum(is_in_text) > 0.9 * len(is_in_text)  # quotation marks may be normalized
    assert min(map(labels.count, range(4))) > 25  # the answer is at any index


def test_questions_depend_only_on_the_seed(corpus: Corpus, tmp_path: Path) -> None:
    names = ("first", "same_seed", "other_seed")
    for name, seed in zip(names, (0, 0, 1), strict=True):
        write_cloze_questions(corpus, tmp_path / name, {"train": 50, "dev": 10}, seed)
    first, same_seed, other_seed = ((tmp_path / name / "train.jsonl").read_text() for name in names)
    assert first == same_seed != other_seed


def test_text_without_whole_word_tokens_gives_no_questions(tmp_path: Path) -> None:
    documents = "\n\n".join("\n".join(f"{a}{b} {b}{c}." for a in "xyz" for b in "xyz") for c in "xyz")
    (tmp_path / "text.txt").write_text(documents)
    build_tokenizer(
        [str(tmp_path / "text.txt")], tmp_path / "tok", TokenizerSettings(vocab_size=130, allow_smaller=True)
    )
    corpus_settings = CorpusSettings(workers=1, held_out=0.4)
    build_corpus([str(tmp_path / "text.txt")], tmp_path / "tok", tmp_path / "corpus", corpus_settings)
    summary = write_cloze_questions(Corpus(tmp_path / "corpus"), tmp_path / "out", {"train": 20, "dev": 5}, 0)
    assert summary == {split: {"questions": 0, "most_common_accuracy": None} for split in ("train", "dev")}
