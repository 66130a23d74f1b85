"""Figures 1 and 2: a Mondrian sample with its tree, and its restriction to a smaller box."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy import stats

from experiments import drawing
from experiments.claims import Claim
from experiments.cpu_data import FloatArray
from experiments.drawing import COLOUR
from experiments.schemes import Tick
from mondrian_kernel import MondrianPartition

NEEDS_CPU_DATA = False
_LIFETIME, _LATER = 1.0, 4.0
_LOWER, _UPPER = [0.25, 0.2], [0.75, 0.65]


def compute(quick: bool, seed: int, tick: Tick) -> dict[str, Any]:
    """Sample the process for two figures, and many times to test its laws."""
    n_samples, sides = 500 if quick else 5000, np.subtract(_UPPER, _LOWER)
    whole: list[tuple[int, float]] = []
    inner: list[tuple[int, float]] = []
    for k in range(n_samples):
        if k % 100 == 0:
            tick(k / n_samples, f"sample {k} of {n_samples}")
        sample = _sample([seed, k], _LIFETIME)
        for found, partition in ((whole, sample), (inner, sample.restrict(_LOWER, _UPPER))):
            found.append((partition.n_cells, partition.time[0]))
    # The figures show the first samples that suit a picture; the laws are tested on all samples.
    samples = (_sample(k, _LIFETIME) for k in count(seed))
    shown = next(p for p in samples if _legible(p, 0.12, 0.06))
    samples = (_sample(k, _LATER) for k in count(seed))
    wide = next(p for p in samples if _legible(p.restrict(_LOWER, _UPPER), 0.09, 0.0))
    return {
        "lifetime": _LIFETIME,
        "samples": n_samples,
        "laws": {"whole": _law(whole, np.ones(2)), "inner": _law(inner, sides)},
        "sample": _nodes(shown),
        "wide": _nodes(wide),
        "inner": [_LOWER, _UPPER],
        "restricted": _nodes(wide.restrict(_LOWER, _UPPER)),
    }


def _sample(seed: int | list[int], lifetime: float) -> MondrianPartition:
    rng = np.random.default_rng(seed)
    return MondrianPartition.sample([0, 0], [1, 1], lifetime, random_state=rng)


def _legible(sample: MondrianPartition, side: float, gap: float) -> bool:
    """Whether a sample has five cells, cuts in both columns, and room for labels."""
    sides = sample.upper - sample.lower
    gaps = np.diff(sample.cuts.time, prepend=0.0, append=sample.lifetime)
    enough = sample.n_cells >= 5 and set(sample.cuts.dim) == {0, 1}
    return bool(enough and sides.min() >= side and gaps.min() >= gap)


def _nodes(partition: MondrianPartition) -> dict[str, Any]:
    """Arrays of a partition; None for the time and place of a cut in a cell."""
    cut = partition.dim >= 0
    names = ("lifetime", "left", "right", "dim", "birth", "lower", "upper")
    nodes = {name: getattr(partition, name) for name in names}
    cuts = {name: np.where(cut, getattr(partition, name), None) for name in ("time", "loc")}
    return {**nodes, **cuts}


def _law(drawn: list[tuple[int, float]], sides: FloatArray) -> dict[str, float]:
    """Compare the cells and first cuts of samples with the Mondrian process on their box."""
    cells, first = np.array(drawn).T
    rate, seen = sides.sum(), first[np.isfinite(first)]
    # Cuts after the lifetime are not seen. One test is for their number, one for the times.
    among = stats.binomtest(seen.size, first.size, -np.expm1(-rate * _LIFETIME)).pvalue
    when = stats.kstest(seen, stats.truncexpon(rate * _LIFETIME, scale=1 / rate).cdf).pvalue
    return {
        "mean_cells": cells.mean(),
        "standard_error": cells.std(ddof=1) / np.sqrt(cells.size),
        "expected_cells": np.prod(1 + _LIFETIME * sides),
        "first_cut_p_value": min(1.0, 2 * min(among, when)),
    }


def claims(result: dict[str, Any]) -> list[Claim]:
    """Compare the number of cells and the first cut with the laws of the process."""
    texts = {
        "whole": "The first cut of a box comes after an exponential time whose rate is the box's "
        "linear dimension",
        "inner": "The restriction to a smaller box is the Mondrian process on that box",
    }
    found = []
    for box, text in texts.items():
        law = result["laws"][box]
        mean, expected = law["mean_cells"], law["expected_cells"]
        p_value = law["first_cut_p_value"]
        held = abs(mean - expected) < 4 * law["standard_error"] and p_value > 1e-3
        measured = {"mean number of cells": mean, "expected": expected}
        found.append(Claim(text, measured | {"p-value of the times": p_value}, held))
    return found


# --- drawing -------------------------------------------------------------------------------------


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw figure 1, the sample and its tree, and figure 2, the restriction."""
    return {"partition": _figure_1(result), "restriction": _figure_2(result)}


def _figure_1(result: dict[str, Any]) -> Figure:
    figure, (left, right) = drawing.panels(2, 7.2, 3.0, width_ratios=[1, 1.45])
    _box(left)
    _cuts(left, result["sample"], times=True)
    left.set_title(f"a sample on $[0,1]^2$, λ = {result['lifetime']:g}")
    _tree(right, result["sample"])
    right.set_title("its tree: nodes with the rates of their two clocks")
    drawing.letter([left, right])
    return figure


