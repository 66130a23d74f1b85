"""The experiments of the paper "The Mondrian Kernel", one module a figure.

A run writes numbers to JSON first and draws from the JSON second; the claims of the paper are
functions of the same JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mondrian_experiments.claims import Claim, Outcome

__all__ = ["NAMES", "Claim", "Outcome", "run"]

NAMES = (
    "partition",
    "kernel-error",
    "cpu-error",
    "width-recovery",
    "width-search",
    "kernel-and-forest",
)
"""Names of the experiments, in the order of the paper."""


def run(
    names: Sequence[str] | None = None,
    *,
    data: Path | None = None,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Outcome]:
    """Run experiments: results to ``out/results``, figures to ``out/figures``, then the table.

    A file appears whole or not at all. After Ctrl-C everything finished so far is kept, and the
    table in ``out/README.md`` holds it.

    Parameters
    ----------
    names : sequence of str or None, default=None
        Some of `NAMES`; None for all.
    data : Path or None, default=None
        Folder with cpu_act.csv.gz. None: the folder in the environment variable
        MONDRIAN_KERNEL_DATA, or else OpenML. Without the data its experiments are skipped, but
        with ``quick`` they run on a synthetic stand-in.
    out : Path
        Folder to write to; made where it does not exist.
    quick : bool, default=False
        Whether to run at small sizes.
    seed : int, default=0
        Seed of everything random.
    progress : callable or None, default=None
        Called as ``progress(done, total, text)``.

    Returns
    -------
    outcomes : list of Outcome
        One for each name: what was claimed and measured, the files, or why it was skipped.
    """
    from mondrian_experiments.runner import run_experiments

    return run_experiments(names, data=data, out=out, quick=quick, seed=seed, progress=progress)
