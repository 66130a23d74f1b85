"""Print results, notes and progress; check where files can be written."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from mondrian_kernel import _settings as settings

STANDARD_OUTPUT = "standard output"
# Control characters but the line feed, changes of the writing direction, halves of characters.
_CONTROLS = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ASCII = str.maketrans({"²": "2", "·": "*", "×": "x", "–": "-"})


class Console:
    """Print results as words or as JSON, and everything else to the standard error.

    Results are one JSON object if ``as_json``. ``quiet`` leaves out words, notes and progress, but
    not JSON. ``saved`` is the file that the command has saved: if printing fails after that, the
    command has still succeeded.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.saved: str | None = None
        shown = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self.progress = Progress(enabled=shown)

    def result(self, values: dict[str, Any], words: str) -> None:
        """Print a result, the values as JSON or the words, and how long each stage took."""
        self.progress.clear()
        seconds = self.progress.stage_seconds()
        if self.as_json:
            plain = _json_values(values | {"seconds": seconds})
            _print(json.dumps(plain, indent=2, allow_nan=False), sys.stdout)
            return
        if seconds:
            times = [(name, f"{s:6.1f} s") for name, s in seconds.items()]
            times.append(("in all", f"{sum(seconds.values()):6.1f} s"))
            words = f"{words}\n\n  time\n{two_columns(times, '    ')}"
        self.say(words)

    def say(self, words: str) -> None:
        """Print words at once, unless JSON was asked for."""
        if not self.as_json and not self.quiet:
            _print(printable(words), sys.stdout)

    def note(self, sentence: str) -> None:
        """Print a note on the standard error."""
        if not self.quiet:
            self.progress.print_above(f"note: {printable(sentence)}\n")

    def error(self, sentence: str) -> None:
        """Print on the standard error why the command failed."""
        self.progress.clear()
        _print(f"mondrian-kernel: {printable(sentence)}", sys.stderr)


class Progress:
    """Show a bar with the time left on the standard error, and measure how long stages take.

    A thread draws, so that the clock goes on between two reports of the work. Unless ``enabled``
    nothing is shown.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled, self._lock = enabled, threading.Lock()
        self._shown = self._started = False
        self._words = ""
        self._stages: list[tuple[str, float]] = []  # with the times when they begin
        self._step: dict[str, Any] | None = None
        self._done = self._total = 0
        self._began = self._reported = time.monotonic()

    def stage(self, words: str) -> None:
        """Begin a stage, which ends the one before."""
        if self._enabled and not self._started:
            from numba.core import event

            self._started, self._compiled = True, event.RecordingListener()
            event.register("numba:compile", self._compiled)
            threading.Thread(target=self._keep_drawing, daemon=True).start()
        self._restart()
        self._words = printable(words)
        self._stages.append((words, self._began))

    def __call__(self, done: int, total: int, info: dict[str, Any] | None = None) -> None:
        """Take note that ``done`` of ``total`` steps are done; fewer than before begin anew.

        ``info`` may have the ``share`` of the present step that is done, with its ``stage`` and the
        ``seconds_left``.
        """
        if done < self._done:
            self._restart()
        self._done, self._total, self._reported = done, total, time.monotonic()
        self._step = info if info is not None and "share" in info else None

    def stage_seconds(self) -> dict[str, float]:
        """Return the seconds that each stage has taken."""
        ends = [*(begin for _, begin in self._stages), time.monotonic()][1:]
        pairs = zip(self._stages, ends, strict=True)
        return {name: end - begin for (name, begin), end in pairs}

    def clear(self) -> None:
        """Remove the bar, until the next stage."""
        self._words = ""
        self.print_above("")

    def print_above(self, text: str) -> None:
        """Print text on the standard error in the place of the bar."""
        with self._lock:
            if self._shown:
                self._draw("")
                self._shown = False
            if text:
                _print(text, sys.stderr, end="")

    def line(self, now: float) -> str:
        """Return words, bar and time left; the time passed if the time left is not known."""
        words, since, step = self._words, now - self._reported, self._step
        if step is not None and (left := step["seconds_left"] - since) > 0:
            words = f"{words} {self._done + 1}/{self._total}: {step['stage']}"
            return f"{words} [{_bar(step['share'])}] {_clock(left)} left"
        if self._done:
            left = (self._reported - self._began) * (self._total / self._done - 1) - since
            if left > 0:
                bar = _bar(self._done / self._total)
                return f"{words} [{bar}] {self._done}/{self._total}, {_clock(left)} left"
        return f"{words} ... {_clock(now - self._began)}"

    def _restart(self) -> None:
        self._began = self._reported = time.monotonic()
        self._done = self._total = 0
        self._step = None

    def _keep_drawing(self) -> None:
        told = False
        while True:
            if self._compiled.buffer and not told:
                told = True
                self.print_above("note: compiling takes some seconds, once on this machine.\n")
            with self._lock:
                if self._words:
                    self._draw(self.line(time.monotonic()))
                    self._shown = True
            time.sleep(settings.PROGRESS_SECONDS)

    def _draw(self, line: str) -> None:
        _print(f"\r\x1b[K{line}", sys.stderr, end="")


def _bar(share: float) -> str:
    full = int(settings.PROGRESS_WIDTH * share)
    return "#" * full + "-" * (settings.PROGRESS_WIDTH - full)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def two_columns(pairs: list[tuple[str, str]], indent: str = "  ") -> str:
    """Lay out names and values in two columns."""
    safe = [(printable(a).replace("\n", "\\n"), b.replace("\n", "\\n")) for a, b in pairs]
    width = max(len(name) for name, _ in safe)
    return "\n".join(f"{indent}{name:<{width}}  {value}" for name, value in safe)


def printable(text: str) -> str:
    """Write control characters as escapes, so that no name can steer a terminal."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def check_output(file: str | None, *, keep: Sequence[str | None] = ()) -> None:
    """Raise an error if a file cannot be written, or would replace one of ``keep``."""
    if file is None:
        return
    if file == "-":
        raise ValueError("Only predictions can be written to a pipe: give the name of a file.")
    folder = Path(file).parent
    if not folder.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(folder))
    with contextlib.suppress(FileNotFoundError):
        os.stat(file)  # raises where the name is too long
    if Path(file).is_dir():
        raise IsADirectoryError(21, "it is a folder; give the name of a file", file)
    regular = not Path(file).exists() or Path(file).is_file()
    # A regular file is written beside its place, where a link leads to.
    place = os.path.dirname(os.path.realpath(file)) if regular else file
    if not os.access(place, os.W_OK):
        raise PermissionError(13, "you may not write here", place)
    for other in keep:
        same = other is not None and os.path.realpath(file) == os.path.realpath(other)
        if same and regular:
            raise ValueError(f"{file}: this command uses the file twice; give another name.")


def _print(text: str, stream: TextIO | None, end: str = "\n") -> None:
    """Print text to a stream, which may be closed or know few characters."""
    if stream is None or stream.closed:
        return
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(text, end=end, file=stream, flush=True)
    except OSError as error:
        if stream is sys.stdout:  # else nothing is left to tell it to
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from error


def _json_values(value: Any) -> Any:
    """Return values that JSON knows; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_values(item) for item in value]
    if hasattr(value, "tolist"):
        return _json_values(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
