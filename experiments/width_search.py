"""Figure 8: time to a good kernel width, by one path for all widths or by a search over widths."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.linear_model import Ridge, SGDRegressor

from experiments import drawing
from experiments.claims import Claim
from experiments.cpu_data import FloatArray, Split
from experiments.drawing import COLOUR, LABEL, MARKER
from experiments.schemes import Tick, make_features
from mondrian_kernel import (
    LifetimePath,
    MondrianFeatures,
    every_cut_path,
    lifetime_path,
    sgd_path,
)

Trace = dict[str, list[float]]
"""CPU ``seconds`` passed, ``lifetime`` evaluated and ``error`` found, in the order of time."""

NEEDS_CPU_DATA = True
RIVALS = ("fourier", "binning")
_DELTA2 = 1e-4
_EVALUATIONS = 45  # widths per search
_RESIDUAL = 1e-2  # relative residual at which iterative solvers stop, ours and the rivals'
_TOLERANCE = 1.1  # a good error is at most this times the best that every scheme reaches
_POINTS = 200  # of the path after every cut that are kept
_CLEARLY = 0.95  # share of the error of the mean below which a width is better than the mean
_REMARKS = {
    "SGD": "As in the paper, rivals take ten passes per width with scikit-learn's SGDRegressor, "
    "here with the largest stable steps. We take one pass at each of ten widths. The paper's "
    "scripts use δ² = 1e-4 per row, which is N δ² relative to a sum of squares; so do we. Most of "
    "the search is over before any width is better than the mean of y. A better start than λ = 1 "
    "would shorten it.",
    "exact": "The same penalty N δ², solved by Cholesky or to a relative residual of 0.01, "
    "whichever is faster for a scheme. M Fourier features give a small dense problem; making them "
    "takes over half of the search. Ours takes as long as a few of its widths.",
    "exact as written": "With the penalty δ² relative to the sum of squares, M trees overfit, and "
    "Fourier features reach the lowest error, as the paper says. Ours is the path after every cut, "
    "of which a third of this time passes before the first cut, while trees grow. It is close to "
    "ten times: another run may fall short.",
}


def compute(split: Split, quick: bool, seed: int, tick: Tick) -> dict[str, Any]:
    """Record validation error against CPU time for each learner and scheme."""
    n_nonzeros = 50 if quick else 350
    mean_error = split.percent("validation", np.zeros(split.y_validation.size))
    per_row = split.y.size * _DELTA2
    alphas = {"SGD": per_row, "exact": per_row, "exact as written": _DELTA2}
    _compile(split, seed)
    learners = {}
    for k, (learner, alpha) in enumerate(alphas.items()):
        tick(k / len(alphas), f"{learner}, path")
        traces = _paths(learner, split, alpha, n_nonzeros, seed)
        for j, scheme in enumerate(RIVALS):

            def step(n: int, j: int = j, k: int = k, who: str = f"{learner}, {scheme}") -> None:
                part = 0.1 + 0.45 * (j + n / _EVALUATIONS)
                tick((k + part) / len(alphas), f"{who}, width {n + 1}")

            evaluate = _rival(scheme, learner, split, alpha, n_nonzeros, seed)
            traces[scheme] = search(evaluate, mean_error, _EVALUATIONS, step)
        learners[learner] = {"alpha": alpha, "traces": traces}
    sizes = {"nonzeros": n_nonzeros, "delta2": _DELTA2}
    return {**sizes, "mean_error": mean_error, "learners": learners}


def _compile(split: Split, seed: int) -> None:
    """Run everything once at a small size, so that no time includes compilation."""
    few = Split("few", "", *(a[:100] for a in (split.X, split.y) * 3))
    for learner in ("SGD", "exact"):
        _paths(learner, few, 1.0, 5, seed)
        for scheme in RIVALS:
            _rival(scheme, learner, few, 1.0, 5, seed)(1.0)


# --- ours: one path ------------------------------------------------------------------------------


class _Clock:
    """Callback that records the CPU seconds of each progress report of a path."""

    def __init__(self) -> None:
        self.begin = time.process_time()
        self.done: list[int] = []
        self.seconds: list[float] = []

    def __call__(self, done: int, total: int, info: dict[str, Any]) -> None:
        self.done.append(done)
        self.seconds.append(time.process_time() - self.begin)

    def trace(self, split: Split, path: LifetimePath, mse: FloatArray) -> Trace:
        """Return errors in percent, each with the time of the first report that includes it."""
        if not path.complete:  # the path swallows an interrupt
            raise KeyboardInterrupt
        # The path after every cut counts cuts, and has one point before the first cut.
        extra = mse.size - self.done[-1]
        report = np.searchsorted(self.done, np.arange(1, mse.size + 1) - extra)
        shown = np.unique(np.linspace(0, mse.size - 1, _POINTS).astype(int))
        return {
            "seconds": np.array(self.seconds)[report[shown]].tolist(),
            "lifetime": path.lifetimes[shown].tolist(),
            "error": (100 * np.sqrt(mse[shown] / np.mean(split.y_validation**2))).tolist(),
        }


def _paths(learner: str, split: Split, alpha: float, n_trees: int, seed: int) -> dict[str, Trace]:
    """Paths of a learner; if there are two, the first is compared with the rivals."""

    def trace(path_of: Callable[..., LifetimePath], cells: int | None, **options: Any) -> Trace:
        clock, end = _Clock(), None if cells is None else _lifetime_of(cells, split, seed)
        options |= {"n_estimators": n_trees, "validation": split.held_out, "random_state": seed}
        with warnings.catch_warnings():  # the best lifetime may be the last
            warnings.simplefilter("ignore", UserWarning)
            path = path_of(split.X, split.centred, max_lifetime=end, callback=clock, **options)
        name = "validation_loss" if path_of is sgd_path else "validation_error"
        return clock.trace(split, path, path.curves[name][:, 0])

    if learner == "SGD":
        return {"mondrian": trace(sgd_path, 60, alpha=alpha, n_lifetimes=10)}
    ridge: dict[str, Any] = {"alphas": [alpha], "criterion": "holdout", "fit_intercept": False}
    # until cells are about as many as rows
    every_cut = {"every_cut": trace(every_cut_path, 15, **ridge)}
    if learner == "exact as written":  # so ill-conditioned that Krylov methods take too long
        return every_cut
    path = trace(lifetime_path, None, n_lifetimes=20, tol=_RESIDUAL, **ridge)
    return {"mondrian": path, **every_cut}


def _lifetime_of(cells: int, split: Split, seed: int) -> float:
    """Lifetime at which ten trees have this many cells each: nothing is known beforehand."""
    with warnings.catch_warnings():  # the trees stop at this many cells
        warnings.simplefilter("ignore", UserWarning)
        trees = MondrianFeatures(np.inf, 10, max_cells=10 * cells, random_state=seed)
        return float(trees.fit(split.X).lifetime_)


# --- rivals: new features and a new fit for every width ------------------------------------------


def _rival(
    scheme: str, learner: str, split: Split, alpha: float, n_nonzeros: int, seed: int
) -> Callable[[float], float]:
    # Ten passes as in the paper's scripts. Features have norm 1, so 1.0 is the largest stable step;
    # with smaller steps ten passes end far from the minimum.
    passes: dict[str, Any] = {"max_iter": 10, "tol": None, "eta0": 1.0, "random_state": seed}
    descent = SGDRegressor(alpha=alpha / split.y.size, fit_intercept=False, **passes)

    def evaluate(lifetime: float) -> float:
        features = make_features(scheme, lifetime, n_nonzeros, seed)
        Phi = features.fit_transform(split.X)
        model = descent if learner == "SGD" else _ridge(alpha, Phi)
        model.fit(Phi, split.centred)
        prediction = model.predict(features.transform(split.X_validation))
        return split.percent("validation", prediction)

    return evaluate


def _ridge(alpha: float, Phi: FloatArray | sparse.csr_matrix) -> Ridge:
    """Ridge regression with the faster of two solvers."""
    n_rows, n_columns = Phi.shape
    many_iterations = alpha < 0.01 and n_columns < 20 * n_rows
    if n_columns <= n_rows / 4 or many_iterations:
        return Ridge(alpha, fit_intercept=False, solver="cholesky")
    return Ridge(alpha, fit_intercept=False, solver="sparse_cg", tol=_RESIDUAL)


def search(
    evaluate: Callable[[float], float],
    mean_error: float,
    n_evaluations: int,
    step: Callable[[int], None] = lambda n: None,
) -> Trace:
    """Search the lifetime with the lowest error as the paper does, starting at 1.

    Until a lifetime is clearly better than ``mean_error``, the error of predicting the mean, the
    smallest lifetime is halved and the largest doubled in turn. Then the search continues at the
    end that has the best lifetime. Once the best has neighbours on both sides, the search bisects
    towards the better one on a logarithmic scale. ``step(n)`` is called before each evaluation.
    """
    begin = time.process_time()
    trace: Trace = {"seconds": [], "lifetime": [], "error": []}
    error: dict[float, float] = {}  # by the logarithm of the lifetime to base 2
    for n in range(n_evaluations):
        step(n)
        power = _next(error, n, mean_error) if error else 0.0
        error[power] = evaluate(2.0**power)
        trace["seconds"].append(time.process_time() - begin)
        trace["lifetime"].append(2.0**power)
        trace["error"].append(error[power])
    return trace


def _next(error: dict[float, float], n: int, mean_error: float) -> float:
    tried = sorted(error)
    best = min(tried, key=error.__getitem__)
    lost = error[best] > _CLEARLY * mean_error
    if (lost and n % 2) or (not lost and best == tried[0]):
        return tried[0] - 1
    if lost or best == tried[-1]:
        return tried[-1] + 1
    k = tried.index(best)
    return (best + min(tried[k - 1], tried[k + 1], key=error.__getitem__)) / 2


# --- claims and drawing --------------------------------------------------------------------------


def time_to(trace: Trace, level: float) -> float:
    """CPU seconds until an error is at most ``level``; the trace must reach it."""
    pairs = zip(trace["seconds"], trace["error"], strict=True)
    return next(seconds for seconds, error in pairs if error <= level)


def good_level(traces: dict[str, Trace]) -> float:
    """Error that counts as good: a tenth above the lowest error that every scheme reaches."""
    return _TOLERANCE * max(min(trace["error"]) for trace in _compared(traces).values())


def _compared(traces: dict[str, Trace]) -> dict[str, Trace]:
    ours = next(traces[key] for key in ("mondrian", "every_cut") if key in traces)
    return {"mondrian": ours, **{scheme: traces[scheme] for scheme in RIVALS}}


def claims(result: dict[str, Any]) -> list[Claim]:
    """For each learner, compare the time of the searches with the time of the path."""
    learners = result["learners"].items()
    return [_claim(learner, found["traces"], result["nonzeros"]) for learner, found in learners]


def _claim(learner: str, traces: dict[str, Trace], n_nonzeros: int) -> Claim:
    level = good_level(traces)
    traces = _compared(traces)
    seconds = {scheme: time_to(trace, level) for scheme, trace in traces.items()}
    ratio = {scheme: seconds[scheme] / seconds["mondrian"] for scheme in RIVALS}
    best = {scheme: min(trace["error"]) for scheme, trace in traces.items()}
    tried = traces["fourier"]["seconds"].index(seconds["fourier"]) + 1
    text = (
        "A good width is found at least an order of magnitude faster than by search with Fourier "
        f"features or random binning ({learner}, M = {n_nonzeros})"
    )
    measured = {
        "CPU seconds, Mondrian": seconds["mondrian"],
        "times as long, Fourier": ratio["fourier"],
        "binning": ratio["binning"],
        "widths tried, Fourier": tried,
        "CPU seconds a width": seconds["fourier"] / tried,
        "validation error in % that is good": level,
        "best error, Mondrian": best["mondrian"],
        "Fourier's best": best["fourier"],
        "binning's best": best["binning"],
    }
    return Claim(text, measured, held=min(ratio.values()) >= 10, remark=_REMARKS[learner])


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
        line: dict[str, Any] = {"color": COLOUR[key], "drawstyle": "steps-post"}
        ax.plot(seconds, np.minimum.accumulate(error), label=LABEL[key], **line)
        if key in MARKER:
            dots: dict[str, Any] = {"markersize": 3, "markeredgewidth": 0, "alpha": 0.5}
            ax.plot(seconds, error, MARKER[key], color=COLOUR[key], **dots)
    ax.axhline(good_level(traces), color=COLOUR["grey"], linestyle="dotted", label="good")
    ax.set(xscale="log", xlabel="CPU time [s]")
