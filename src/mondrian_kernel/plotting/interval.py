"""A picture of predictions with their intervals, beside the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from mondrian_kernel.plotting.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE, _INSIDE, _OUTSIDE = "#1f4e9c", "#333333", "#d21f1b"


class IntervalDisplay(Display):
    """Predictions with intervals against the truth, and the share of targets inside.

    Make one with :meth:`from_estimator` or :meth:`from_predictions`; the parameters are kept as
    attributes. With ``x`` the picture is a function of it with a band; without, rows are sorted by
    their predictions.

    Parameters
    ----------
    y_true : ndarray of shape (n_samples,)
        Targets.
    y_pred : ndarray of shape (n_samples,)
        Predictions.
    interval : ndarray of shape (n_samples, 2)
        Lower and upper end for each.
    x : ndarray of shape (n_samples,) or None, default=None
        Where the rows are, for inputs of one dim.
    coverage : float or None, default=None
        Share of targets that was to be inside.

    Attributes
    ----------
    covered : float
        Share of targets inside.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_ : matplotlib Artist
        The predictions.
    band_ : matplotlib Artist
        The intervals.
    inside_, outside_ : matplotlib Artist
        Targets in their intervals and out of them.

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

    def __init__(
        self,
        *,
        y_true: NDArray[Any],
        y_pred: NDArray[Any],
        interval: NDArray[Any],
        x: NDArray[Any] | None = None,
        coverage: float | None = None,
    ) -> None:
        self.y_true = y_true
        self.y_pred = y_pred
        self.interval = interval
        self.x = x
        self.coverage = coverage

    @property
    def covered(self) -> float:
        """Share of targets inside their intervals."""
        return float(np.mean(self._is_inside))

    @property
    def _is_inside(self) -> NDArray[np.bool_]:
        is_inside: NDArray[np.bool_] = (self.interval[:, 0] <= self.y_true) & (
            self.y_true <= self.interval[:, 1]
        )
        return is_inside

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        coverage: float = 0.9,
        ax: Axes | None = None,
    ) -> IntervalDisplay:
        """Draw the predictions of a fitted regressor, against X where it has one column.

        Parameters
        ----------
        estimator : fitted estimator
            Regressor with ``predict_interval``, such as :class:`MondrianKernelRegressor`.
        X : array-like of shape (n_samples, n_features)
            Rows that were not fitted.
        y : array-like of shape (n_samples,)
            Their targets.
        coverage : float, default=0.9
            Share of targets to be inside, between 0 and 1.
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.

        Returns
        -------
        display : IntervalDisplay
            The display, drawn.
        """
        if not hasattr(estimator, "predict_interval"):
            raise TypeError(
                f"A {type(estimator).__name__} has no predict_interval. Give the intervals of "
                "another model to IntervalDisplay.from_predictions."
            )
        x = np.asarray(X)
        return cls.from_predictions(
            y,
            estimator.predict(X),
            estimator.predict_interval(X, coverage=coverage),
            x=x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else None,
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
        coverage: float | None = None,
        ax: Axes | None = None,
    ) -> IntervalDisplay:
        """Draw predictions and intervals that were made already.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
            Targets and predictions.
        interval : array-like of shape (n_samples, 2)
            Lower and upper end.
        x : array-like of shape (n_samples,) or None, default=None
            Where the rows are. None: they are sorted by their predictions.
        coverage : float or None, default=None
            Share of targets that was to be inside, for the title.
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.

        Returns
        -------
        display : IntervalDisplay
            The display, drawn.
        """
        true, predicted = column_or_1d(y_true), column_or_1d(y_pred)
        ends, places = np.asarray(interval), None if x is None else column_or_1d(x)
        check_consistent_length(true, predicted, ends, places)
        if ends.ndim != 2 or ends.shape[1] != 2:
            raise ValueError(f"interval must have the shape (n_samples, 2), got {ends.shape}.")
        display = cls(y_true=true, y_pred=predicted, interval=ends, x=places, coverage=coverage)
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> IntervalDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.

        Returns
        -------
        self : IntervalDisplay
            The display.
        """
        ax = self._axes(ax, "plot")
        order = np.argsort(self.y_pred if self.x is None else self.x, kind="stable")
        x = np.arange(order.size) if self.x is None else self.x[order]
        y, inside = self.y_true[order], self._is_inside[order]
        self.band_ = ax.fill_between(
            x, *self.interval[order].T, color=_LINE, alpha=0.22, linewidth=0, label="interval"
        )
        self.line_ = ax.plot(x, self.y_pred[order], color=_LINE, label="prediction", zorder=3)[0]
        size = max(6.0, min(22.0, 4000.0 / order.size))
        self.inside_ = ax.scatter(
            x[inside], y[inside], s=size, color=_INSIDE, linewidth=0, zorder=2, label="y, inside"
        )
        self.outside_ = ax.scatter(
            x[~inside], y[~inside], s=size, color=_OUTSIDE, marker="D", linewidth=0, zorder=4,
            label="y, outside",
        )  # fmt: skip
        ax.set(xlabel="rows, sorted by prediction" if self.x is None else "x", ylabel="y")
        promised = "" if self.coverage is None else f"; {100 * self.coverage:.3g} % were asked for"
        ax.set_title(f"{100 * self.covered:.1f} % of the targets are inside{promised}")
        ax.legend(fontsize="small")
        return self
