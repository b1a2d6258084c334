"""Tests of the presets against the paper."""

import pytest

from albertine.settings import MODEL_PRESETS


@pytest.mark.parametrize(
    ("name", "layers", "hidden_size", "embedding_size", "share"),
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
def test_presets_equal_table_1_of_the_paper(
    name: str, layers: int, hidden_size: int, embedding_size: int, share: str
) -> None:
    model = MODEL_PRESETS[name]
    assert (model.layers, model.share) == (layers, share)
    assert (model.hidden_size, model.embedding_size) == (hidden_size, embedding_size)
    assert model.heads == hidden_size // 64
    assert model.effective_ffn_size == 4 * hidden_size
    assert model.vocab_size == 30_000


def test_presets_are_read_only() -> None:
    with pytest.raises(TypeError):
        MODEL_PRESETS["albert-base"] = MODEL_PRESETS["bert-base"]  # type: ignore[index]  # the tested error
