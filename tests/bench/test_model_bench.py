"""Tests of the benchmark of the model: a side that fails, and results before an interruption."""

import json
from collections.abc import Iterator
from multiprocessing import Pipe

import pytest

from albertine.bench.corpus import CorpusComparison, show_corpus
from albertine.bench.model import ModelBenchCase, ModelComparison, _request, show_comparisons
from albertine.errors import WorkError


def test_a_side_that_failed_says_why() -> None:
    parent_end, child_end = Pipe()
    child_end.send("ours: RuntimeError: no such kernel")
    child_end.close()
    with pytest.raises(WorkError, match="the benchmark failed: ours: RuntimeError: no such kernel"):
        _request(parent_end, "step")
    with pytest.raises(WorkError, match="a process of the benchmark died"):
        _request(parent_end, "step")


def test_results_before_an_interruption_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def comparisons() -> Iterator[ModelComparison]:
        yield ModelComparison(ModelBenchCase("forward", "8 x 128", "fp32"), 2.0, 1.0, 1, 1, 0.5)
        raise KeyboardInterrupt

    def lines() -> Iterator[CorpusComparison]:
        yield CorpusComparison("build", "tokens/s", 2.0, 1.0, "peer")
        raise WorkError("stopped")

    with pytest.raises(KeyboardInterrupt):
        show_comparisons(comparisons(), as_json=True)
    assert json.loads(capsys.readouterr().out)["lines"][0]["ratio"] == 2
    with pytest.raises(WorkError):
        show_corpus(lines(), as_json=False)
    assert "2.00" in capsys.readouterr().out
