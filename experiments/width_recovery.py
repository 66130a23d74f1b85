"""Figure 7: a known kernel width is recovered on synthetic data, with its posterior."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from experiments import drawing
from experiments.claims import Claim
from experiments.drawing import COLOUR
from experiments.schemes import Tick
from mondrian_kernel import LifetimePath, lifetime_path
from mondrian_kernel.datasets import make_laplace_gp

NEEDS_CPU_DATA = False
_TRUE, _LAST, _NOISE = 10.0, 100.0, 0.01
_MORE = 20  # times as many trees for the second posterior


def compute(quick: bool, seed: int, tick: Tick) -> dict[str, Any]:
    """Follow the lifetime path on a draw from a Gaussian process, with few trees and with many."""
    n, n_trees, n_lifetimes = (300, 50, 25) if quick else (1000, 50, 80)
    tick(0.0, "drawing the data")
    X, y = make_laplace_gp(3 * n, 2, lifetime=_TRUE, noise=_NOISE, random_state=seed)
    X_train, X_validation, X_test = np.split(X, 3)
    y_train, y_validation, y_test = np.split(y, 3)

    options: dict[str, Any] = {"max_lifetime": _LAST, "n_lifetimes": n_lifetimes}
    options |= {"alphas": [_NOISE**2], "solver": "dense", "fit_intercept": False}
    options |= {"criterion": "holdout", "validation": (X_validation, y_validation)}

    def follow(trees: int, begin: float, end: float) -> LifetimePath:
        def advance(done: int, total: int, info: dict[str, Any]) -> None:
            part = begin + (end - begin) * min(done / total, 1.0)
            tick(part, f"{trees} trees, lifetime {info['lifetime']:.3g}")

        trees_options: dict[str, Any] = {"n_estimators": trees, "random_state": seed}
        path: LifetimePath = lifetime_path(
            X_train, y_train, callback=advance, **trees_options, **options
        )
        if not path.complete:  # the path swallows an interrupt
            raise KeyboardInterrupt
        return path

    path = follow(n_trees, 0.1, 0.4)
    many = follow(_MORE * n_trees, 0.4, 0.8)
    tick(0.8, "test error")
    test = [np.linalg.norm(path.predict(X_test, lifetime=t) - y_test) for t in path.lifetimes]
    assert path.validation_error is not None
    scale = 100 / np.sqrt([np.mean(y_train**2), np.mean(y_validation**2)])
    return {
        "true_lifetime": _TRUE,
        "rows": n,
        "alpha": _NOISE**2,
        "lifetimes": path.lifetimes,
        "cells": path.n_cells,
        "train_error": scale[0] * np.sqrt(path.train_error[:, 0]),
        "validation_error": scale[1] * np.sqrt(path.validation_error[:, 0]),
        "test_error": 100 * np.array(test) / np.linalg.norm(y_test),
        "prior": "log-uniform from a thousandth of the last lifetime on",
        "posteriors": [_posterior(path), _posterior(many)],
    }


def _posterior(path: LifetimePath) -> dict[str, Any]:
    # The paper's marginal likelihood has prior variance 1 and noise δ², which is true here.
    posterior = path.posterior(stats.loguniform(_LAST / 1000, _LAST), evidence="evidence-paper")
    return {
        "trees": path.trees.trees_.n_trees,
        "edges": posterior.edges,
        "weights": posterior.weights,
        "mean": posterior.mean,
        "interval": posterior.interval(0.9),
    }


def claims(result: dict[str, Any]) -> list[Claim]:
    """Compare the lifetime found with the true one, and its test error with the lowest."""
    true, test = result["true_lifetime"], result["test_error"]
    best = int(np.argmin(result["validation_error"]))
    found = result["lifetimes"][best]
    few, many = result["posteriors"]
    return [
        Claim(
            "The true lifetime, 10, is recovered within an order of magnitude (paper: 19)",
            {
                "λ̂ by validation": found,
                f"posterior mean, {few['trees']} trees": few["mean"],
                f"posterior mean, {many['trees']} trees": many["mean"],
            },
            held=true / 10 < found < true * 10,
            remark="With few trees the kernel is rough, and a larger lifetime compensates for it. "
            "With more trees the posterior approaches the truth. The error peaks where there are "
            "about as many cells as rows, because the ridge problem is solved exactly. Gradient "
            "descent stops before it gets there.",
        ),
        Claim(
            "λ̂ performs excellently on an independent test set",
            {"test error in % at λ̂": test[best], "lowest test error in %": min(test)},
            held=test[best] < 1.1 * min(test),
        ),
    ]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the errors along the path, above the posterior."""
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    lifetimes, validation = result["lifetimes"], result["validation_error"]
    for part, key in (("train", "grey"), ("validation", "mondrian"), ("test", "binning")):
        width = 2.0 if part == "validation" else 1.2
        line: dict[str, Any] = {"color": COLOUR[key], "linewidth": width}
        top.step(lifetimes, result[f"{part}_error"], where="post", label=part, **line)
    best = int(np.argmin(validation))
    chosen = lifetimes[best]
    top.vlines(chosen, 0, validation[best], COLOUR["mondrian"], "dashed", linewidth=1.2)
    found = rf"$\hat\lambda$ = {chosen:.3g}"
    drawing.note(top, found, (chosen, 0), (4, 5), fontsize=9, color=COLOUR["mondrian"])
    top.set(xscale="log", xlim=(0.1, lifetimes[-1]), ylim=(0, 110), ylabel="relative error [%]")
    true = result["true_lifetime"]
    top.set_title(f"synthetic data, 3 × {result['rows']} rows, true $\\lambda_0$ = {true:g}")
    top.legend(loc="lower left")
    for posterior, colour in zip(result["posteriors"], ("every_cut", "mondrian"), strict=True):
        edges = np.array(posterior["edges"])
        inside = edges[:-1] > 0
        # The prior of ln λ is flat, so this is also the likelihood up to a factor.
        density = np.array(posterior["weights"])[inside][:-1] / np.diff(np.log(edges[1:-1]))
        look = {"fill": True, "color": COLOUR[colour], "alpha": 0.7}
        bottom.stairs(density, edges[1:-1], label=f"{posterior['trees']} trees", **look)
    for ax in (top, bottom):
        ax.axvline(true, color=COLOUR["ink"], linestyle="dotted")
    beside: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "right"}
    drawing.note(bottom, r"$\lambda_0$", (true, 1), (-4, -10), **beside)
    bottom.set(xlabel=r"lifetime $\lambda$", ylabel="posterior\ndensity of ln λ")
    bottom.legend(loc="upper left")
    return {"width-recovery": figure}
