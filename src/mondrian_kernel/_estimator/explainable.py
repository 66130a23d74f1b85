r"""Estimators that say which columns matter and explain their predictions, also in notebooks.

The Shapley value of column j at a row x is the mean, over rows z of a background and over all
orders of the columns, of the change of the prediction when column j of z becomes that of x, after
the columns before it in the order have. The values of all columns add up to the prediction of x
less the mean prediction of the background, for any set of orders.

Up to four columns all orders are taken. Beyond, each row of the background has one random order, of
which the next row has the reverse; in a small background each row has both. What single columns do
is then exact too and, in a small background, what pairs of columns do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.base import MondrianEstimator
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.notes import FitNotes
from mondrian_kernel._path.html_repr import page
from mondrian_kernel._trees.checks import check_whole, naming
from mondrian_kernel._typing import FloatArray

Predict = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    r"""Predictions of rows, taken apart by column: :math:`f(x) = base + \sum_j c_j(x)`.

    The contributions are Shapley values: the change of the prediction when a column of another row
    becomes that of this row, averaged over the rows of a background and over orders of the columns.

    Attributes
    ----------
    base : float or ndarray of shape (n_outputs,)
        Mean prediction of the background, which stands for all fitted rows.
    contributions : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        Contribution of each input column. With ``base`` they add up to ``prediction``.
    prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Predictions; of a classifier the probabilities, or its scores where it has none.
    names : list
        Names of the input columns.
    classes : ndarray of shape (n_classes,) or None
        Classes that the outputs belong to; of two classes with scores, only the second has one.
    neighbours : ndarray of shape (n_samples, n_neighbours) or None
        Places, in the table that was fitted, of the rows with the largest kernel to each row, the
        most similar first. None where the model does not keep its rows.
    similarity : ndarray of shape (n_samples, n_neighbours) or None
        Their kernel, between 0 and 1.
    neighbour_targets : ndarray of shape (n_samples, n_neighbours) or (..., n_outputs), or None
        Their targets.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianKernelRegressor
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> model = MondrianKernelRegressor(n_estimators=50, random_state=0).fit(X, X[:, 0])
    >>> found = model.explain(X[:3])
    >>> found.contributions.shape, found.neighbours[:, 0].tolist()
    ((3, 2), [0, 1, 2])
    >>> total = found.base + found.contributions.sum(axis=1)
    >>> bool(np.allclose(total, model.predict(X[:3])))
    True
    """

    base: Any
    contributions: FloatArray
    prediction: FloatArray
    names: list[Any]
    classes: NDArray[Any] | None = None
    neighbours: NDArray[np.int64] | None = None
    similarity: FloatArray | None = None
    neighbour_targets: NDArray[Any] | None = None

    def __repr__(self) -> str:
        n = len(self.prediction)
        lines = [f"Explanation of {n} row{'' if n == 1 else 's'}"]
        lines += [self._sentence(i) for i in range(min(n, settings.EXPLAIN_SHOWN))]
        return "\n".join(lines + ["  ..."] * (n > settings.EXPLAIN_SHOWN))

    def _sentence(self, i: int) -> str:
        """Return the sum of one row in words, for its first output or its likeliest class."""
        flat = self.prediction.ndim == 1
        k = 0 if flat or self.classes is None else int(self.prediction[i].argmax())
        parts = self.contributions[i] if flat else self.contributions[i, :, k]
        value = self.prediction[i] if flat else self.prediction[i, k]
        base = self.base if flat else self.base[k]
        what = "" if self.classes is None else f" for {self.classes[-1 if flat else k].item()!r}"
        order = np.argsort(-np.abs(parts), kind="stable")
        terms = [(parts[j], self.names[j]) for j in order[: settings.EXPLAIN_SHOWN]]
        rest = order[settings.EXPLAIN_SHOWN :]
        if rest.size:
            terms.append((parts[rest].sum(), f"{rest.size} other"))
        text = " ".join(f"{'-' if c < 0 else '+'} {abs(c):.3g} ({name})" for c, name in terms)
        out = f"  row {i}: {value:.4g}{what} = {base:.4g} {text}"
        if self.neighbours is not None and self.neighbour_targets is not None:
            near = zip(self.neighbours[i], self.neighbour_targets[i].tolist(), strict=True)
            said = [(row, f"{y:.4g}" if isinstance(y, float) else y) for row, y in near]
            shown = [f"{row} (y = {y})" for row, y in said][: settings.EXPLAIN_SHOWN]
            out += f"\n    most similar fitted rows: {', '.join(shown)}"
        return out


class ExplainableEstimator(MondrianEstimator):
    """Importances of columns, explanations of predictions, and a summary for notebooks."""

    @property
    def feature_importances_(self) -> FloatArray:
        """How much the error on rows held out grows when an input column is shuffled.

        The error is the squared one over the variance of y, or the log loss of classes. Only after
        a fit with ``lifetime="auto"``.
        """
        return self._importances(0)

    @property
    def feature_importances_std_(self) -> FloatArray:
        """Standard deviation of the importances over shuffles, each of other rows."""
        return self._importances(1)

    def _importances(self, which: int) -> FloatArray:
        check_is_fitted(self)
        if self._notes is None or self._notes.importances.size == 0:
            raise AttributeError(
                'Importances exist after a fit with lifetime="auto" that held rows out. For other '
                "models use sklearn.inspection.permutation_importance(model, X_test, y_test)."
            )
        found: FloatArray = self._notes.importances[which]
        return found

    def explain(
        self, X: ArrayLike, *, n_neighbours: int = 5, background: ArrayLike | None = None
    ) -> Explanation:
        """Take predictions apart by column, and find the fitted rows that are most similar.

        The contributions of a row are Shapley values. They add up to its prediction less the mean
        prediction of a background. The time grows with the number of rows, of columns, and of rows
        of the background.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_neighbours : int, default=5
            Number of similar rows.
        background : array-like of shape (n_background, n_features) or None, default=None
            Rows to compare with. None takes 10 rows of the fit that stand for all of them.

        Returns
        -------
        explanation : Explanation
            Contributions, predictions and similar rows.
        """
        model, notes = self._fitted(), self._notes
        n_neighbours, rows = check_whole(n_neighbours, "n_neighbours"), self._check_new(X)
        if background is not None:
            with naming("background"):
                others = self._check_new(background)
        elif notes is not None:
            others = notes.background
        else:
            raise ValueError("The model keeps no rows of a fit: pass some rows as background.")
        parts = shapley_values(self._outputs, rows, others, self._column_of_output())
        base, contributions, prediction = (self._shaped(part) for part in parts)
        near: tuple[Any, ...] = ()
        # After partial_fit the model has other rows than the notes, or none.
        if notes is not None and model.rows and model.rows.weight.size == notes.index.size:
            found, similarity = most_similar(model, rows, n_neighbours, self.n_jobs)
            near = notes.index[found], similarity, self._as_given(notes.targets[found])
        classes = getattr(self, "classes_", None)
        return Explanation(base, contributions, prediction, self._names(), classes, *near)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return what :meth:`explain` takes apart, so that ``shap.Explainer(model, X)`` works.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions; of a classifier the probabilities, or its scores where it has none.
        """
        return self._shaped(self._outputs(self._check_new(X)))

    def _outputs(self, rows: FloatArray) -> FloatArray:
        """Return what is explained, (n, K), of rows of numbers."""
        return self._fitted().scores(rows, self.n_jobs)

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Return outputs (..., K) in the shape of predictions."""
        raise NotImplementedError

    def _as_given(self, targets: FloatArray) -> NDArray[Any]:
        """Return targets (..., K) of the notes as y had them."""
        return self._shaped(targets)

    def _column_of_output(self) -> NDArray[np.intp]:
        """Return the input column of each column that the trees see."""
        encoder = self.encoder_
        return np.arange(self.n_features_in_) if encoder is None else encoder.column_of_output_

    def _names(self) -> list[Any]:
        """Return the names of the input columns, or their numbers."""
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        return list(names.tolist())

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._html_summary()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._html_summary()
        return bundle

    def _html_summary(self) -> str:
        if not hasattr(self, "_model"):
            return ""
        name, model = type(self).__name__, self._fitted()
        return model_html(name, model, self._notes, self._names(), self._seconds)


def shapley_values(
    predict: Predict, rows: FloatArray, background: FloatArray, group: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean prediction of the background, the Shapley values, and the predictions.

    Parameters
    ----------
    predict : callable
        Predictions (n, K) of rows (n, D).
    rows : ndarray of shape (n, D)
        Rows to explain.
    background : ndarray of shape (B, D)
        Rows to compare with.
    group : ndarray of shape (D,)
        Number of the input column of each column; columns of a group change together.

    Returns
    -------
    base : ndarray of shape (K,)
        Mean prediction of the background.
    values : ndarray of shape (n, G, K)
        Shapley values of the G input columns.
    predictions : ndarray of shape (n, K)
        Predictions of the rows.
    """
    n_rows, n_columns = rows.shape[0], int(group.max()) + 1
    ends, starts = predict(rows), predict(background)
    values = np.zeros((n_rows, n_columns, ends.shape[1]))
    for z, start, orders in zip(
        background, starts, _orders(n_columns, background.shape[0]), strict=True
    ):
        steps, masks, place = _walks(orders)
        size = max(1, settings.EXPLAIN_NUMBERS // max(masks.shape[0] * rows.shape[1], 1))
        for begin in range(0, n_rows, size):
            some = slice(begin, begin + size)
            mixed = np.where(masks[:, None, group], rows[some], z)
            found = np.empty((masks.shape[0] + 2, *ends[some].shape))
            found[0], found[-1] = start, ends[some]
            if masks.shape[0]:
                found[1:-1] = _predict_once(predict, mixed.reshape(-1, rows.shape[1])).reshape(
                    found[1:-1].shape
                )
            for order, at in zip(orders, place, strict=True):
                values[some, order] += np.diff(found[at], axis=0).swapaxes(0, 1)
    values /= background.shape[0] * steps
    return starts.mean(axis=0), values, ends


def _predict_once(predict: Predict, rows: FloatArray) -> FloatArray:
    """Predict rows of which many are equal, where a row and the background share categories."""
    rows = np.ascontiguousarray(rows)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return predict(rows[first])[place]


def _orders(n_columns: int, n_rows: int) -> NDArray[np.intp]:
    """Return orders of the columns for each row of the background, (n_rows, n_orders, G)."""
    if n_columns <= settings.EXPLAIN_ALL_ORDERS:
        return np.array([list(permutations(range(n_columns)))] * n_rows)
    rng = np.random.default_rng(0)  # the same row has the same explanation every time
    one = rng.permuted(np.tile(np.arange(n_columns), (n_rows, 1)), axis=1)
    if n_rows < settings.BACKGROUND_ROWS:
        return np.stack([one, one[:, ::-1]], axis=1)
    one[1::2] = one[:-1:2, ::-1]
    return one[:, None]


def _walks(orders: NDArray[np.intp]) -> tuple[int, NDArray[np.bool_], NDArray[np.intp]]:
    """Return the number P of orders, the sets of columns on their way, and which each order meets.

    The sets (U, G) leave out the empty and the full one, which are numbers 0 and U + 1.
    """
    n_orders, n_columns = orders.shape
    rank = np.argsort(orders, axis=1)
    on = rank[:, None, :] < np.arange(n_columns + 1)[:, None]  # (P, G + 1, G)
    sets, place = np.unique(on[:, 1:-1].reshape(-1, n_columns), axis=0, return_inverse=True)
    inner = 1 + place.reshape(n_orders, n_columns - 1)
    first, last = np.zeros((n_orders, 1), int), np.full((n_orders, 1), sets.shape[0] + 1)
    return n_orders, sets, np.hstack([first, inner, last])


def most_similar(
    model: FittedModel, X: FloatArray, n_neighbours: int, n_jobs: int | None
) -> tuple[NDArray[np.intp], FloatArray]:
    r"""Return the rows of the fit with the largest kernel to new rows, and the kernel, (n, k) each.

    The kernel is that of the trees, :math:`\sum_l w_l \frac1M \sum_m p_{lm}(x) \,
    1[c_{lm}(x) = c_{lm}(x_i)]`, with weights w of sum 1: at most 1, for a row of the fit itself.
    """
    assert model.rows is not None
    leaf, levels = model.rows.leaf, model.levels
    new = model.features(X, n_jobs).T.tocsr()
    n_rows, k = leaf.shape[0], min(n_neighbours, leaf.shape[0])
    best: NDArray[np.intp] = np.empty((X.shape[0], 0), np.intp)
    kernel: FloatArray = np.empty((X.shape[0], 0))
    size = max(1, settings.EXPLAIN_NUMBERS // (levels.n_levels * levels.n_trees))
    for begin in range(0, n_rows, size):
        block = levels.features(leaf[begin : begin + size], None) @ new
        found = block.T.toarray()
        own = np.arange(begin, begin + found.shape[1])
        best = np.hstack([best, np.broadcast_to(own, found.shape)])
        kernel = np.hstack([kernel, found])
        order = np.argsort(-kernel, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(best, order, axis=1)
        kernel = np.take_along_axis(kernel, order, axis=1)
    return best, kernel / levels.weights.sum()


def model_html(
    name: str,
    model: FittedModel,
    notes: FitNotes | None,
    columns: list[Any],
    seconds: Mapping[str, float],
) -> str:
    """Table of widths, trees, errors and times of a model, and bars of its importances."""
    levels = model.levels
    share = levels.weights / levels.weights.sum()
    widths = [f"{t:.3g} ({w:.0%})" for t, w in zip(levels.lifetimes, share, strict=True)]
    rows = {
        "lifetimes λ (weights)": ", ".join(widths),
        "trees": f"{levels.n_trees}, with {levels.n_features} cells",
    }
    if model.trend is not None:
        n = model.trend.landmarks.shape[0]
        turned = ", along learnt directions" if model.trend.factor.ndim == 2 else ""
        rows["trend"] = f"on {n} landmarks{turned}" if n else "linear"
    if notes is None:
        return page(name, rows, "")
    rows |= {f"{what}, rows held out": f"{value:.4g}" for what, value in notes.measures.items()}
    if seconds:
        slowest = sorted(seconds.items(), key=lambda item: -item[1])
        total = sum(seconds.values())
        parts = ", ".join(f"{stage} {taken:.2g}" for stage, taken in slowest)
        rows["seconds"] = f"{total:.2g}: {parts}"
    bars = _bars(notes.importances, columns) if notes.importances.size else ""
    return page(name, rows, bars)


def _bars(importances: FloatArray, columns: list[Any]) -> str:
    """Return the largest importances as bars, with their deviations."""
    mean, std = importances
    order = np.argsort(-mean, kind="stable")[: settings.HTML_COLUMNS]
    longest = max(float(mean[order[0]]), np.finfo(float).tiny)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(str(columns[j]))}</th>'
        f'<td style="text-align:left"><div style="background:#4878a8;height:0.8em;'
        f'width:{max(8.0 * float(mean[j]) / longest, 0.0):.2f}em"></div></td>'
        f'<td style="text-align:right">{mean[j]:.3g} ± {std[j]:.2g}</td></tr>'
        for j in order
    )
    title = "Growth of the error when a column is shuffled"
    if order.size < len(columns):
        title += f", the first {order.size} of {len(columns)}"
    return f'<table><caption style="text-align:left">{title}</caption>{body}</table>'