def _figure_2(result: dict[str, Any]) -> Figure:
    figure, axes = drawing.panels(3, 7.4, 2.9)
    figure.set_layout_engine("compressed")
    lower, upper = result["inner"]
    wide, inner = result["wide"], result["restricted"]
    for ax in axes:
        _box(ax)
    dashes: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1}
    _cuts(axes[0], wide, times=False, color=COLOUR["grey"], **dashes)
    for ax in axes:
        _inner_box(ax, lower, upper)
    _cuts(axes[0], inner, times=False)
    _cuts(axes[1], inner, times=True)
    _clocks(axes[2], lower, upper)
    margin = 0.02 * (upper[0] - lower[0])
    axes[1].set_xlim(lower[0] - margin, upper[0] + margin)
    axes[1].set_ylim(lower[1] - margin, upper[1] + margin)
    titles = f"process on $X$, λ = {wide['lifetime']:g}", "restricted to $A$", "clocks, first cut"
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
    drawing.letter(axes)
    return figure


def _clocks(ax: Axes, lower: list[float], upper: list[float]) -> None:
    """Mark on both sides of the box where a cut splits A and where it misses A."""
    for d in (0, 1):
        ends = [0.0, lower[d], upper[d], 1.0]
        for k, key in enumerate(("binning", "mondrian", "binning")):
            line = (ends[k : k + 2], [-0.05, -0.05])
            style: dict[str, Any] = {"color": COLOUR[key], "linewidth": 4, "clip_on": False}
            ax.plot(*(line if d == 0 else line[::-1]), solid_capstyle="butt", **style)
        side = upper[d] - lower[d]
        for text, key, at in (
            (f"splits $A$: rate {side:g}", "mondrian", -0.13),
            (f"misses $A$: rate {1 - side:g}", "binning", -0.22),
        ):
            x, y = ((0.5, at), (at, 0.5))[d]
            look: dict[str, Any] = {"color": COLOUR[key], "rotation": 90 * d, "fontsize": 7}
            ax.text(x, y, text, ha="center", va="center", **look)


def _box(ax: Axes) -> None:
    ax.set(aspect="equal", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.add_patch(Rectangle((0, 0), 1, 1, fill=False, edgecolor=COLOUR["ink"], linewidth=1.2))


def _inner_box(ax: Axes, lower: list[float], upper: list[float]) -> None:
    width, height = np.subtract(upper, lower)
    look: dict[str, Any] = {"facecolor": "#e8f1f8", "edgecolor": COLOUR["mondrian"]}
    ax.add_patch(Rectangle((lower[0], lower[1]), width, height, linewidth=1.4, **look))
    ax.text(lower[0] + 0.02, upper[1] - 0.02, "$A$", ha="left", va="top", color=COLOUR["mondrian"])


def _cuts(ax: Axes, nodes: dict[str, Any], *, times: bool, **line: Any) -> None:
    line = {"color": COLOUR["mondrian"], "linewidth": 1.6, **line}
    white = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5, "bbox": white}
    for k, dim in enumerate(nodes["dim"]):
        if dim < 0:
            continue
        ends = [nodes[bound][k][1 - dim] for bound in ("lower", "upper")]
        at = [nodes["loc"][k]] * 2
        x, y = (at, ends) if dim == 0 else (ends, at)
        ax.plot(x, y, **line)
        if times:
            time = f"{nodes['time'][k]:.2f}"
            ax.text(np.mean(x), np.mean(y), time, color=COLOUR["mondrian"], **text)


def _tree(ax: Axes, nodes: dict[str, Any]) -> None:
    x: dict[int, float] = {}
    _place(nodes, 0, x, count())
    line: dict[str, Any] = {"color": COLOUR["ink"], "linewidth": 1, "zorder": 1}
    for k, dim in enumerate(nodes["dim"]):
        birth, end = nodes["birth"][k], nodes["lifetime"] if dim < 0 else nodes["time"][k]
        ax.plot([x[k], x[k]], [birth, end], **line)
        if dim >= 0:
            ax.plot([x[nodes["left"][k]], x[nodes["right"][k]]], [end, end], **line)
        ax.plot(x[k], birth, "o", color=COLOUR["ink"], markersize=5, zorder=3, clip_on=False)
        for d, rate in enumerate(np.subtract(nodes["upper"][k], nodes["lower"][k])):
            look: dict[str, Any] = {"ha": ("right", "left")[d], "va": "top", "fontsize": 7.5}
            if d == dim:
                look |= {"color": COLOUR["mondrian"], "fontweight": "bold"}
            drawing.note(ax, f"{rate:.2f}", (x[k], birth), ((-2, 2)[d], -5), **look)
    ax.set(ylabel="time", xticks=[], ylim=(nodes["lifetime"], -0.03))
    ax.set_xlim(min(x.values()) - 0.6, max(x.values()) + 0.6)
    ax.grid(False)
    ax.spines["bottom"].set_visible(False)


def _place(nodes: dict[str, Any], node: int, x: dict[int, float], leaves: Iterator[int]) -> None:
    """Set the horizontal position of a node and those below: a parent between its children."""
    children = nodes["left"][node], nodes["right"][node]
    if children[0] < 0:
        x[node] = float(next(leaves))
        return
    for child in children:
        _place(nodes, child, x, leaves)
    x[node] = (x[children[0]] + x[children[1]]) / 2
