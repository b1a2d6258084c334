"""Tests of `pipeline(task="embed")`: vectors against `transformers`, order, truncation, threads, errors."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.conftest import made_up_sentences
from tests.task_fixtures import MODEL, save_untrained_model

import albertine
from albertine.errors import InputError, WorkError
from albertine.inference import embedding
from albertine.inference.embedding import EmbeddingPipeline
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer

TEXTS = [*made_up_sentences(5, 30), "", "mi", "mi", " ".join(made_up_sentences(6, 20))]


@pytest.fixture
def pipeline(checkpoint: Path) -> EmbeddingPipeline:
    return albertine.pipeline(checkpoint, task="embed", device="cpu")


def reference_vectors(folder: Path, pooling: str, *, normalize: bool) -> Any:
    """Return vectors of `transformers`, one text at a time."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModel.from_pretrained(folder).eval()
    vectors = []
    for text in TEXTS:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
        with torch.no_grad():
            states = model(**inputs).last_hidden_state[0]
        vector = states[0] if pooling == "cls" else states.sum(0) / len(states)
        vectors.append((vector / vector.pow(2).sum().sqrt() if normalize else vector).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_are_those_of_transformers(
    checkpoint: Path, pooling: Any, normalize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_CHUNK_SIZE", 7)  # several chunks
    expected = reference_vectors(checkpoint, pooling, normalize=normalize)
    model = albertine.pipeline(checkpoint, task="embed", device="cpu", pooling=pooling, normalize=normalize)
    np.testing.assert_allclose(model(TEXTS), expected, rtol=0, atol=1e-5)
    plain = albertine.pipeline(checkpoint, task="embed", device="cpu")
    vectors = plain(TEXTS, pooling=pooling, normalize=normalize)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


def test_shapes_and_defaults(pipeline: EmbeddingPipeline) -> None:
    assert (pipeline.vector_size, pipeline.max_length) == (32, 64)
    vector, vectors = pipeline("Kalo mi."), pipeline(["Kalo mi."])
    assert (vector.shape, vectors.shape) == ((32,), (1, 32))
    assert vector.dtype == np.float32
    assert pipeline([]).shape == (0, 32)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    assert np.array_equal(pipeline(tuple(TEXTS)), pipeline(TEXTS))


def test_equal_texts_are_computed_once(pipeline: EmbeddingPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = pipeline(["mi", "ka lo"])
    num_sequences = []
    hidden_states = pipeline.engine.hidden_states

    def count(strip: Any) -> Any:
        num_sequences.append(len(strip))
        return hidden_states(strip)

    monkeypatch.setattr(pipeline.engine, "hidden_states", count)
    vectors = pipeline(["mi", "ka lo", " mi", "mi"])
    assert num_sequences == [2]
    np.testing.assert_allclose(vectors, expected[[0, 1, 0, 0]], atol=1e-6)


def test_long_texts_are_truncated_with_one_message(
    pipeline: EmbeddingPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    long_text = "mi " * 100
    (encoded,) = pipeline.encode([long_text])
    assert encoded.samples[0].num_tokens == 64
    assert encoded.num_truncated_tokens == 300 - 62  # three tokens a word
    pipeline("mi")
    assert capsys.readouterr().err == ""
    vectors = pipeline([long_text, "mi " * 50, "mi"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    message = "embed: 2 of 3 texts truncated to 64 tokens; tokens cut off: 238 at most"
    assert message in capsys.readouterr().err
    pipeline(long_text)
    assert capsys.readouterr().err == ""


def test_special_tokens_in_a_text_are_ordinary_text(pipeline: EmbeddingPipeline) -> None:
    (encoded,) = pipeline.encode(["mi [MASK][SEP] <pad>"])
    special = pipeline.tokenizer.special_ids
    ids = encoded.samples[0].ids[0][1:-1].tolist()
    assert not {special.mask, special.sep, special.cls, special.pad} & set(ids)


def test_the_encoder_of_a_finetuned_model_is_used(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, card = HeadSettings("classify", labels=2), TaskCard("classify", "classify", ("a", "b"))
    classifier = save_untrained_model(tmp_path / "classifier", checkpoint, head, card, seed=1)
    encoder = Model(MODEL, HeadSettings("pretrain"), seed=1)
    save_folder(encoder, tmp_path / "encoder", tokenizer=load_tokenizer(checkpoint))
    sources = (classifier, tmp_path / "encoder")
    first, second = (
        albertine.pipeline(source, task="embed", device="cpu")(TEXTS[30:33]) for source in sources
    )
    assert np.array_equal(first, second)
    assert capsys.readouterr().err == ""


def test_threads_share_a_pipeline(pipeline: EmbeddingPipeline) -> None:
    expected = pipeline(TEXTS)
    results: dict[int, Any] = {}

    def run(number: int) -> None:
        results[number] = pipeline(TEXTS[number:] + TEXTS[:number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, vectors in results.items():
        np.testing.assert_allclose(vectors, np.roll(expected, -number, axis=0), atol=1e-6)
    assert len(results) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda embed: embed(["mi", 3]), "text 1: must be text, not int"),
        (lambda embed: embed(5), "texts: must be a text or a list of texts, not int"),
        (lambda embed: embed("\ud800"), "text: an unpaired surrogate"),
        (lambda embed: embed("mi", pooling="max"), "pooling max: unknown; known: mean, cls"),
    ],
)
def test_wrong_calls(call: Any, message: str, pipeline: EmbeddingPipeline) -> None:
    with pytest.raises(InputError, match=message):
        call(pipeline)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "embed", "depth": 2}, "depth: only for predictions"),
        ({"task": "embed", "exit": "patience:2"}, "exit: only for predictions"),
        ({"task": "embed", "pooling": "max"}, "pooling max: unknown"),
        ({"task": "embedding"}, "task embedding: unknown; known: cola, .*; or embed, for vectors of texts"),
        ({"pooling": "cls"}, 'pooling: only for vectors of texts; add task="embed"'),
        ({"normalize": False}, "normalize: only for vectors of texts"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str, checkpoint: Path) -> None:
    with pytest.raises(InputError, match=message):
        albertine.pipeline(checkpoint, device="cpu", **arguments)


def test_damaged_exports_and_ensembles_are_refused(tmp_path: Path) -> None:
    for name, message in (
        (
            "export.json",
            "export the model again, with albertine export",
        ),
        ("ensemble.json", "an ensemble, where one model is expected; name a member"),
    ):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("{}")
        with pytest.raises(InputError, match=message):
            albertine.pipeline(folder, task="embed")


def test_vectors_that_are_not_finite_are_an_error(checkpoint: Path, tmp_path: Path) -> None:
    model = albertine.load(checkpoint)
    model.encoder.embedding.norm.weight.data.fill_(1e38)
    save_folder(model, tmp_path / "huge", tokenizer=load_tokenizer(checkpoint))
    with pytest.raises(WorkError, match="numbers that are not finite"):
        albertine.pipeline(tmp_path / "huge", task="embed", device="cpu")("mi")
