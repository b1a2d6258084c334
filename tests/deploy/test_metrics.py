"""Tests of GET /metrics: Prometheus's own parser reads it, and it counts what happened, over all workers."""

import math
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from albertine.deploy.batcher import ItemResult
from albertine.deploy.metrics import (
    ANSWERED,
    CONTENT_TYPE,
    LOADED,
    MAX_VALUES,
    RESTARTS,
    TRUNCATED,
    ServerMetrics,
    new_values,
)
from albertine.deploy.request_record import RequestRecord
from albertine.settings.exit_rule import ExitRule
from tests.deploy.conftest import ServerClient, other_lines, running_server

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    """Return the values by name and labels; fail if the text is not in Prometheus's format."""
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation and family.type != "unknown" for family in families)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"albertine_{name}", tuple(sorted(labels.items()))]


def read_metrics(client: ServerClient, is_done: Callable[[Samples], bool]) -> Samples:
    """Return the metrics when the server has counted all requests, which it does after the response."""
    deadline = time.monotonic() + 10
    while True:
        status, text, headers = client.request("/metrics")
        assert (status, headers["Content-Type"]) == (200, CONTENT_TYPE)
        samples = parse(text)
        if is_done(samples) or time.monotonic() > deadline:
            return samples
        time.sleep(0.01)


def test_the_metrics_count_requests_and_batches(models: dict[str, Path]) -> None:
    with running_server(models["classify"]) as client:
        client("/predict", [{"text": "ka"}, {"text": "ka"}, {"text": "ka"}])
        client("/predict", {"text": 3})
        client.request("/a%0ab", None)
        client.request("/other", None)
        key = ("albertine_requests_total", (("route", "other"), ("status", "404")))
        samples = read_metrics(client, lambda samples: samples.get(key) == 2)
    assert value(samples, "requests_total", route="other", status="404") == 2
    assert value(samples, "requests_total", route="/predict", status="200") == 1
    assert value(samples, "requests_total", route="/predict", status="400") == 1
    assert value(samples, "request_seconds_count", route="/predict") == 2
    assert 0 < value(samples, "request_seconds_sum", route="/predict") < 60
    assert value(samples, "request_seconds_bucket", route="/predict", le="+Inf") == 2
    assert value(samples, "batch_items_sum", batcher="/predict") == 3
    assert value(samples, "batch_items_count", batcher="/predict") == 1
    assert value(samples, "batch_items_bucket", batcher="/predict", le="2") == 0
    assert value(samples, "batch_items_bucket", batcher="/predict", le="4") == 1
    assert value(samples, "batch_tokens_sum", batcher="/predict") >= 9
    assert value(samples, "queue_items", batcher="/predict") == 0
    assert value(samples, "batch_items_count", batcher="/predict logits") == 0
    assert value(samples, "items_total") == 3


def test_only_items_with_a_response_count_as_truncated(models: dict[str, Path]) -> None:
    too_long, key = "ka " * 80, ("albertine_requests_total", (("route", "/predict"), ("status", "413")))
    with redirect_stderr(StringIO()) as log, running_server(models["classify"]) as client:
        for options in ({}, {"raw_scores": True}):
            assert client("/predict", {"inputs": [["ka"], [too_long]], **options})[0] == 413
        samples = read_metrics(client, lambda samples: samples.get(key) == 2)
        assert value(samples, "truncated_items_total") == 0
        assert "was truncated" not in log.getvalue()
        assert client("/predict", {"inputs": too_long, "truncate": True})[0] == 200
        assert client("/predict", [{"text": too_long}, {"text": "ka"}, {"text": too_long}])[0] == 200
        samples = read_metrics(client, lambda samples: value(samples, "truncated_items_total") >= 3)
        assert value(samples, "truncated_items_total") == 3
    first, *others = other_lines(log.getvalue())
    assert first.startswith("an item is too long for the model and was truncated; shorten or divide")
    assert others == []


def test_the_depth_of_items_is_counted_where_they_may_exit(models: dict[str, Path]) -> None:
    texts = [{"text": "ka"}, {"text": "ka ti"}]
    for rule, depth in ((ExitRule(depth=1), 1), (None, None)):
        with running_server(models["classify"], exit_rule=rule) as client:
            assert [one.get("depth") for one in client("/predict", texts)[1]] == [depth, depth]
            client("/predict", {"text": 3})  # an error has no depth
            assert client("/predict", {"inputs": "ka", "raw_scores": True})[0] == 200
            samples = read_metrics(client, lambda samples: value(samples, "items_total") >= 3)
        count = 0 if depth is None else 3
        assert value(samples, "item_depth_count") == value(samples, "item_depth_sum") == count
        assert value(samples, "item_depth_bucket", le="1") == count


def test_histograms_count_values_up_to_their_bounds() -> None:
    metrics = ServerMetrics(["/x"], ["/x"])
    batcher = metrics.for_batcher("/x")
    for size in (1, 2, 3, 1_024, 5_000):
        batcher.batch_done([ItemResult({}, 10)] * size, size)
    samples = parse(metrics.text())
    counts = {
        le: value(samples, "batch_items_bucket", batcher="/x", le=le)
        for le in ("1", "2", "4", "512", "1024", "+Inf")
    }
    assert counts == {"1": 1, "2": 2, "4": 3, "512": 3, "1024": 4, "+Inf": 5}
    assert value(samples, "batch_tokens_sum", batcher="/x") == 10 * 6_030
    assert metrics.total(ANSWERED) == 6_030


def test_any_worker_shows_the_sum_and_a_new_worker_continues_the_counters() -> None:
    values = new_values(3)
    workers = [ServerMetrics(["/x"], ["/x"], values, index) for index in range(3)]
    for number, worker in enumerate(workers, 1):
        worker.set_loaded()
        worker.for_batcher("/x").queue_changed(number)
        for _ in range(number):
            worker.request_done(RequestRecord("id", route="/x", status=200))
    before = parse(workers[0].text())
    assert value(before, "requests_total", route="/x", status="200") == 6
    assert value(before, "queue_items", batcher="/x") == 6
    assert value(before, "workers_loaded") == 3
    values[2, LOADED], values[2, RESTARTS] = 0, 1  # as the supervisor does
    replacement = ServerMetrics(["/x"], ["/x"], values, 2)
    replacement.add(TRUNCATED, 2)
    after = parse(workers[1].text())
    assert after == parse(replacement.text())
    assert value(after, "requests_total", route="/x", status="200") == 6
    assert value(after, "queue_items", batcher="/x") == 3
    assert value(after, "workers_loaded") == 2
    assert value(after, "worker_restarts_total") == 1
    assert value(after, "truncated_items_total") == 2


def test_unusual_statuses_and_numbers_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ServerMetrics(["/x"], [])
    for status in (None, 418, 200):
        metrics.request_done(RequestRecord("id", route="/x", status=status))
    samples = parse(metrics.text())
    assert value(samples, "requests_total", route="/x", status="other") == 2
    assert all(math.isfinite(number) for number in samples.values())


def test_too_many_series_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="metrics; there may be"):
        ServerMetrics([f"/{number}" for number in range(MAX_VALUES // 30)], [])
