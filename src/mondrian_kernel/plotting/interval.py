"""Plot predictions with their intervals, and the targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, column_or_1d

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.plotting.display import BLACK, BLUE, RED, Display, legend_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class IntervalDisplay(Display):
    """Predictions with intervals, the targets, and the share of targets inside.

    The title gives this share for all rows, and for each fifth of the rows by prediction: intervals
    may be right on average, yet too narrow for large predictions.

    Create one with :meth:`from_estimator` or :meth:`from_predictions`; the parameters are kept as
    attributes. With ``x``, predictions are drawn as a function of ``x``. Without it, rows are
    sorted by their predictions.

    Parameters
    ----------
    y_true : ndarray of shape (n_samples,)
        Targets.
    y_pred : ndarray of shape (n_samples,)
        Predictions.
    interval : ndarray of shape (n_samples, 2)
        Lower and upper end of each interval.
    x : ndarray of shape (n_samples,) or None, default=None
        Values of the input, if it has a single column.
    x_name : str, default="x"
        Name of the input.
    coverage : float or None, default=None
        Requested share of targets inside.

    Attributes
    ----------
    covered : float
        Share of targets inside.
    covered_by_fifth : ndarray of shape (5,)
        The same for the fifth of the rows with the lowest predictions, the next fifth and so on.
    ax_, figure_ : matplotlib Axes and Figure
        The axes and their figure.
    line_ : matplotlib Artist
        The predictions.
    band_ : matplotlib Artist
        The intervals.
    inside_, outside_ : matplotlib Artist
        Targets inside and outside their intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianKernelRegressor
    >>> from mondrian_kernel.plotting import IntervalDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = MondrianKernelRegressor(n_estimators=100, random_state=0).fit(X[:100], y[:100])
    >>> display = IntervalDisplay.from_estimator(model, X[100:], y[100:], coverage=0.9)
    >>> bool(0.8 < display.covered <= 1.0)
    True
    """

    y_true: FloatArray
    y_pred: FloatArray
    interval: FloatArray
    x: FloatArray | None = None
    x_name: str = "x"
    coverage: float | None = None

    @property
    def covered(self) -> float:
        """Share of targets inside their intervals."""
        return float(np.mean(is_inside(self.y_true, self.interval)))

    @property
    def covered_by_fifth(self) -> FloatArray:
        """Share of targets inside, by fifths of the prediction from the lowest on."""
        return coverage_by_fifth(self.y_true, self.y_pred, self.interval)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        coverage: float = 0.9,
        ax: Axes | None = None,
    ) -> IntervalDisplay:
        """Plot the predictions of a fitted regressor, against X if it has one column.

        Parameters
        ----------
        estimator : fitted estimator
            Regressor with ``predict_interval``, such as :class:`MondrianKernelRegressor`.
        X : array-like of shape (n_samples, n_features)
            Rows that were not used to fit.
        y : array-like of shape (n_samples,)
            Their targets.
        coverage : float, default=0.9
            Requested share of targets inside, between 0 and 1.
        ax : matplotlib Axes or None, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : IntervalDisplay
            The display.
        """
        if not hasattr(estimator, "predict_interval"):
            raise TypeError(
                f"{type(estimator).__name__} has no predict_interval. For intervals of another "
                "model use IntervalDisplay.from_predictions."
            )
        x, names = np.asarray(X), getattr(X, "columns", ["x"])
        return cls.from_predictions(
            y,
            estimator.predict(X),
            estimator.predict_interval(X, coverage=coverage),
            x=x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else None,
            x_name=str(names[0]),
            coverage=coverage,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        interval: ArrayLike,
        *,
        x: ArrayLike | None = None,
        x_name: str = "x",
        coverage: float | None = None,
        ax: Axes | None = None,
    ) -> IntervalDisplay:
        """Plot predictions and intervals.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
            Targets and predictions.
        interval : array-like of shape (n_samples, 2)
            Lower and upper end.
        x, x_name, coverage
            As in the class.
        ax : matplotlib Axes or None, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : IntervalDisplay
            The display.
        """
        true, predicted = column_or_1d(y_true), column_or_1d(y_pred)
        ends, values = np.asarray(interval), None if x is None else column_or_1d(x)
        check_consistent_length(true, predicted, ends, values)
        if ends.ndim != 2 or ends.shape[1] != 2:
            raise ValueError(f"interval must have the shape (n_samples, 2), got {ends.shape}.")
        display = cls(
            y_true=true, y_pred=predicted, interval=ends, x=values, x_name=x_name, coverage=coverage
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> IntervalDisplay:
        """Plot the intervals, the predictions and the targets.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw in; None for a new figure.

        Returns
        -------
        self : IntervalDisplay
            The display.
        """
        ax = self._axes(ax, "plot")
        order = np.argsort(self.y_pred if self.x is None else self.x, kind="stable")
        x = np.arange(order.size) if self.x is None else self.x[order]
        y, ends = self.y_true[order], self.interval[order].T
        inside = is_inside(y, ends.T)
        self.band_ = ax.fill_between(x, *ends, color=BLUE, alpha=0.22, lw=0, label="interval")
        self.line_ = ax.plot(x, self.y_pred[order], color=BLUE, label="prediction", zorder=3)[0]
        dots: dict[str, Any] = {"s": max(6.0, min(22.0, 4000.0 / order.size)), "linewidth": 0}
        within = dots | {"color": BLACK, "zorder": 2, "label": "target inside"}
        without = dots | {"color": RED, "marker": "D", "zorder": 4, "label": "target outside"}
        self.inside_ = ax.scatter(x[inside], y[inside], **within)
        self.outside_ = ax.scatter(x[~inside], y[~inside], **without)
        xlabel = "rows sorted by prediction" if self.x is None else self.x_name
        ax.set(xlabel=xlabel, ylabel="target")
        requested = "" if self.coverage is None else f", {100 * self.coverage:.3g} % requested"
        fifths = ", ".join(f"{100 * share:.0f}" for share in self.covered_by_fifth)
        ax.set_title(
            f"{100 * self.covered:.1f} % of targets inside{requested}\n"
            f"by fifths of the prediction: {fifths} %",
            fontsize="medium",
        )
        handles = [self.band_, self.line_, self.inside_, self.outside_]
        legend_beside(ax, handles, [(ax.transData, x, end) for end in ends])
        return self


def coverage_by_fifth(y_true: FloatArray, y_pred: FloatArray, interval: FloatArray) -> FloatArray:
    """Return the share of targets inside their intervals, by fifths of the prediction."""
    inside, order = is_inside(y_true, interval), np.argsort(y_pred, kind="stable")
    parts = np.array_split(inside[order], 5)
    return np.array([part.mean() if part.size else np.nan for part in parts])


def is_inside(y: FloatArray, interval: FloatArray) -> NDArray[np.bool_]:
    """Return whether targets (n,) lie inside intervals (..., n, 2)."""
    inside: NDArray[np.bool_] = (interval[..., 0] <= y) & (y <= interval[..., 1])
    return inside
