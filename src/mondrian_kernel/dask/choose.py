"""Choose scale, width and penalty on rows in blocks, by a look at some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._model.relevance import is_learnt, learn_relevance
from mondrian_kernel._path.choose import choose_width, sample_rows
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.summary import Summary, column_scale
from mondrian_kernel.dask.targets import numbers


def block_scale(
    model: Any,
    blocks: Blocks,
    summary: Summary,
    seed: int,
    columns: Callable[[NDArray[Any]], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return what columns are divided by, and how much each of them counts, which is in it.

    As :func:`mondrian_kernel._model.relevance.scale_and_relevance`; rows are fetched; ``columns``
    makes targets (n, T) of y.
    """
    scale = column_scale(model.scale, summary)
    if not is_learnt(model.relevance, model.lifetime, model.scale):
        return scale, np.ones(scale.size)
    X, y, weight = blocks.scaled(scale).take(sample_rows(summary.n_rows, seed), summary.lengths)
    assert y is not None
    relevance = learn_relevance(X, columns(y), None if (weight == 1.0).all() else weight, seed)
    return scale / relevance, relevance


def choose_block_width(
    blocks: Blocks,
    summary: Summary,
    seed: int,
    *,
    lifetime: float | str,
    alpha: float | str,
    n_estimators: int | str,
    solver: str,
) -> tuple[float, float, LifetimePath | None]:
    """Return a lifetime and an alpha, and the path they were chosen on.

    The choice is that of :func:`mondrian_kernel._path.choose.choose_width`, which looks at so few
    rows that they are fetched. Which ones depends on the seed and on their numbers, not on the
    blocks.
    """
    if lifetime != "auto" and alpha != "auto":
        return float(lifetime), float(alpha), None
    X, y, weight = blocks.take(sample_rows(summary.n_rows, seed), summary.lengths)
    assert y is not None
    return choose_width(
        X, numbers(y), None if (weight == 1.0).all() else weight, seed,
        lifetime=lifetime, alpha=alpha, n_estimators=n_estimators, criterion="loo", solver=solver,
        n_jobs=None, verbose=0,
    )  # fmt: skip
