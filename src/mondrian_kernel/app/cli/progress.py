"""A bar with the time left, on terminals only."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

_WIDTH = 24
_EVERY = 0.5  # seconds


class Progress:
    """Shows on the standard error how far the work is.

    A thread draws, so that the clock goes on while nothing is heard from the work.

    Parameters
    ----------
    enabled : bool
        Whether to show anything.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled, self._lock = enabled, threading.Lock()
        self._words, self._shown, self._started = "", False, False
        self._begin = self._heard = time.monotonic()
        self._done = self._total = 0

    def stage(self, words: str) -> None:
        """Begin another piece of work."""
        if self._enabled and not self._started:
            self._started = True
            threading.Thread(target=self._keep_drawing, daemon=True).start()
        self._restart()
        self._words = words

    def __call__(self, done: int, total: int, info: dict[str, Any] | None = None) -> None:
        """Take note that ``done`` of ``total`` steps are done; fewer than before begin anew."""
        if done < self._done:
            self._restart()
        self._done, self._total, self._heard = done, total, time.monotonic()

    def rename(self, words: str) -> None:
        """Say what is being done within a piece of work."""
        self._words = words

    def clear(self) -> None:
        """Take the bar away, until the next stage."""
        self._words = ""
        self.above("")

    def above(self, text: str) -> None:
        """Write text on the standard error where the bar was."""
        with self._lock:
            if self._shown:
                self._draw("")
                self._shown = False
            print(text, end="", file=sys.stderr, flush=True)

    def line(self, now: float) -> str:
        """Words, bar and time left; the time gone by where the time left is not known."""
        if self._done:
            left = (self._heard - self._begin) * (self._total / self._done - 1) - now + self._heard
            if left > 0:
                full = _WIDTH * self._done // self._total
                bar = "#" * full + "-" * (_WIDTH - full)
                return f"{self._words} [{bar}] {self._done}/{self._total}, {clock(left)} left"
        return f"{self._words} ... {clock(now - self._begin)}"

    def _restart(self) -> None:
        self._begin = self._heard = time.monotonic()
        self._done = self._total = 0

    def _keep_drawing(self) -> None:
        while True:
            with self._lock:
                if self._words:
                    self._draw(self.line(time.monotonic()))
                    self._shown = True
            time.sleep(_EVERY)

    def _draw(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours too.

    Examples
    --------
    >>> from mondrian_kernel.app.cli.progress import clock
    >>> clock(75.2), clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
