"""Tests of the drawing of weights: areas are bytes, and uses are those of a forward pass."""

import xml.etree.ElementTree as Tree
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.model.parameter_counts import bert_of_same_shape, count_parameters
from albertine.model.strip import Strip
from albertine.report.model_charts import ChartedModel
from albertine.report.weight_drawing import AppliedPart, applied_parts, weight_drawing
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings

ALBERT = ModelSettings(vocab_size=50, embedding_size=16, hidden_size=32, layers=4, heads=2, max_length=64)
MODELS = {
    "ALBERT": ALBERT,
    "demo": replace(ALBERT, norm_first=True, rotary=True),
    "BERT": bert_of_same_shape(ALBERT),
    "attention": replace(ALBERT, share="attention"),
    "feed-forward": replace(ALBERT, share="ffn"),
    "groups": replace(ALBERT, groups=2),
    "inner groups": replace(ALBERT, inner_groups=2),
    "halting": replace(ALBERT, depth_rule="halting", step_signal=True),
    "differences": replace(ALBERT, step_rank=2, step_vectors=True),
}


def stored(model: ModelSettings) -> list[AppliedPart]:
    return [one for one in applied_parts(model) if not one.is_repeated]


@pytest.mark.parametrize("name", MODELS)
def test_stored_bytes_are_those_of_the_weights(name: str) -> None:
    model = Model(MODELS[name], HeadSettings("classify"))
    encoder_bytes = sum(tensor.nbytes for tensor in model.encoder.parameters())
    pooler = sum(tensor.nbytes for key, tensor in model.named_parameters() if "pooler" in key)
    assert pooler
    assert sum(one.part.num_bytes for one in stored(MODELS[name])) == encoder_bytes + pooler


class UsedWeights(TorchFunctionMode):
    """Counts how often each of some weights is an argument of a matrix product."""

    def __init__(self, weights: dict[str, torch.Tensor]):
        super().__init__()
        self.names, self.uses = {id(weight): name for name, weight in weights.items()}, Counter[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            self.uses[self.names.get(id(args[1]), "other")] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["ALBERT", "BERT", "attention", "feed-forward", "groups", "inner groups"])
def test_uses_are_those_of_a_forward_pass(name: str) -> None:
    encoder = Model(MODELS[name], HeadSettings("classify")).encoder.eval()
    encoder.compute_options = ComputeOptions(kernels=False)
    weights = {
        f"{kind} {index} {key}": parameter
        for kind in ("attention", "ffn")
        for index, block in enumerate(getattr(encoder, kind))
        for key, parameter in block.named_parameters()
        if parameter.ndim == 2
    }
    with torch.no_grad(), UsedWeights(weights) as used:
        encoder(Strip.from_sequences([[2, 5, 6, 3]]))
    measured = {
        kind: sorted(
            {key.rpartition(" ")[0]: uses for key, uses in used.uses.items() if key.startswith(kind)}.values()
        )
        for kind in ("attention", "ffn")
    }
    uses: dict[str, list[int]] = {kind: [] for kind in ("attention", "ffn")}
    for one in stored(MODELS[name]):
        if one.part.is_block:
            for kind, word in (("attention", "attention"), ("ffn", "feed-forward")):
                if one.part.name == "block" or one.part.name.startswith(word):
                    uses[kind].append(one.part.uses)
    assert {kind: sorted(values) for kind, values in uses.items()} == measured


def rectangles(svg: Tree.Element) -> list[dict[str, Any]]:
    return [
        {"class": one.attrib["class"], **{key: float(one.attrib[key]) for key in ("y", "width", "height")}}
        for one in svg.iter("rect")
    ]


@pytest.mark.parametrize("name", ["albert-base", "demo"])
def test_areas_are_bytes_with_one_scale(name: str) -> None:
    models = [MODEL_PRESETS[name], bert_of_same_shape(MODEL_PRESETS[name])]
    drawn = Tree.fromstring(
        f"<div>{weight_drawing([ChartedModel(str(n), model, n) for n, model in enumerate(models, 1)])}</div>"
    )
    areas, tops = [], []
    for svg, model in zip(drawn.iter("svg"), models, strict=True):
        drawn_rectangles = rectangles(svg)
        solid = [one for one in drawn_rectangles if "stored" in one["class"]]
        areas.append(sum(one["width"] * one["height"] for one in solid) / count_parameters(model).encoder)
        outlines = [one for one in drawn_rectangles if "repeated" in one["class"]]
        assert len(outlines) == (model.layers - 1 if model.share == "all" else 0)
        # Nothing overlaps: rectangles are drawn from the bottom to the top.
        ends = [one["y"] + one["height"] for one in drawn_rectangles]
        assert all(end <= below["y"] + 0.01 for end, below in zip(ends[1:], drawn_rectangles, strict=False))
        tops.append(float(svg.attrib["height"]))
        assert ends[0] == pytest.approx(tops[-1], abs=0.01)
        (title,) = svg.iter("title")
        assert title.text == svg.attrib["aria-label"]
    assert areas[0] == pytest.approx(areas[1], rel=1e-3)
    assert max(tops) == tops[1] == pytest.approx(240, abs=0.01)
    text = " ".join(drawn.itertext())
    assert f"a token uses every byte {models[0].layers} times" in text
    assert f"{models[0].layers} blocks of" in text


def test_names_are_escaped() -> None:
    drawing = weight_drawing([ChartedModel('<b>"&', ALBERT, 1)])
    assert "<b>" not in drawing
    Tree.fromstring(f"<div>{drawing}</div>")
