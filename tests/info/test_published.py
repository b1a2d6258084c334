"""Tests of the parameter counts against every row of the paper's tables."""

import pytest

from albertine.info.published import ABLATIONS, TABLE_1, paper_parameter_count
from albertine.settings import MODEL_PRESETS, ModelSettings


def rounded_millions(count: int, printed: int) -> int:
    """Round to millions as the paper does: to tens of millions from 1,000 million."""
    step = 10 if printed >= 1000 else 1
    return round(count / (step * 10**6)) * step


@pytest.mark.parametrize("name", [name for name in TABLE_1 if name != "albert-xxlarge"])
def test_table_1(name: str) -> None:
    assert rounded_millions(paper_parameter_count(MODEL_PRESETS[name]), TABLE_1[name]) == TABLE_1[name]


def test_xxlarge_agrees_with_table_12_and_not_with_table_1() -> None:
    assert TABLE_1["albert-xxlarge"] == 235
    assert rounded_millions(paper_parameter_count(MODEL_PRESETS["albert-xxlarge"]), 235) == 225


@pytest.mark.parametrize(
    ("model", "printed"),
    [pytest.param(model, printed, id=f"{table}, {row}") for table, row, model, printed in ABLATIONS],
)
def test_ablations(model: ModelSettings, printed: int) -> None:
    assert rounded_millions(paper_parameter_count(model), printed) == printed


def test_all_ablation_rows_are_present() -> None:
    rows = [table for table, *_ in ABLATIONS]
    assert {table: rows.count(table) for table in rows} == {
        "Table 3": 8,
        "Table 4": 8,
        "Table 11": 6,
        "Table 12": 4,
    }
