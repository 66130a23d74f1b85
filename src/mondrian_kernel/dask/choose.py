"""Choose the width and the penalty of a regression on rows in blocks."""

from __future__ import annotations

from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.summary import Summary
from mondrian_kernel.dask.targets import numbers
from mondrian_kernel.path.choose import choose_width, looked_at
from mondrian_kernel.path.result import LifetimePath


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

    The choice is that of :func:`mondrian_kernel.path.choose.choose_width`, which looks at so few
    rows that they are fetched. Which ones depends on the seed and on their numbers, not on the
    blocks.
    """
    if lifetime != "auto" and alpha != "auto":
        return float(lifetime), float(alpha), None
    X, y, weight = blocks.take(looked_at(summary.n_rows, seed), summary.lengths)
    assert y is not None
    return choose_width(
        X, numbers(y), None if (weight == 1.0).all() else weight, seed,
        lifetime=lifetime, alpha=alpha, n_estimators=n_estimators, criterion="loo", solver=solver,
        n_jobs=None, verbose=0,
    )  # fmt: skip
