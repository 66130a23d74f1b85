"""How the regressor learns from a stream: exactly while that is possible, then in one pass."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from mondrian_kernel._model.scaling import dim_scale
from mondrian_kernel._online.exact import EXACT_SIZE, ExactRidge
from mondrian_kernel._online.filter import N_RECENT, Filter
from mondrian_kernel._online.model import (
    all_or_nothing,
    begin_stream,
    check_stream,
    continue_stream,
    learn_and_show,
    own_features,
    stream_rows,
    stream_trees,
)
from mondrian_kernel._online.stream import STREAM_ALPHA, WARM_UP, Stream, last_build, rows_per_cell
from mondrian_kernel._path.checks import check_weights
from mondrian_kernel._trees.checks import check_more_ranges, check_ranges, draw_seed
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._typing import FloatArray

_TOO_MANY = (
    f"Rows and cells are more than {EXACT_SIZE}, too many for exact updates: from now on each row "
    "is taken once and forgotten, which is approximate. To stay exact fit all rows anew, or lower "
    "n_estimators or lifetime."
)


def learn_regression(
    model: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> None:
    """Learn from further rows; if anything fails, the model is as it was.

    Parameters
    ----------
    model : MondrianKernelRegressor
        The model, fitted or not.
    X, y, sample_weight
        As of its ``partial_fit``.
    """
    first = not hasattr(model, "features_")
    rows, targets = check_stream(model, X, y, first=first, multi_output=True, y_numeric=True)
    Y = targets.astype(np.float64).reshape(rows.shape[0], -1)
    rows, Y, s = stream_rows(rows, Y, check_weights(sample_weight, rows))
    if not first and Y.shape[1] != model._coef.shape[1]:
        raise ValueError(f"y has {Y.shape[1]} outputs, but before it had {model._coef.shape[1]}.")
    one_output = targets.ndim == 1 if first else model._one_output
    stream: Stream | None = model.__dict__.get("_stream")
    auto = isinstance(model.lifetime, str)
    too_many = stream is None and _exact_size(model, rows.shape[0]) > EXACT_SIZE
    if too_many and not (first and auto):
        warnings.warn(_TOO_MANY, UserWarning, stacklevel=3)
    if first and (auto or too_many):
        blank = Filter(Y.shape[1], "squared", _alpha(model))
        stream = begin_stream(model, blank, rows.shape[1])
    elif too_many:
        stream = _forgetting(model)
    if stream is None:
        _learn_exactly(model, rows, Y, s, one_output)
    else:
        learn_and_show(model, stream, (rows, Y, s), lambda new: _filtered(new, one_output))
    model.__dict__.pop("_mixture", None)  # of the widths of a fit


def _exact_size(model: Any, n_more: int) -> int:
    if not hasattr(model, "features_"):
        return n_more
    return int(min(model._leaf.shape[0] + n_more, model.features_.n_cells_))


def _alpha(model: Any) -> float:
    return STREAM_ALPHA if isinstance(model.alpha, str) else float(model.alpha)


def _forgetting(model: Any) -> Stream:
    """Return a stream that goes on from the exact fit, whose rows it forgets."""
    learner = Filter.after(
        model._coef, model._intercept, rows_per_cell(model.features_),
        model.features_.trees_.n_trees, "squared", model.alpha_,
    )  # fmt: skip
    # Until late rows have errors of their own: normal ones of the variance of the fit.
    scores = ndtri((np.arange(N_RECENT) * 619 % N_RECENT + 0.5) / N_RECENT)
    learner.recent = np.tile(scores[:, None] * np.sqrt(model._signal), (2, 1))
    learner.n_rows[0] = model._leaf.shape[0]
    return continue_stream(model, learner)


def _filtered(stream: Stream, one_output: bool) -> dict[str, Any]:
    """Return the attributes of a regressor that has forgotten its rows."""
    learner = stream.learner
    coef, b = learner.W[: learner.n_cells], learner.b
    return {
        "alpha_": learner.alpha, "_leaf": None, "_Y": None, "_weight": None, "_ridge": None,
        "log_marginal_likelihood_": float("nan"),
        **_shown(coef, b, learner.signal(), learner.alpha, one_output),
    }  # fmt: skip


def _shown(
    coef: FloatArray, b: FloatArray, signal: FloatArray, alpha: float, one: bool
) -> dict[str, Any]:
    """Return the attributes that every fit of the regressor has."""
    shown = float(signal[0]) if one else signal
    return {
        "_coef": coef, "_intercept": b, "_signal": signal, "_one_output": one,
        "coef_": coef[:, 0] if one else coef, "intercept_": float(b[0]) if one else b,
        "signal_variance_": shown, "noise_variance_": shown * alpha,
    }  # fmt: skip


def _learn_exactly(
    model: Any, rows: FloatArray, Y: FloatArray, s: FloatArray, one_output: bool
) -> None:
    """Extend the trees and the factor of the ridge problem by rows.

    A scale that is to be taken from the rows is taken anew at 1, 4, 16, ... and 1024 rows, as in a
    :class:`Stream`, and all is begun again with it; until then the rows are kept.
    """
    first = not hasattr(model, "features_")
    kept: FloatArray | None = model.__dict__.get("_kept")
    begins = first
    if first and isinstance(model.scale, str):
        kept = rows.copy()  # the caller's array may change
    elif kept is not None:
        n_before, kept = kept.shape[0], np.concatenate([kept, rows])
        begins = last_build(kept.shape[0]) > last_build(n_before)
        if begins:
            rows, Y = kept, np.concatenate([model._Y, Y])
            s = np.concatenate([model._weight, s])
    if begins:
        _begin_exactly(model, rows, Y, s, kept, one_output)
    else:
        _go_on_exactly(model, rows, Y, s, kept, one_output)


def _begin_exactly(
    model: Any,
    rows: FloatArray,
    Y: FloatArray,
    s: FloatArray,
    kept: FloatArray | None,
    one_output: bool,
) -> None:
    n_trees = stream_trees(model)
    n = rows.shape[0] if kept is None else last_build(rows.shape[0])
    scale = dim_scale(model.scale, rows[:n], s[:n])
    alpha = _alpha(model)
    seed = draw_seed(model.random_state)
    if hasattr(model, "features_"):
        seed = model.features_._seed
    check_ranges(rows / scale)
    online = OnlineTrees.empty(rows.shape[1], n_trees, float(model.lifetime), seed)
    leaf = online.extend(rows / scale, model.max_cells)
    cells = online.column[0][leaf]
    ridge = ExactRidge(leaf.copy(), cells, Y, s, int(online.n_cells[0]), alpha)
    with all_or_nothing(model, lambda: None):
        _show_exact(
            model,
            online,
            ridge,
            kept,
            one_output,
            alpha_=alpha,
            scale_=scale,
            relevance_=np.ones(scale.size),
        )


def _go_on_exactly(
    model: Any,
    rows: FloatArray,
    Y: FloatArray,
    s: FloatArray,
    kept: FloatArray | None,
    one_output: bool,
) -> None:
    rows = rows / model.scale_
    check_more_ranges(model.features_.trees_, rows)
    online = model.features_._stream()
    ridge: ExactRidge | None = model.__dict__.get("_ridge")
    if ridge is None:
        weight = np.ones(model._Y.shape[0]) if model._weight is None else model._weight
        ridge = ExactRidge(
            model._leaf, online.column[0][model._leaf], model._Y, weight, int(online.n_cells[0]),
            model.alpha_,
        )  # fmt: skip
    n_before = online.n_rows
    model.__dict__["_ridge"] = None  # if this fails it is made again from the rows
    with all_or_nothing(model, lambda: online.rollback(n_before)):
        leaf = online.extend(rows, model.max_cells)
        ridge.append(leaf, online.column[0][leaf], Y, s, int(online.n_cells[0]))
        _show_exact(model, online, ridge, kept, one_output)


def _show_exact(
    model: Any,
    online: OnlineTrees,
    ridge: ExactRidge,
    kept: FloatArray | None,
    one_output: bool,
    **attributes: Any,
) -> None:
    fit = ridge.fit()
    alpha = attributes.get("alpha_", model.__dict__.get("alpha_"))
    shown = _shown(fit.coef, fit.intercept, fit.signal, alpha, one_output)
    features = own_features(model, float(online.rungs[0]))
    features._follow(online)
    model.__dict__.pop("_bars", None)
    model.__dict__.update(
        features_=features, lifetime_=features.lifetime_, path_=model.__dict__.get("path_"),
        _ridge=ridge, _leaf=ridge.leaf, _Y=ridge.Y, _weight=ridge.sample_weight,
        _kept=None if kept is None or kept.shape[0] >= WARM_UP else kept,
        log_marginal_likelihood_=fit.evidence, **shown, **attributes,
    )  # fmt: skip
