"""The lifetime path of losses that have no closed form, or by stochastic gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mondrian_kernel._path.checks import blamed_on, check_alphas, check_lifetimes, check_weights
from mondrian_kernel._path.loss_path import LossPath, loss_path
from mondrian_kernel._path.sgd_path import SgdPath, class_labels, sgd_path
from mondrian_kernel._trees.checks import check_rows, draw_seed
from mondrian_kernel.features import MondrianFeatures


def gradient_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: str,
    solver: str,
    max_lifetime: float | None,
    lifetimes: ArrayLike | None,
    alphas: ArrayLike | None,
    validation: tuple[ArrayLike, ArrayLike] | None,
    sample_weight: ArrayLike | None,
    random_state: Any,
    **options: Any,
) -> LossPath | SgdPath:
    """Return the path of a loss by batches, or by stochastic gradients; see :func:`lifetime_path`.

    ``options`` are the number of trees and of lifetimes, ``n_jobs`` and ``callback``.
    """
    if solver == "sgd":
        if max_lifetime is None or alphas is None or np.size(alphas) != 1:
            raise ValueError("solver='sgd' needs max_lifetime and one alpha: alphas=[...].")
        if lifetimes is not None or sample_weight is not None:
            raise ValueError("solver='sgd' takes neither lifetimes nor sample_weight.")
        return sgd_path(
            X, y, loss=loss, alpha=float(np.ravel(alphas)[0]), max_lifetime=max_lifetime,
            validation=validation, random_state=random_state, **options,
        )  # fmt: skip
    if solver != "auto":
        raise ValueError(f"solver={solver!r} is for the squared loss; use 'auto' or 'sgd'.")
    checker = MondrianFeatures(n_estimators=options["n_estimators"], random_state=random_state)
    checker._validate_params()
    rows = check_rows(checker, X, reset=True)
    labels, classes = class_labels(y, rows)
    weight = check_weights(sample_weight, rows)
    parts = None
    if validation is not None:
        with blamed_on("validation"):
            X_val = check_rows(checker, validation[0])
            labels_val, _ = class_labels(validation[1], X_val, classes)
        parts = np.arange(rows.shape[0]), np.arange(X_val.shape[0]) + rows.shape[0]
        rows, labels = np.concatenate([rows, X_val]), np.concatenate([labels, labels_val])
        if weight is not None:
            weight = np.concatenate([weight, np.ones(X_val.shape[0])])
    if weight is not None and not weight.all():
        raise ValueError("sample_weight is zero for some rows: leave these rows out.")
    wanted = None if lifetimes is None else check_lifetimes(lifetimes)
    return loss_path(
        rows, labels, classes.size, loss, max_rows=rows.shape[0], parts=parts,
        max_lifetime=max_lifetime, lifetimes=wanted,
        alphas=None if alphas is None else check_alphas(alphas),
        sample_weight=weight, seed=draw_seed(random_state), **options,
    )  # fmt: skip
