"""Tests of the commands that the report of a fine-tuned model ends with."""

from dataclasses import replace
from typing import Any

import pytest

from albertine.finetune.settings import FinetuneSettings
from albertine.model.model import Model
from albertine.report.next_steps import next_steps
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from tests.model.model_fixtures import SMALL

INT8 = "albertine export runs/stars --to onnx --precision int8 --data dev.csv --out stars-int8"
WEB = "albertine export runs/stars --to web --out stars-web"


@pytest.mark.parametrize(
    ("changes", "has_int8", "has_web"),
    [({}, True, True), ({"step_vectors": True}, True, False), ({"depth_rule": "equilibrium"}, False, False)],
)
def test_exports_are_offered_if_the_model_has_them(
    changes: dict[str, Any], has_int8: bool, has_web: bool
) -> None:
    model = Model(replace(SMALL, **changes), HeadSettings("classify"))
    settings = FinetuneSettings(init_from="runs/base", data="train.csv", dev="dev.csv")
    section = str(next_steps("runs/stars", TaskCard("classify", "classify", ("x", "y")), settings, model))
    assert "albertine evaluate runs/stars --data dev.csv" in section
    assert (INT8 in section, WEB in section) == (has_int8, has_web)
