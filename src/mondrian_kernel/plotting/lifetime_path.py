"""Plot a lifetime path: the criterion and the number of cells against the lifetime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._path.html_repr import density_steps
from mondrian_kernel._path.posterior import LifetimePosterior
from mondrian_kernel._path.result import LifetimePath, best_alphas, curves
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.plotting.display import BLUE, GREY, RED, YELLOW, Display, legend_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.transforms import Transform


@dataclass(kw_only=True, eq=False, repr=False)
class LifetimePathDisplay(Display):
    """Error or evidence and number of cells against the lifetime λ, with the chosen lifetime.

    Create one with :meth:`from_estimator` or :meth:`from_path`; the parameters are kept as
    attributes.

    Parameters
    ----------
    path : LifetimePath
        The path.
    criterion : str
        Which of its curves to plot.
    posterior : LifetimePosterior or None, default=None
        Posterior over λ, drawn in the background.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        The axes and their figure.
    lines_ : list of matplotlib Artist
        The curves: one, or one for each alpha.
    chosen_ : matplotlib Artist
        The chosen lifetime.
    cells_ax_, cells_line_ : matplotlib Axes and Artist
        The axis on the right, and the number of cells.
    posterior_ : matplotlib Artist or None
        The posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import lifetime_path
    >>> from mondrian_kernel.plotting import LifetimePathDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> path = lifetime_path(X, y, n_estimators=50, random_state=0)
    >>> display = LifetimePathDisplay.from_path(path)
    >>> display.ax_.get_xlabel()
    'lifetime λ'
    """

    path: LifetimePath
    criterion: str
    posterior: LifetimePosterior | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        criterion: str | None = None,
        prior: Any = None,
        alphas: str = "best",
        ax: Axes | None = None,
        line_kwargs: dict[str, Any] | None = None,
    ) -> LifetimePathDisplay:
        """Plot the path on which a fitted model chose its lifetime.

        Parameters
        ----------
        estimator : fitted estimator
            A model with ``path_``: Mondrian kernel or forest, regressor or classifier.
        criterion, prior, alphas, ax, line_kwargs
            As in :meth:`from_path`.

        Returns
        -------
        display : LifetimePathDisplay
            The display.
        """
        check_is_fitted(estimator)
        path = getattr(estimator, "path_", None)
        if path is None:
            raise ValueError(
                f"This {type(estimator).__name__} has no path: it did not choose one lifetime. "
                "Fit it with lifetime='path', or a forest with lifetime='auto'."
            )
        return cls.from_path(
            path, criterion=criterion, prior=prior, alphas=alphas, ax=ax, line_kwargs=line_kwargs
        )

    @classmethod
    def from_path(
        cls,
        path: LifetimePath,
        *,
        criterion: str | None = None,
        prior: Any = None,
        alphas: str = "best",
        ax: Axes | None = None,
        line_kwargs: dict[str, Any] | None = None,
    ) -> LifetimePathDisplay:
        """Plot a path.

        Parameters
        ----------
        path : LifetimePath
            The path.
        criterion : {"loo", "holdout", "evidence", "evidence-paper", "train"} or None, default=None
            Curve to plot. None plots the criterion that chose the lifetime.
        prior : frozen distribution or None, default=None
            Prior on λ, such as ``scipy.stats.loguniform(0.1, 100)``: adds the posterior. Needs a
            path with evidence.
        alphas : {"best", "all"}, default="best"
            One curve with the best alpha at each lifetime, or one curve for each alpha.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; None for a new figure.
        line_kwargs : dict or None, default=None
            Options of the curves, passed to ``ax.plot``.

        Returns
        -------
        display : LifetimePathDisplay
            The display.
        """
        held = curves(path)
        wanted = path.criterion if criterion is None else criterion
        if wanted not in held:
            raise ValueError(f"criterion={wanted!r} is not on this path: it has {list(held)}.")
        posterior = None
        if prior is not None:
            if "evidence" not in held:
                raise ValueError(
                    f"This path has no evidence, hence no posterior: it has {list(held)}. Run "
                    "lifetime_path with criterion='evidence'."
                )
            posterior = path.posterior(prior)
        display = cls(path=path, criterion=wanted, posterior=posterior)
        return display.plot(ax, alphas=alphas, line_kwargs=line_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        alphas: str = "best",
        line_kwargs: dict[str, Any] | None = None,
    ) -> LifetimePathDisplay:
        """Plot the curves, the number of cells and the posterior.

        Parameters
        ----------
        ax, alphas, line_kwargs
            As in :meth:`from_path`.

        Returns
        -------
        self : LifetimePathDisplay
            The display.
        """
        if alphas not in ("best", "all"):
            raise ValueError(f"alphas must be 'best' or 'all', got {alphas!r}.")
        ax = self._axes(ax, "plot")
        path, curve = self.path, curves(self.path)[self.criterion]
        lifetimes, along = path.lifetimes, best_alphas(path)
        shown = lifetimes > 0  # a logarithmic axis cannot show 0
        self._plot_cells(shown)
        self._plot_posterior()
        has_alphas = alphas == "all" and path.alphas.size > 1
        marker = "." if shown.sum() <= 60 else ""
        options = {"linewidth": 1.8, "marker": marker, "zorder": 3, **(line_kwargs or {})}
        if has_alphas:
            self._plot_all(curve.values, shown, options)
        else:
            best = curve.values[np.arange(lifetimes.size), along]
            options = {"color": BLUE, "label": curve.name, **options}
            self.lines_ = ax.plot(lifetimes[shown], best[shown], **options)
        k = path.best_index[0]
        label = f"chosen: λ = {lifetimes[k]:.3g}, alpha = {path.alphas[along[k]]:.2g}"
        style: dict[str, Any] = {"color": RED, "markersize": 8, "zorder": 4, "label": label}
        self.chosen_ = ax.plot(lifetimes[k], curve.values[k, along[k]], "o", **style)[0]
        ax.set(xscale="log", xlabel="lifetime λ", ylabel=curve.name)
        _few_ticks(ax.xaxis, lifetimes[shown])
        # In front of the number of cells and the posterior.
        ax.set_zorder(2)
        ax.patch.set_visible(False)
        drawn = [] if has_alphas else self.lines_
        handles = [*drawn, self.chosen_, self.cells_line_, self.posterior_]
        others: list[tuple[Transform, ArrayLike, ArrayLike]] = [
            (self.cells_ax_.transData, lifetimes[shown], path.n_cells[shown])
        ]
        if self.posterior_ is not None:
            x, y = np.asarray(self.posterior_.get_paths()[0].vertices).T
            others.append((self.posterior_.get_transform(), x, y))
        legend_beside(ax, [handle for handle in handles if handle is not None], others)
        return self

    def _plot_cells(self, shown: NDArray[np.bool_]) -> None:
        lifetimes, n_cells = self.path.lifetimes[shown], self.path.n_cells[shown]
        self.cells_ax_ = self.ax_.twinx()
        style: dict[str, Any] = {"color": GREY, "label": "number of cells"}
        self.cells_line_ = self.cells_ax_.plot(lifetimes, n_cells, ":", **style)[0]
        self.cells_ax_.set_yscale("log")
        _few_ticks(self.cells_ax_.yaxis, n_cells)
        self.cells_ax_.set_ylabel("number of cells, all trees", color=GREY)
        self.cells_ax_.tick_params(axis="y", which="both", colors=GREY)

    def _plot_all(
        self, values: FloatArray, shown: NDArray[np.bool_], options: dict[str, Any]
    ) -> None:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LogNorm

        alphas, lifetimes = self.path.alphas, self.path.lifetimes[shown]
        colour = ScalarMappable(LogNorm(alphas[0], alphas[-1]), "viridis")
        self.lines_ = []
        for alpha, each in zip(alphas, values.T, strict=True):
            line: dict[str, Any] = {"color": colour.to_rgba(alpha), "label": f"alpha = {alpha:.2g}"}
            self.lines_ += self.ax_.plot(lifetimes, each[shown], **line | options)
        self.figure_.colorbar(colour, ax=[self.ax_, self.cells_ax_], label="alpha", pad=0.02)

    def _plot_posterior(self) -> None:
        self.posterior_ = None
        if self.posterior is None:
            return
        edges, density = density_steps(self.posterior)
        behind = self.ax_.twinx()
        behind.set_zorder(-1)
        behind.set(ylim=(0, 3 * density.max()), yticks=[])
        lower, upper = self.posterior.interval(0.9)
        self.posterior_ = behind.fill_between(
            edges,
            np.append(density, density[-1]),
            step="post",
            color=YELLOW,
            alpha=0.6,
            linewidth=0,
            label=f"posterior: 90 % in {lower:.3g} to {upper:.3g}",
        )


def _few_ticks(axis: Axis, values: FloatArray | NDArray[np.int64]) -> None:
    """Give a logarithmic axis tick labels that do not overlap."""
    from matplotlib.ticker import LogLocator, NullFormatter

    decades = np.log10(values.max() / values.min()) if values.size else 0.0
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
    if decades < 2:
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
