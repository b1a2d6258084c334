"""A warning where more steps of depth than were trained still change the hidden states."""

import threading
from collections.abc import Callable

from albertine import progress

MAX_CONVERGED_ANGLE = 1.0  # degrees by which one more step may turn states that count as converged


class ConvergenceCheck:
    """Warns once, on the first strip that gets more steps than were trained."""

    def __init__(self, trained_steps: int):
        self._trained_steps, self._is_done, self._lock = trained_steps, False, threading.Lock()

    def check(self, depth: int | None, last_step_angle: Callable[[int], float]) -> None:
        """Print a warning if the last of more steps than were trained still turns the states.

        Args:
            depth: number of steps of depth; None for those that were trained.
            last_step_angle: returns the angle in degrees by which the last of so many steps turns them.
        """
        if depth is None or depth <= self._trained_steps:
            return
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
        angle = last_step_angle(depth)
        if angle > MAX_CONVERGED_ANGLE:
            progress.print_message(
                f"depth {depth}: more than the {self._trained_steps} steps that were trained, and the states "
                f"have not converged: the last step turns them by {angle:.1f} degrees"
            )
