"""Tests of the presets against the paper."""

import pytest

from albertine.settings import MODEL_PRESETS


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "embedding", "share"),
    [
        ("bert-base", 12, 768, 768, "none"),
        ("bert-large", 24, 1024, 1024, "none"),
        ("bert-xlarge", 24, 2048, 2048, "none"),
        ("albert-base", 12, 768, 128, "all"),
        ("albert-large", 24, 1024, 128, "all"),
        ("albert-xlarge", 24, 2048, 128, "all"),
        ("albert-xxlarge", 12, 4096, 128, "all"),
    ],
)
def test_table_1(name: str, layers: int, hidden: int, embedding: int, share: str) -> None:
    model = MODEL_PRESETS[name]
    assert (model.layers, model.hidden_size, model.embedding_size, model.share) == (
        layers,
        hidden,
        embedding,
        share,
    )
    assert model.heads == hidden // 64
    assert model.effective_ffn_size == 4 * hidden
    assert model.vocab_size == 30_000


def test_presets_are_read_only() -> None:
    with pytest.raises(TypeError):
        MODEL_PRESETS["albert-base"] = MODEL_PRESETS["bert-base"]  # type: ignore[index]  # the tested error
