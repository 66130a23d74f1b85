"""What is said, where: results to the standard output, all else to the standard error."""

from __future__ import annotations

import json
import math
import sys
from pathlib import PurePath
from typing import Any

from mondrian_kernel.app.cli.progress import Progress


class Console:
    """Says results in words or as JSON.

    Parameters
    ----------
    as_json : bool
        Whether results are one JSON object instead of words.
    quiet : bool
        Whether to leave out words, notes and progress. JSON that was asked for is still written.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.progress = Progress(enabled=not quiet and sys.stderr.isatty())

    def result(self, values: Any, words: str) -> None:
        """Say a result: the values as JSON, or the words."""
        self.progress.clear()
        if self.as_json:
            print(json.dumps(_plain(values), ensure_ascii=False, indent=2, allow_nan=False))
        else:
            self.say(words)

    def say(self, words: str) -> None:
        """Say words at once, unless JSON was asked for."""
        if not self.as_json and not self.quiet:
            print(words, flush=True)

    def note(self, sentence: str) -> None:
        """Say on the side what the user should know."""
        if not self.quiet:
            self.progress.above(f"note: {sentence}\n")

    def error(self, sentence: str) -> None:
        """Say why nothing came of it."""
        self.progress.clear()
        print(f"mondrian-kernel: {sentence}", file=sys.stderr)


def lines(pairs: list[tuple[str, str]], indent: str = "  ") -> str:
    """Lay out names and values in two columns."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{indent}{name:<{width}}  {value}" for name, value in pairs)


def _plain(value: Any) -> Any:
    """Values that JSON knows; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, PurePath):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
