"""The metrics of a server, and their text for Prometheus.

All values are in one array of numbers with a row for each worker process. A worker writes only to its own
row, and any worker that gets GET /metrics adds the rows up. A worker that replaces a dead one continues its
row, so that counters never fall. See docs/decisions/server-metrics.md.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.deploy.batcher import BatchMetrics
from albertine.deploy.request_record import OTHER_ROUTE, RequestRecord
from albertine.version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_VALUES = 4_096  # of a row; the largest model needs 550
# The statuses that the server sends; 499 is a client that has disconnected.
_STATUSES = (200, 400, 401, 404, 405, 408, 413, 415, 421, 422, 424, 429, 499, 500, 503)
_OTHER_STATUS = "other"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)
_TOKENS = (16, 64, 256, 1_024, 4_096, 16_384, 65_536)
_DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)


@dataclass(frozen=True)
class _Family:
    """A metric with all its series.

    Attributes:
        name: name of the metric.
        kind: "counter", "gauge" or "histogram".
        doc: its description.
        index: index in a row of each series, by its labels; of a histogram the index of its first bucket.
        bounds: upper bounds of the buckets of a histogram, without infinity.
    """

    name: str
    kind: str
    doc: str
    index: Mapping[tuple[tuple[str, str], ...], int]
    bounds: tuple[float, ...] = ()


# Values at fixed positions, which the process that starts the workers also reads and writes.
LOADED, RESTARTS, HANGS, HEARTBEATS, ANSWERED, TRUNCATED, _FIXED_VALUES = range(7)


def new_values(workers: int) -> NDArray[np.float64]:
    """Return an array of metrics for the workers of one process."""
    return np.zeros((workers, MAX_VALUES))


class ServerMetrics:
    """The metrics of a server, written by one of its workers.

    Attributes:
        routes: the paths that have series of their own.
    """

    def __init__(
        self,
        routes: Sequence[str],
        batchers: Sequence[str],
        values: NDArray[np.float64] | None = None,
        worker: int = 0,
    ):
        """Lay out the series in the rows.

        Args:
            routes: paths of the server.
            batchers: names of its batchers.
            values: values of all workers, [workers, `MAX_VALUES`]; None for new ones of one worker.
            worker: index of the row to write to.
        """
        self.routes = frozenset(routes)
        self._values = new_values(1) if values is None else values
        self._row = self._values[worker]
        self._size = _FIXED_VALUES
        statuses = (*map(str, _STATUSES), _OTHER_STATUS)
        all_routes = (*routes, OTHER_ROUTE)
        self._requests = self._new_family(
            "albertine_requests_total",
            "counter",
            "Requests by route and status.",
            [(("route", route), ("status", status)) for route in all_routes for status in statuses],
        )
        self._seconds = self._new_family(
            "albertine_request_seconds",
            "histogram",
            "Time from the head of a request to the end of its response.",
            [(("route", route),) for route in all_routes],
            _SECONDS,
        )
        labels = [(("batcher", name),) for name in batchers]
        self._batch_items = self._new_family(
            "albertine_batch_items", "histogram", "Items of a batch.", labels, _ITEMS
        )
        self._batch_tokens = self._new_family(
            "albertine_batch_tokens", "histogram", "Tokens of a batch.", labels, _TOKENS
        )
        self._queue = self._new_family(
            "albertine_queue_items", "gauge", "Items that wait for a batch.", labels
        )
        self._depth = self._new_family(
            "albertine_item_depth",
            "histogram",
            "Steps of depth of an item, where items may exit.",
            [()],
            _DEPTHS,
        )
        if self._size > MAX_VALUES:
            raise RuntimeError(f"{self._size} metrics; there may be {MAX_VALUES}")
        for index in self._queue.index.values():  # what a worker left that this one replaces
            self._row[index] = 0.0

    def request_done(self, record: RequestRecord) -> None:
        """Count a request that has its response."""
        status = str(record.status) if record.status in _STATUSES else _OTHER_STATUS
        self._row[self._requests.index[("route", record.route), ("status", status)]] += 1
        self._observe(self._seconds, (("route", record.route),), record.seconds)
        if record.status == HTTPStatus.OK:
            for depth in record.depths:
                self._observe(self._depth, (), depth)

    def for_batcher(self, name: str) -> BatchMetrics:
        """Return the part of the metrics that a batcher writes."""
        return _BatcherMetrics(self, name)

    def set_loaded(self) -> None:
        """Note that the worker has loaded its model."""
        self._row[LOADED] = 1.0
        self._row[HEARTBEATS] += 1  # the first one, before others learn that the worker is ready

    def num_workers(self) -> int:
        """Return the number of workers."""
        return len(self._values)

    def total(self, index: int) -> int:
        """Return the sum over the workers of a value at a fixed position."""
        return int(self._values[:, index].sum())

    def add(self, index: int, amount: int) -> None:
        """Add to a value at a fixed position."""
        self._row[index] += amount

    def text(self) -> str:
        """Return the metrics of all workers in the text format of Prometheus."""
        return "\n".join([*self._lines(self._values.sum(0)), ""])

    def _lines(self, totals: NDArray[np.float64]) -> Iterator[str]:
        fixed = (
            ("albertine_workers_loaded", "gauge", "Workers that have loaded the model.", LOADED),
            ("albertine_worker_restarts_total", "counter", "Workers that died and were replaced.", RESTARTS),
            ("albertine_worker_hangs_total", "counter", "Workers that hung and were killed.", HANGS),
            ("albertine_items_total", "counter", "Items that got a result.", ANSWERED),
            ("albertine_truncated_items_total", "counter", "Items longer than the model reads.", TRUNCATED),
        )
        for name, kind, doc, index in fixed:
            yield from (*_head(name, kind, doc), f"{name} {_number(totals[index])}")
        yield from _head("albertine_info", "gauge", "Version of the server.")
        yield f'albertine_info{{version="{__version__}"}} 1'
        families = (
            self._requests,
            self._seconds,
            self._batch_items,
            self._batch_tokens,
            self._depth,
            self._queue,
        )
        for family in families:
            yield from _head(family.name, family.kind, family.doc)
            for labels, index in family.index.items():
                if family.kind == "histogram":
                    yield from _histogram_lines(family, labels, totals[index:])
                elif family.kind == "gauge" or totals[index]:  # most pairs of route and status never occur
                    yield f"{family.name}{_labels(labels)} {_number(totals[index])}"

    def _new_family(
        self,
        name: str,
        kind: str,
        doc: str,
        labels: Sequence[tuple[tuple[str, str], ...]],
        bounds: tuple[float, ...] = (),
    ) -> _Family:
        """Return a family whose series take the next positions of a row; see `_Family`."""
        width = len(bounds) + 2 if bounds else 1  # a bucket for each bound, one above, and the sum
        index = {series: self._size + width * number for number, series in enumerate(labels)}
        self._size += width * len(labels)
        return _Family(name, kind, doc, index, bounds)

    def _observe(self, family: _Family, labels: tuple[tuple[str, str], ...], value: float) -> None:
        first = family.index[labels]
        self._row[first + bisect_left(family.bounds, value)] += 1
        self._row[first + len(family.bounds) + 1] += value


class _BatcherMetrics:
    """The part of the metrics that one batcher writes, in the thread of the event loop."""

    def __init__(self, metrics: ServerMetrics, name: str):
        self._metrics, self._labels = metrics, (("batcher", name),)

    def queue_changed(self, num_items: int) -> None:
        self._metrics._row[self._metrics._queue.index[self._labels]] = num_items

    def batch_done(self, results: Sequence[Any], num_answered: int) -> None:
        metrics = self._metrics
        num_tokens = sum(getattr(result, "num_tokens", 0) for result in results)
        metrics._observe(metrics._batch_items, self._labels, len(results))
        metrics._observe(metrics._batch_tokens, self._labels, num_tokens)
        metrics.add(ANSWERED, num_answered)


def _head(name: str, kind: str, doc: str) -> Iterator[str]:
    yield f"# HELP {name} {doc}"
    yield f"# TYPE {name} {kind}"


def _histogram_lines(
    family: _Family, labels: tuple[tuple[str, str], ...], values: NDArray[np.float64]
) -> Iterator[str]:
    """Yield the lines of a histogram, whose buckets count all values up to their bounds."""
    count = 0.0
    for bound, bucket in zip((*family.bounds, math.inf), values[: len(family.bounds) + 1], strict=True):
        count += bucket
        text = "+Inf" if bound == math.inf else f"{bound:g}"
        yield f"{family.name}_bucket{_labels((*labels, ('le', text)))} {_number(count)}"
    yield f"{family.name}_sum{_labels(labels)} {_number(values[len(family.bounds) + 1])}"
    yield f"{family.name}_count{_labels(labels)} {_number(count)}"


def _labels(labels: Sequence[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{value}"' for name, value in labels)
    return f"{{{text}}}" if text else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
