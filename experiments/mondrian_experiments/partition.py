"""Figures 1 and 2: a Mondrian sample with its tree, and its restriction to a smaller box."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy import stats

from mondrian_experiments import drawing
from mondrian_experiments.claims import Claim
from mondrian_experiments.drawing import COLOUR
from mondrian_kernel import MondrianPartition

NEEDS_CPU_DATA = False
_LIFETIME, _LATER = 1.0, 4.0
_LOWER, _UPPER = [0.25, 0.2], [0.75, 0.65]


def compute(quick: bool, seed: int, tick: Callable[[float, str], None]) -> dict[str, Any]:
    """Sample the two figures, and many samples more for the laws behind them."""
    n_samples = 500 if quick else 5000
    whole: list[tuple[int, float]] = []
    inner: list[tuple[int, float]] = []
    for k in range(n_samples):
        if k % 100 == 0:
            tick(k / n_samples, f"sample {k} of {n_samples}")
        sample = _sample([seed, k], _LIFETIME)
        for found, partition in ((whole, sample), (inner, sample.restrict(_LOWER, _UPPER))):
            found.append((partition.n_cells, partition.time[0]))
    shown = _first(seed, _LIFETIME, lambda sample: _legible(sample, 0.12, 0.06))
    wide = _first(seed, _LATER, lambda sample: _legible(sample.restrict(_LOWER, _UPPER), 0.09, 0.0))
    return {
        "lifetime": _LIFETIME,
        "samples": n_samples,
        "laws": {
            "whole": _law(whole, np.ones(2)),
            "inner": _law(inner, np.subtract(_UPPER, _LOWER)),
        },
        "sample": _nodes(shown),
        "wide": _nodes(wide),
        "inner": [_LOWER, _UPPER],
        "restricted": _nodes(wide.restrict(_LOWER, _UPPER)),
    }


def _sample(seed: Any, lifetime: float) -> MondrianPartition:
    return MondrianPartition.sample(
        [0, 0], [1, 1], lifetime, random_state=np.random.default_rng(seed)
    )


def _first(
    seed: int, lifetime: float, wanted: Callable[[MondrianPartition], bool]
) -> MondrianPartition:
    """Return the first sample, by seed, that is wanted: for a picture, not for the laws."""
    samples = (_sample(k, lifetime) for k in count(seed))
    return next(sample for sample in samples if wanted(sample))


def _legible(sample: MondrianPartition, side: float, gap: float) -> bool:
    """Whether there is enough to see, in both dims, and room for labels."""
    sides = sample.upper - sample.lower
    gaps = np.diff(sample.cuts.time, prepend=0.0, append=sample.lifetime)
    return (
        sample.n_cells >= 5
        and set(sample.cuts.dim) == {0, 1}
        and bool(sides.min() >= side and gaps.min() >= gap)
    )


def _nodes(partition: MondrianPartition) -> dict[str, Any]:
    """Flat arrays of a partition; None where a cell has no cut."""
    cut = partition.dim >= 0
    return {
        "lifetime": partition.lifetime,
        "left": partition.left,
        "right": partition.right,
        "dim": partition.dim,
        "birth": partition.birth,
        "time": [t if c else None for t, c in zip(partition.time.tolist(), cut, strict=True)],
        "loc": [t if c else None for t, c in zip(partition.loc.tolist(), cut, strict=True)],
        "lower": partition.lower,
        "upper": partition.upper,
    }


def _law(drawn: list[tuple[int, float]], sides: np.ndarray) -> dict[str, float]:
    """Compare cells and first cuts of samples on a box with the Mondrian process on it."""
    cells, first = np.array(drawn).T
    rate, seen = sides.sum(), first[np.isfinite(first)]
    # First cuts after the lifetime are not seen: how many are, and when, are two tests.
    among = stats.binomtest(seen.size, first.size, -np.expm1(-rate * _LIFETIME)).pvalue
    when = stats.kstest(seen, stats.truncexpon(rate * _LIFETIME, scale=1 / rate).cdf).pvalue
    return {
        "mean_cells": cells.mean(),
        "standard_error": cells.std(ddof=1) / np.sqrt(cells.size),
        "expected_cells": np.prod(1 + _LIFETIME * sides),
        "first_cut_p_value": min(1.0, 2 * min(among, when)),
    }


def claims(result: dict[str, Any]) -> list[Claim]:
    """Compare the laws of cells and first cuts with what the process promises."""
    texts = {
        "whole": "The first cut of a box comes after an exponential time whose rate is the box's "
        "linear dimension",
        "inner": "Restricted to a smaller box it is the Mondrian process on that box",
    }
    return [_claim(text, result["laws"][box]) for box, text in texts.items()]


def _claim(text: str, law: dict[str, float]) -> Claim:
    z = (law["mean_cells"] - law["expected_cells"]) / law["standard_error"]
    return Claim(
        text,
        {
            "mean number of cells": law["mean_cells"],
            "expected": law["expected_cells"],
            "p-value of the times": law["first_cut_p_value"],
        },
        held=abs(z) < 4 and law["first_cut_p_value"] > 1e-3,
    )


# --- drawing -------------------------------------------------------------------------------------


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw figure 1, the sample and its tree, and figure 2, the restriction."""
    return {"partition": _figure_1(result), "restriction": _figure_2(result)}


def _figure_1(result: dict[str, Any]) -> Figure:
    figure, (left, right) = drawing.panels(2, 7.2, 3.0, width_ratios=[1, 1.45])
    nodes = result["sample"]
    _box(left)
    _cuts(left, nodes, times=True)
    left.set_title(f"a sample on $[0,1]^2$, λ = {result['lifetime']:g}")
    _tree(right, nodes)
    right.set_title("its tree: nodes with the rates of their two clocks")
    drawing.letter([left, right])
    return figure


