"""The paper's search for a kernel width, for schemes that start afresh at every width."""

from __future__ import annotations

import time
from collections.abc import Callable

Trace = dict[str, list[float]]
"""CPU ``seconds`` passed, ``lifetime`` looked at and ``error`` found, in the order of time."""

_CLEARLY = 0.95


def search(
    evaluate: Callable[[float], float],
    mean_error: float,
    n_evaluations: int,
    step: Callable[[int], None] | None = None,
) -> Trace:
    """Look for the lifetime of the least error, beginning at 1.

    Until some lifetime is clearly better than the mean of y, the least one so far is halved and
    the greatest doubled in turn. Then the search goes on at the end where the best is, and once
    there are neighbours on both sides it bisects, on a logarithmic scale, towards the better one.

    Parameters
    ----------
    evaluate : callable
        Error at a lifetime.
    mean_error : float
        Error of predicting the mean.
    n_evaluations : int
        Number of lifetimes to look at.
    step : callable or None, default=None
        Told the number of evaluations before each.

    Returns
    -------
    trace : dict
        Lists of CPU seconds, lifetimes and errors.
    """
    begin = time.process_time()
    trace: Trace = {"seconds": [], "lifetime": [], "error": []}
    error: dict[float, float] = {}  # by the logarithm of the lifetime to base 2
    for n in range(n_evaluations):
        if step is not None:
            step(n)
        power = _next(error, n, mean_error) if error else 0.0
        error[power] = evaluate(2.0**power)
        for key, value in {
            "seconds": time.process_time() - begin,
            "lifetime": 2.0**power,
            "error": error[power],
        }.items():
            trace[key].append(value)
    return trace


def _next(error: dict[float, float], n: int, mean_error: float) -> float:
    tried = sorted(error)
    best = min(tried, key=error.__getitem__)
    lost = error[best] > _CLEARLY * mean_error
    if (lost and n % 2) or (not lost and best == tried[0]):
        return tried[0] - 1
    if lost or best == tried[-1]:
        return tried[-1] + 1
    k = tried.index(best)
    return (best + min(tried[k - 1], tried[k + 1], key=error.__getitem__)) / 2


def time_to(trace: Trace, level: float) -> float:
    """CPU seconds until an error is at most ``level``, which one must be."""
    pairs = zip(trace["seconds"], trace["error"], strict=True)
    return next(seconds for seconds, error in pairs if error <= level)
