"""Tests of the corpus benchmark: both sides get the same sentences, documents and settings."""

import json
from itertools import chain
from pathlib import Path

import pytest
from tests.corpus.test_dataset import document_tokens

from albertine.bench.corpus import _reference_documents, read_sentences
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import CorpusSettings
from albertine.errors import ExitStatus
from albertine.text.settings import ReadingSettings


def test_the_peer_gets_the_sentences_of_the_corpus_in_a_detected_language(
    tokenizer: Path, tmp_path: Path
) -> None:
    sentences = ["Am 3. Oktober gingen sie bzw. ihre Freunde in den Wald.", "Der Hund lief voraus."]
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join([" ".join(sentences)] * 5))
    manifest = build_corpus(
        [str(text)], tokenizer, tmp_path / "corpus", CorpusSettings(layout="prose", workers=1)
    )
    assert read_sentences((str(text),), ReadingSettings(layout="prose")) == 5 * sentences
    assert manifest.sentences["train"] == 10


def test_the_reference_algorithm_gets_the_documents_of_the_corpus(corpus: Corpus) -> None:
    documents = _reference_documents(corpus)
    tokens = [[token for token, _ in chain.from_iterable(document)] for document in documents]
    assert tokens == document_tokens(corpus)
    assert sum(map(len, documents)) == corpus.manifest.sentences["train"]
    for sentence in chain.from_iterable(documents):
        assert sentence[0][1]  # it begins with a word


def test_every_line_of_the_result_has_a_rate(
    text: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "corpus", str(text), "--tokenizer", str(tokenizer), "--runs", "1", "--json"]
    assert run_command(app, [*command, "--max-length", "32", "--layout", "lines"]) == ExitStatus.DONE
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert [line["unit"] for line in lines] == ["tokens/s", "samples/s", "samples/s"]
    assert all(line["rate"] > 0 for line in lines)
    assert [bool(line["peer_rate"]) for line in lines] == [True, True, False]
