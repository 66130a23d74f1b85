"""Figures 9 and 10: Mondrian kernel and Mondrian forest on the same trees."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import kurtosis
from sklearn.linear_model import Ridge

from experiments import drawing
from experiments.claims import Claim
from experiments.cpu_data import FloatArray, Split
from experiments.drawing import COLOUR
from experiments.schemes import Tick
from mondrian_kernel import MondrianFeatures, MondrianForestRegressor

NEEDS_CPU_DATA = True
_TREES, _DELTA2 = 50, 1e-4
_FIRST, _LAST, _SHOWN = 1e-8, 1e-5, 2e-6


def compute(split: Split, quick: bool, seed: int, tick: Tick) -> dict[str, Any]:
    """Fit kernel and forest to the training rows at many lifetimes of one set of trees."""
    features = MondrianFeatures(_LAST, _TREES, random_state=seed).fit(split.X)
    lifetimes = np.geomspace(_FIRST, _LAST, 13 if quick else 31)
    alpha = split.y.size * _DELTA2
    models = ("kernel", "forest", "kernel_as_written")
    errors: dict[str, dict[str, list[float]]] = {m: {"train": [], "test": []} for m in models}
    for k, lifetime in enumerate(lifetimes):
        tick(k / lifetimes.size, f"lifetime {lifetime:.1e}")
        view = features.at(lifetime)
        weights = {
            "kernel": _kernel(view, split, alpha),
            "forest": _forest(view, split),
            "kernel_as_written": _kernel(view, split, _DELTA2),
        }
        for part, X in (("train", split.X), ("test", split.X_test)):
            Phi = view.transform(X)
            for model, w in weights.items():
                errors[model][part].append(split.percent(part, Phi @ w))
    shown = features.at(_SHOWN)
    return {
        "trees": _TREES,
        "delta2": _DELTA2,
        "alpha": alpha,
        "lifetimes": lifetimes,
        "cells": [features.at(t).n_cells_ for t in lifetimes],
        "errors": errors,
        "shown_lifetime": _SHOWN,
        "weights": {"kernel": _kernel(shown, split, alpha), "forest": _forest(shown, split)},
    }


def _kernel(features: MondrianFeatures, split: Split, alpha: float) -> FloatArray:
    ridge = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky")
    return np.asarray(ridge.fit(features.transform(split.X), split.centred).coef_)


def _forest(features: MondrianFeatures, split: Split) -> FloatArray:
    forest = MondrianForestRegressor.from_features(features, _DELTA2, fit_intercept=False)
    return np.asarray(forest.fit(split.X, split.centred).cell_weights_)


def claims(result: dict[str, Any]) -> list[Claim]:
    """Compare the lowest errors, their lifetimes, and how peaked the weights are."""
    lifetimes, errors = result["lifetimes"], result["errors"]
    best = {model: int(np.argmin(e["test"])) for model, e in errors.items()}
    least = {model: errors[model]["test"][k] for model, k in best.items()}
    at = {model: lifetimes[k] for model, k in best.items()}
    is_as_good = np.array(errors["kernel"]["test"]) <= least["forest"]
    as_good = np.array(lifetimes)[is_as_good]
    kernel, forest = (np.array(result["weights"][model]) for model in ("kernel", "forest"))
    leaf_values = forest * np.sqrt(result["trees"])
    return [
        Claim(
            "The kernel reaches a lower test error at a smaller lifetime than the forest",
            {
                "lowest test error in %, kernel": least["kernel"],
                "forest": least["forest"],
                "at lifetime, kernel": at["kernel"],
                "forest at": at["forest"],
                "kernel as good as the forest's best at": min(as_good, default=np.inf),
                "kernel with penalty δ² = 1e-4": least["kernel_as_written"],
            },
            held=least["kernel"] < least["forest"] and at["kernel"] < at["forest"],
            remark="The paper's scripts pass δ² = 1e-4 to a gradient descent. Relative to the sum "
            f"of squares its penalty is N δ² = {result['alpha']:.2g}, which we use too.",
        ),
        Claim(
            "The kernel's weights are more peaked at 0 than the forest's",
            {
                "median size, kernel weights": np.median(np.abs(kernel)),
                "forest leaf values": np.median(np.abs(leaf_values)),
                "forest leaf values over √M": np.median(np.abs(forest)),
                "excess kurtosis, kernel": kurtosis(kernel),
                "forest": kurtosis(forest),
            },
            held=np.median(np.abs(kernel)) < np.median(np.abs(leaf_values))
            and kurtosis(kernel) > kurtosis(forest),
            remark="The paper's figure compares kernel weights with leaf values. Leaf values "
            "divided by √M are weights of the same features. Most of them are as small as the "
            "kernel's, but more of them are as large as the targets allow.",
        ),
    ]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw errors against the lifetime, and the weights at one lifetime."""
    return {"kernel-and-forest": _errors(result), "weights": _weights(result)}


def _errors(result: dict[str, Any]) -> Figure:
    figure, (ax,) = drawing.panels(1, 6.0, 3.4)
    lifetimes, errors = result["lifetimes"], result["errors"]
    for model, colour in (("forest", COLOUR["forest"]), ("kernel", COLOUR["mondrian"])):
        for part, style in (("test", "solid"), ("train", "dashed")):
            line: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": 1.8}
            ax.plot(lifetimes, errors[model][part], label=f"{model} ({part})", **line)
    label = f"kernel (test), penalty {result['delta2']:g}"
    as_written = errors["kernel_as_written"]["test"]
    ax.plot(lifetimes, as_written, color=COLOUR["every_cut"], linewidth=1, label=label)
    ax.axvline(result["shown_lifetime"], color=COLOUR["grey"], linestyle="dotted", linewidth=1)
    drawing.note(ax, "figure 10", (result["shown_lifetime"], 0), (3, 4), color=COLOUR["grey"])
    ax.set(xscale="log", xlabel=r"lifetime $\lambda$", ylabel="relative error [%]", ylim=(0, None))
    ax.set_title(f"{result['data']}, M = {result['trees']}, penalty {result['alpha']:.2g}")
    drawing.legend_below(figure, [ax], 3)
    return figure


def _weights(result: dict[str, Any]) -> Figure:
    figure, axes = drawing.panels(2, 7.2, 2.9)
    kernel, forest = (np.array(result["weights"][model]) for model in ("kernel", "forest"))
    look: dict[str, Any] = {"density": True, "histtype": "stepfilled", "alpha": 0.45}
    for ax, leaves in zip(axes, (forest * np.sqrt(result["trees"]), forest), strict=True):
        first, last = np.quantile(np.concatenate([kernel, leaves]), [0.001, 0.999])
        bins = np.linspace(first, last, 51).tolist()
        for values, model, colour in ((leaves, "forest", "forest"), (kernel, "kernel", "mondrian")):
            look |= {"color": COLOUR[colour], "edgecolor": COLOUR[colour]}
            ax.hist(values, bins, label=f"Mondrian {model}", **look)
    axes[0].set(xlabel="leaf value of the forest, weight of the kernel", ylabel="density")
    axes[0].set_title(f"as in the paper, λ = {result['shown_lifetime']:g}")
    axes[1].set(xlabel=r"leaf value / $\sqrt{M}$, weight of the kernel")
    axes[1].set_title("as weights of the same features")
    drawing.letter(axes)
    drawing.legend_below(figure, axes, 2)
    return figure