def _figure_2(result: dict[str, Any]) -> Figure:
    figure, axes = drawing.panels(3, 7.4, 2.9, layout="compressed")
    lower, upper = result["inner"]
    wide, inner = result["wide"], result["restricted"]
    _box(axes[0])
    _cuts(axes[0], wide, times=False, color=COLOUR["grey"], linestyle=(0, (4, 2)), linewidth=1)
    _inner_box(axes[0], lower, upper)
    _cuts(axes[0], inner, times=False)
    axes[0].set_title(f"process on $X$, λ = {wide['lifetime']:g}")

    _box(axes[1])
    _inner_box(axes[1], lower, upper)
    _cuts(axes[1], inner, times=True)
    margin = 0.02 * (upper[0] - lower[0])
    axes[1].set_xlim(lower[0] - margin, upper[0] + margin)
    axes[1].set_ylim(lower[1] - margin, upper[1] + margin)
    axes[1].set_title("restricted to $A$")

    _box(axes[2])
    _inner_box(axes[2], lower, upper)
    for d in (0, 1):
        for start, end, splits in (
            (0, lower[d], False),
            (lower[d], upper[d], True),
            (upper[d], 1, False),
        ):
            colour = COLOUR["mondrian"] if splits else COLOUR["binning"]
            at = [-0.05, -0.05]
            ends = (([start, end], at), (at, [start, end]))[d]
            axes[2].plot(*ends, color=colour, linewidth=4, solid_capstyle="butt", clip_on=False)
    for d, (x, y) in enumerate([(0.5, -0.13), (-0.13, 0.43)]):
        axes[2].text(
            x, y, f"splits $A$: rate {upper[d] - lower[d]:g}", color=COLOUR["mondrian"],
            ha="center", va="center", rotation=90 * d, fontsize=7,
        )  # fmt: skip
        axes[2].text(
            *((0.98, -0.2), (-0.2, 0.98))[d], f"misses: rate {1 - upper[d] + lower[d]:g}",
            color=COLOUR["binning"], ha=("right", "center")[d], va=("center", "top")[d],
            rotation=90 * d, fontsize=7,
        )  # fmt: skip
    axes[2].set_title("clocks of the first cut")
    drawing.letter(axes)
    return figure


def _box(ax: Axes) -> None:
    ax.set(aspect="equal", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=COLOUR["ink"], linewidth=1.2))


def _inner_box(ax: Axes, lower: list[float], upper: list[float]) -> None:
    width, height = np.subtract(upper, lower)
    ax.add_patch(
        Rectangle(
            (lower[0], lower[1]),
            width,
            height,
            facecolor="#e8f1f8",
            edgecolor=COLOUR["mondrian"],
            linewidth=1.4,
        )
    )
    ax.text(lower[0] + 0.02, upper[1] - 0.02, "$A$", ha="left", va="top", color=COLOUR["mondrian"])


def _cuts(ax: Axes, nodes: dict[str, Any], *, times: bool, **line: Any) -> None:
    line = {"color": COLOUR["mondrian"], "linewidth": 1.6, **line}
    for k, dim in enumerate(nodes["dim"]):
        if dim < 0:
            continue
        across, at = 1 - dim, nodes["loc"][k]
        ends = [nodes["lower"][k][across], nodes["upper"][k][across]]
        ax.plot(*(([at, at], ends) if dim == 0 else (ends, [at, at])), **line)
        if times:
            middle = (at, np.mean(ends)) if dim == 0 else (np.mean(ends), at)
            ax.text(
                *middle, f"{nodes['time'][k]:.2f}", ha="center", va="center", fontsize=7.5,
                color=COLOUR["mondrian"],
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
            )  # fmt: skip


def _tree(ax: Axes, nodes: dict[str, Any]) -> None:
    left, right, birth = nodes["left"], nodes["right"], nodes["birth"]
    x = _places(left, right)
    for k, dim in enumerate(nodes["dim"]):
        end = nodes["lifetime"] if dim < 0 else nodes["time"][k]
        ax.plot([x[k], x[k]], [birth[k], end], color=COLOUR["ink"], linewidth=1, zorder=1)
        if dim >= 0:
            children = [x[left[k]], x[right[k]]]
            ax.plot(children, [end, end], color=COLOUR["ink"], linewidth=1, zorder=1)
        ax.plot(x[k], birth[k], "o", color=COLOUR["ink"], markersize=5, zorder=3, clip_on=False)
        rates = np.subtract(nodes["upper"][k], nodes["lower"][k])
        for d, rate in enumerate(rates):
            won = d == dim
            ax.annotate(
                f"{rate:.2f}", (x[k], birth[k]), xytext=(-2 if d == 0 else 2, -5),
                textcoords="offset points", ha="right" if d == 0 else "left", va="top",
                fontsize=7.5, color=COLOUR["mondrian"] if won else COLOUR["ink"],
                fontweight="bold" if won else "normal",
            )  # fmt: skip
    ax.set(ylabel="time", xticks=[], ylim=(nodes["lifetime"], -0.03))
    ax.set_xlim(min(x) - 0.6, max(x) + 0.6)
    ax.grid(False)
    ax.spines["bottom"].set_visible(False)


def _places(left: list[int], right: list[int]) -> list[float]:
    """Horizontal places of nodes: leaves side by side, parents above their children."""
    x = [0.0] * len(left)
    n_leaves = 0

    def place(node: int) -> None:
        nonlocal n_leaves
        if left[node] < 0:
            x[node] = float(n_leaves)
            n_leaves += 1
            return
        place(left[node])
        place(right[node])
        x[node] = (x[left[node]] + x[right[node]]) / 2

    place(0)
    return x
