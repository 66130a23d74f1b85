"""The paper's procedure: the ridge path after every single cut, exactly."""

from __future__ import annotations

import numpy as np

from mondrian_kernel._linear.every_cut import EveryCut, HeldOut, every_cut
from mondrian_kernel._path.driver import Callback
from mondrian_kernel._path.result import LifetimePath, RidgeRows
from mondrian_kernel._trees.sequence import cut_sequence
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures


def cut_path(
    features: MondrianFeatures,
    leaf: IntArray,
    y: FloatArray,
    alphas: FloatArray,
    *,
    criterion: str,
    held_out: tuple[FloatArray, FloatArray] | None,
    fit_intercept: bool,
    callback: Callback | None,
) -> LifetimePath:
    """Path over the lifetime 0 and the time of each cut of the trees of ``features``.

    ``leaf`` (N, M) and ``y`` (N,) belong to the fitted rows, ``held_out`` are rows and targets
    (n, 1). The intercept, where there is one, is the mean of y. One sweep for each alpha; after an
    interrupt the path ends with the last cut that every alpha has reached.
    """
    sequence = cut_sequence(features.trees_, leaf)
    offset = y.mean() if fit_intercept else 0.0
    validation = None
    if held_out is not None:
        cells, decay = sequence.new_rows(held_out[0])
        validation = HeldOut(cells, held_out[1][:, 0] - offset, decay)
    runs: list[EveryCut] = []
    for alpha in alphas:
        run = every_cut(
            sequence.cells,
            sequence.splits,
            y - offset,
            float(alpha),
            times=sequence.times,
            validation=validation,
            callback=callback,
        )
        runs.append(run)
        if not run.complete:
            break
    n = min(run.train_error.size for run in runs)

    def table(name: str) -> FloatArray:
        return np.stack([getattr(run, name)[:n] for run in runs], axis=1)

    paper = table("log_marginal_likelihood")
    curves = {
        "train_error": table("train_error"),
        "loo_error": table("loo_error"),
        "loo_error_std": np.zeros_like(paper),
        "log_marginal_likelihood": table("log_marginal_likelihood_profiled"),
        "log_marginal_likelihood_paper": paper,
        "log_marginal_likelihood_std": np.zeros_like(paper),
    }
    if validation is not None:
        curves["validation_error"] = table("validation_error")
    rows = RidgeRows(features, leaf, (y - offset)[:, None], None, False, np.array([offset]))
    return LifetimePath(
        np.concatenate([[0.0], sequence.times])[:n],
        runs[0].n_cells[:n].astype(np.int64),
        alphas[: len(runs)],
        curves,
        criterion,
        all(run.complete for run in runs) and len(runs) == alphas.size,
        np.full(n, "every cut"),
        rows,
    )
