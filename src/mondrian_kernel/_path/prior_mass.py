"""The mass of a prior on intervals, as logarithms, without cancellation in either tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._typing import FloatArray


def log_mass(prior: Any, a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Logarithm of the prior mass of [a, b], without cancellation in either tail."""
    with np.errstate(divide="ignore", over="ignore"):
        lower = _log_difference(_log_tail(prior, b, "cdf"), _log_tail(prior, a, "cdf"))
        upper = _log_difference(_log_tail(prior, a, "sf"), _log_tail(prior, b, "sf"))
    log_mass: FloatArray = np.where(prior.cdf(a) < 0.5, lower, upper)
    return log_mass


def _log_tail(prior: Any, t: ArrayLike, tail: Literal["cdf", "sf"]) -> FloatArray:
    """Logarithm of the prior mass below (cdf) or above (sf) t, by the best method it has."""
    method: Callable[[ArrayLike], ArrayLike] | None = getattr(prior, f"log{tail}", None)
    if method is not None:
        return np.asarray(method(t), float)
    cdf = np.asarray(prior.cdf(t), float)
    log_tail: FloatArray = np.log(cdf) if tail == "cdf" else np.log1p(-cdf)
    return log_tail


def _log_difference(large: FloatArray, small: FloatArray) -> FloatArray:
    """Logarithm of exp(large) - exp(small)."""
    finite = np.where(large > -np.inf, large, 0.0)
    difference: FloatArray = large + np.log(-np.expm1(np.minimum(small - finite, 0.0)))
    return difference
