"""Figure 8: time to a good kernel width, by one path for all widths or by search over them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge, SGDRegressor

from mondrian_experiments import drawing
from mondrian_experiments.claims import Claim
from mondrian_experiments.cpu_data import Floats, Split
from mondrian_experiments.drawing import COLOUR, LABEL, MARKER
from mondrian_experiments.schemes import make_features
from mondrian_experiments.search import Trace, search, time_to
from mondrian_kernel import MondrianFeatures, every_cut_path, lifetime_path, sgd_path

NEEDS_CPU_DATA = True
RIVALS = ("fourier", "binning")
_DELTA2 = 1e-4
_EVALUATIONS = 45
_RESIDUAL = 1e-2  # relative, at which iterative solvers stop, ours and the rivals'
_TOLERANCE = 1.1
_POINTS = 200
_REMARKS = {
    "SGD": "As in the paper: for rivals ten passes a width by scikit-learn's SGDRegressor, with "
    "the largest stable steps; for us one pass at each of ten widths. The paper's scripts take "
    "δ² = 1e-4 per row, which is N δ² beside a sum of squares, and so do we. "
    "Most of a search goes by before a width beats the mean of y: a better guess than λ = 1 to "
    "begin with would shorten it.",
    "exact": "The same penalty N δ², by Cholesky or to a relative residual of 0.01, whichever is "
    "quicker for a scheme. M Fourier features make a small dense problem.",
    "exact as written": "With δ² beside the sum of squares itself M trees overfit, and Fourier "
    "features end lowest, as the paper says. Ours is the path after every cut.",
}


def compute(
    split: Split, quick: bool, seed: int, tick: Callable[[float, str], None]
) -> dict[str, Any]:
    """Trace validation error against CPU time for each learner and scheme."""
    n_nonzeros = 50 if quick else 350
    mean_error = split.percent("validation", np.zeros(split.y_validation.size))
    alphas = {
        "SGD": split.y.size * _DELTA2,
        "exact": split.y.size * _DELTA2,
        "exact as written": _DELTA2,
    }
    _compile(split, seed)
    learners = {}
    for k, (learner, alpha) in enumerate(alphas.items()):

        def report(part: float, text: str, k: int = k, learner: str = learner) -> None:
            tick((k + part) / len(alphas), f"{learner}, {text}")

        report(0.0, "path")
        traces = _paths(learner, split, alpha, n_nonzeros, seed)
        for j, scheme in enumerate(RIVALS):

            def step(n: int, j: int = j, scheme: str = scheme) -> None:
                report(0.1 + 0.45 * (j + n / _EVALUATIONS), f"{scheme}, width {n + 1}")

            evaluate = _rival(scheme, learner, split, alpha, n_nonzeros, seed)
            traces[scheme] = search(evaluate, mean_error, _EVALUATIONS, step)
        learners[learner] = {"alpha": alpha, "traces": traces}
    return {
        "nonzeros": n_nonzeros,
        "delta2": _DELTA2,
        "mean_error": mean_error,
        "learners": learners,
    }


# --- ours: one path ------------------------------------------------------------------------------


class _Clock:
    """CPU seconds at which a path told of its progress."""

    def __init__(self) -> None:
        self.begin = time.process_time()
        self.done: list[int] = []
        self.seconds: list[float] = []

    def __call__(self, done: int, total: int, info: dict[str, Any]) -> None:
        self.done.append(done)
        self.seconds.append(time.process_time() - self.begin)

    def trace(self, split: Split, path: Any, squared_error: Floats) -> Trace:
        """Errors in percent, with the time of the first report that counts each."""
        if not path.complete:
            raise KeyboardInterrupt  # the path has kept it to itself
        # The path after every cut counts cuts, and begins before the first.
        extra = squared_error.size - self.done[-1]
        report = np.searchsorted(self.done, np.arange(1, squared_error.size + 1) - extra)
        return {
            "seconds": np.array(self.seconds)[report].tolist(),
            "lifetime": path.lifetimes.tolist(),
            "error": (100 * np.sqrt(squared_error / np.mean(split.y_validation**2))).tolist(),
        }


def _paths(learner: str, split: Split, alpha: float, n_trees: int, seed: int) -> dict[str, Trace]:
    """Paths of a learner; of several the first counts."""
    if learner == "SGD":
        return {"mondrian": _descent_path(split, alpha, n_trees, seed)}
    every_cut = {"every_cut": _every_cut(split, alpha, n_trees, seed)}
    if learner == "exact as written":  # so ill-conditioned that Krylov methods take too long
        return every_cut
    return {"mondrian": _ridge_path(split, alpha, n_trees, seed), **every_cut}


def _descent_path(split: Split, alpha: float, n_trees: int, seed: int) -> Trace:
    clock = _Clock()
    with warnings.catch_warnings():  # that the best may be the last
        warnings.simplefilter("ignore", UserWarning)
        path = sgd_path(
            split.X, split.centred, n_estimators=n_trees, alpha=alpha, n_lifetimes=10,
            max_lifetime=_lifetime_of(60, split, seed), validation=split.held_out,
            random_state=seed, callback=clock,
        )  # fmt: skip
    assert path.validation_loss is not None
    return clock.trace(split, path, path.validation_loss[:, 0])


def _ridge_path(split: Split, alpha: float, n_trees: int, seed: int) -> Trace:
    clock = _Clock()
    path = lifetime_path(
        split.X, split.centred, n_estimators=n_trees, alphas=[alpha], n_lifetimes=20,
        criterion="holdout", validation=split.held_out, tol=_RESIDUAL, fit_intercept=False,
        random_state=seed, callback=clock,
    )  # fmt: skip
    assert path.validation_error is not None
    return clock.trace(split, path, path.validation_error[:, 0])


def _every_cut(split: Split, alpha: float, n_trees: int, seed: int) -> Trace:
    """Exact ridge after every cut until cells are about as many as rows; some of its points."""
    clock = _Clock()
    path = every_cut_path(
        split.X, split.centred, n_estimators=n_trees, alphas=[alpha],
        max_lifetime=_lifetime_of(15, split, seed), criterion="holdout",
        validation=split.held_out, fit_intercept=False, random_state=seed, callback=clock,
    )  # fmt: skip
    assert path.validation_error is not None
    trace = clock.trace(split, path, path.validation_error[:, 0])
    shown = np.unique(np.linspace(0, len(trace["error"]) - 1, _POINTS).astype(int))
    return {key: [values[k] for k in shown] for key, values in trace.items()}


def _lifetime_of(cells: int, split: Split, seed: int) -> float:
    """Lifetime at which a tree has so many cells, by ten trees: nothing is known beforehand."""
    with warnings.catch_warnings():  # that the trees stopped at this many cells
        warnings.simplefilter("ignore", UserWarning)
        trees = MondrianFeatures(np.inf, 10, max_cells=10 * cells, random_state=seed)
        return float(trees.fit(split.X).lifetime_)


def _compile(split: Split, seed: int) -> None:
    """Call everything once at a small size, so that no time is that of a compiler."""
    few = Split("few", "", *(a[:100] for a in (split.X, split.y) * 3))
    for learner in ("SGD", "exact"):
        _paths(learner, few, 1.0, 5, seed)
        for scheme in RIVALS:
            _rival(scheme, learner, few, 1.0, 5, seed)(1.0)


# --- rivals: features and a learner anew for every width -----------------------------------------


def _rival(
    scheme: str, learner: str, split: Split, alpha: float, n_nonzeros: int, seed: int
) -> Callable[[float], float]:
    def evaluate(lifetime: float) -> float:
        features = make_features(scheme, lifetime, n_nonzeros, seed)
        Phi = features.fit_transform(split.X)
        model = _descent(alpha, split, seed) if learner == "SGD" else _ridge(alpha, Phi)
        model.fit(Phi, split.centred)
        prediction = model.predict(features.transform(split.X_validation))
        return split.percent("validation", prediction)

    return evaluate


def _descent(alpha: float, split: Split, seed: int) -> SGDRegressor:
    # Ten passes as in the paper's scripts; for features of norm 1 the quickest steps that are
    # stable, without which it is far from the minimum after ten.
    return SGDRegressor(
        alpha=alpha / split.y.size, fit_intercept=False, max_iter=10, tol=None, eta0=1.0,
        random_state=seed,
    )  # fmt: skip


def _ridge(alpha: float, Phi: Any) -> Ridge:
    """Ridge regression by the quicker of its exact solvers."""
    n_rows, n_columns = Phi.shape
    many_iterations = alpha < 0.01 and n_columns < 20 * n_rows
    if n_columns <= n_rows / 4 or many_iterations:
        return Ridge(alpha, fit_intercept=False, solver="cholesky")
    return Ridge(alpha, fit_intercept=False, solver="sparse_cg", tol=_RESIDUAL)


# --- claims and drawing --------------------------------------------------------------------------


def good_level(traces: dict[str, Trace]) -> float:
    """Error that counts as good: a tenth above the least that every scheme reaches."""
    return _TOLERANCE * max(min(trace["error"]) for trace in _compared(traces).values())


def _compared(traces: dict[str, Trace]) -> dict[str, Trace]:
    ours = next(traces[key] for key in ("mondrian", "every_cut") if key in traces)
    return {"mondrian": ours, **{scheme: traces[scheme] for scheme in RIVALS}}


def claims(result: dict[str, Any]) -> list[Claim]:
    """Say for each learner how many times longer the searches take to a good width."""
    return [
        _claim(learner, found["traces"], result["nonzeros"])
        for learner, found in result["learners"].items()
    ]


def _claim(learner: str, traces: dict[str, Trace], n_nonzeros: int) -> Claim:
    level = good_level(traces)
    traces = _compared(traces)
    seconds = {scheme: time_to(trace, level) for scheme, trace in traces.items()}
    ratio = {scheme: seconds[scheme] / seconds["mondrian"] for scheme in RIVALS}
    best = {scheme: min(trace["error"]) for scheme, trace in traces.items()}
    tried = traces["fourier"]["seconds"].index(seconds["fourier"]) + 1
    return Claim(
        "A good width is found at least an order of magnitude faster than by search with Fourier "
        f"features or random binning ({learner}, M = {n_nonzeros})",
        {
            "CPU seconds to it, Mondrian": seconds["mondrian"],
            "times as long, Fourier": ratio["fourier"],
            "binning": ratio["binning"],
            "widths tried, Fourier": tried,
            "validation error in % that is good": level,
            "best error, Mondrian": best["mondrian"],
            "Fourier's best": best["fourier"],
            "binning's best": best["binning"],
        },
        held=min(ratio.values()) >= 10,
        remark=_REMARKS[learner],
    )


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw a panel for each learner: errors as they were found, and the best so far."""
    figure, axes = drawing.panels(len(result["learners"]), 7.6, 3.2, sharey=True)
    for ax, (learner, found) in zip(axes, result["learners"].items(), strict=True):
        _panel(ax, found["traces"])
        ax.set_title(f"{learner}, penalty {found['alpha']:.2g}")
    axes[0].set(ylabel="validation error [%]", ylim=(0, 25))
    drawing.legend_below(figure, axes, 5)
    drawing.letter(axes)
    return {"width-search": figure}


def _panel(ax: Axes, traces: dict[str, Trace]) -> None:
    for key, trace in traces.items():
        seconds, error = trace["seconds"], trace["error"]
        if key in MARKER:
            ax.plot(
                seconds, error, MARKER[key], markersize=3, alpha=0.5, color=COLOUR[key],
                markeredgewidth=0,
            )  # fmt: skip
        ax.plot(
            seconds, np.minimum.accumulate(error), color=COLOUR[key], label=LABEL[key],
            drawstyle="steps-post",
        )  # fmt: skip
    ax.axhline(good_level(traces), color=COLOUR["grey"], linestyle="dotted", label="good")
    ax.set(xscale="log", xlabel="CPU time [s]")
