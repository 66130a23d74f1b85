"""A picture of a lifetime path: the criterion and the number of cells at every width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._path.html_repr import density_steps
from mondrian_kernel._path.posterior import LifetimePosterior
from mondrian_kernel._path.result import best_alphas, curves
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.plotting.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_LINE, _CHOSEN, _CELLS, _POSTERIOR = "#1f4e9c", "#d21f1b", "#777777", "#f2c230"


class LifetimePathDisplay(Display):
    """Error or evidence, and number of cells, against the lifetime λ, with the chosen point.

    Make one with :meth:`from_estimator` or :meth:`from_path`; the parameters are kept as
    attributes.

    Parameters
    ----------
    lifetimes : ndarray of shape (L,)
        Lifetimes λ.
    n_cells : ndarray of shape (L,)
        Number of cells C at each.
    values : ndarray of shape (L, A)
        What is drawn, for each lifetime and alpha; NaN where it was not looked at.
    value_name : str
        What the values are.
    best_lifetime : int
        Index of the chosen lifetime.
    best_alphas : ndarray of shape (L,)
        Index of the best alpha at each lifetime.
    alphas : ndarray of shape (A,) or None, default=None
        Penalties, None for a path without.
    posterior : LifetimePosterior or None, default=None
        Posterior over λ to draw beneath.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    lines_ : list of matplotlib Artist
        The curves: one, or one for each alpha.
    chosen_ : matplotlib Artist
        The chosen point.
    cells_ax_, cells_line_ : matplotlib Axes and Artist
        The axis on the right and the number of cells.
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

    def __init__(
        self,
        *,
        lifetimes: FloatArray,
        n_cells: NDArray[np.int64],
        values: FloatArray,
        value_name: str,
        best_lifetime: int,
        best_alphas: NDArray[np.intp],
        alphas: FloatArray | None = None,
        posterior: LifetimePosterior | None = None,
    ) -> None:
        self.lifetimes = lifetimes
        self.n_cells = n_cells
        self.values = values
        self.value_name = value_name
        self.best_lifetime = best_lifetime
        self.best_alphas = best_alphas
        self.alphas = alphas
        self.posterior = posterior

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        criterion: str | None = None,
        prior: Any = None,
        alphas: str = "best",
        ax: Axes | None = None,
        line_kwargs: dict[str, Any] | None = None,
    ) -> LifetimePathDisplay:
        """Draw the path on which a fitted model chose its width.

        Parameters
        ----------
        estimator : fitted estimator
            Anything with a ``path_``: Mondrian kernel or forest, regressor or classifier.
        criterion, prior, alphas, ax, line_kwargs
            As in :meth:`from_path`.

        Returns
        -------
        display : LifetimePathDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        path = getattr(estimator, "path_", None)
        if path is None:
            raise ValueError(
                f"This {type(estimator).__name__} has no path: its lifetime and alpha were both "
                "given. Fit it with lifetime='auto'."
            )
        return cls.from_path(
            path, criterion=criterion, prior=prior, alphas=alphas, ax=ax, line_kwargs=line_kwargs
        )

    @classmethod
    def from_path(
        cls,
        path: Any,
        *,
        criterion: str | None = None,
        prior: Any = None,
        alphas: str = "best",
        ax: Axes | None = None,
        line_kwargs: dict[str, Any] | None = None,
    ) -> LifetimePathDisplay:
        """Draw a path.

        Parameters
        ----------
        path : LifetimePath
            The path.
        criterion : {"loo", "holdout", "evidence", "evidence-paper", "train"} or None, default=None
            What to draw, of what the path holds. None: what decided.
        prior : frozen distribution or None, default=None
            Prior on λ, such as ``scipy.stats.loguniform(0.1, 100)``: draws the posterior beneath.
            For a path with its evidence only.
        alphas : {"best", "all"}, default="best"
            At each lifetime the alpha which is best there, or one line for each alpha.
        ax : matplotlib Axes or None, default=None
            Where to draw; None: a new figure.
        line_kwargs : dict or None, default=None
            Options of the curves, handed to ``ax.plot``.

        Returns
        -------
        display : LifetimePathDisplay
            The display, drawn.
        """
        held = curves(path)
        wanted = path.criterion if criterion is None else criterion
        if wanted not in held:
            raise ValueError(f"criterion={wanted!r} is not on this path: it has {list(held)}.")
        if prior is not None and "evidence" not in held:
            raise ValueError(
                f"This path has no evidence, hence no posterior: it has {list(held)}. Run "
                "lifetime_path with criterion='evidence'."
            )
        display = cls(
            lifetimes=path.lifetimes,
            n_cells=path.n_cells,
            values=held[wanted].values,
            value_name=held[wanted].name,
            best_lifetime=path.best_index[0],
            best_alphas=best_alphas(path),
            alphas=path.alphas,
            posterior=None if prior is None else path.posterior(prior),
        )
        return display.plot(ax, alphas=alphas, line_kwargs=line_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        alphas: str = "best",
        line_kwargs: dict[str, Any] | None = None,
    ) -> LifetimePathDisplay:
        """Draw.

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
        shown = self.lifetimes > 0  # a logarithmic axis has no place for 0
        self._plot_cells(shown)
        self._plot_posterior()
        along = np.arange(self.lifetimes.size), self.best_alphas
        k = self.best_lifetime
        options: dict[str, Any] = {
            "linewidth": 1.8,
            "marker": "." if shown.sum() <= 60 else "",
            "zorder": 3,
        }
        options |= line_kwargs or {}
        if alphas == "all" and self.alphas is not None and self.alphas.size > 1:
            self._plot_all(shown, options)
        else:
            options = {"color": _LINE, "label": self.value_name, **options}
            self.lines_ = ax.plot(self.lifetimes[shown], self.values[along][shown], **options)
        chosen = f"chosen: λ = {self.lifetimes[k]:.3g}"
        if self.alphas is not None:
            chosen += f", alpha = {self.alphas[self.best_alphas[k]]:.2g}"
        self.chosen_ = ax.plot(
            self.lifetimes[k], self.values[along][k], "o", color=_CHOSEN, markersize=8, zorder=4,
            label=chosen,
        )[0]  # fmt: skip
        ax.set(xscale="log", xlabel="lifetime λ", ylabel=self.value_name)
        _few_ticks(ax.xaxis, self.lifetimes[shown])
        # Over the number of cells and the posterior, not under them.
        ax.set_zorder(2)
        ax.patch.set_visible(False)
        drawn = [*(self.lines_ if alphas == "best" else []), self.chosen_, self.cells_line_]
        handles = [h for h in (*drawn, self.posterior_) if h is not None]
        ax.legend(handles=handles, fontsize="small", framealpha=0.9)
        return self

    def _plot_cells(self, shown: NDArray[np.bool_]) -> None:
        self.cells_ax_ = self.ax_.twinx()
        self.cells_line_ = self.cells_ax_.plot(
            self.lifetimes[shown], self.n_cells[shown], ":", color=_CELLS, label="number of cells"
        )[0]
        self.cells_ax_.set_yscale("log")
        _few_ticks(self.cells_ax_.yaxis, self.n_cells[shown])
        self.cells_ax_.set_ylabel("number of cells, all trees", color=_CELLS)
        self.cells_ax_.tick_params(axis="y", which="both", colors=_CELLS)

    def _plot_all(self, shown: NDArray[np.bool_], options: dict[str, Any]) -> None:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LogNorm

        assert self.alphas is not None
        colour = ScalarMappable(LogNorm(self.alphas[0], self.alphas[-1]), "viridis")
        self.lines_ = []
        for alpha, values in zip(self.alphas, self.values.T, strict=True):
            line: dict[str, Any] = {"color": colour.to_rgba(alpha), "label": f"alpha = {alpha:.2g}"}
            self.lines_ += self.ax_.plot(self.lifetimes[shown], values[shown], **line | options)
        self.figure_.colorbar(colour, ax=[self.ax_, self.cells_ax_], label="alpha", pad=0.02)

    def _plot_posterior(self) -> None:
        self.posterior_ = None
        if self.posterior is None:
            return
        edges, density = density_steps(self.posterior)
        beneath = self.ax_.twinx()
        beneath.set_zorder(-1)
        beneath.set(ylim=(0, 3 * density.max()), yticks=[])
        lower, upper = self.posterior.interval(0.9)
        self.posterior_ = beneath.fill_between(
            edges, np.append(density, density[-1]), step="post",
            color=_POSTERIOR, alpha=0.6, linewidth=0,
            label=f"posterior, 90 % in {lower:.3g} to {upper:.3g}",
        )  # fmt: skip


def _few_ticks(axis: Axis, values: NDArray[Any]) -> None:
    """Give a logarithmic axis numbers that do not run into each other."""
    from matplotlib.ticker import LogLocator, NullFormatter

    decades = np.log10(values.max() / values.min()) if values.size else 0.0
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
    if decades < 2:
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
