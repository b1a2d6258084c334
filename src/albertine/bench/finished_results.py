"""The results of a benchmark that are finished when a later measurement fails or is interrupted."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def show_finished(results: Iterable[T], show: Callable[[Sequence[T]], None]) -> None:
    """Show results that are measured one by one; after an error or Ctrl-C, those before it, if there are any.

    Args:
        results: measures each result when it is asked for it.
        show: shows the results.
    """
    finished: list[T] = []
    try:
        for result in results:
            finished.append(result)  # noqa: PERF402  # keeps what there is before an error
    finally:
        if finished:
            show(finished)
