"""The pictures: error and time beside the best rival, and errors against rows."""

from pathlib import Path

import numpy as np

from benchmarks.compare import means, rivals, wide
from benchmarks.growth import METHODS, SETS
from benchmarks.methods import OURS
from benchmarks.record import Results
from benchmarks.tables import frame_of

COLOURS = {"regression": "#1f5fa8", "classification": "#c8641e"}
LINES = ("#1f5fa8", "#8fbf7f", "#3d7a34", "#c8641e")  # ours, LightGBM twice, CatBoost


def draw(folder, quick=False):
    """Draw the pictures of the parts that have been run into the folder of the results."""
    ending = "-quick" if quick else ""
    for part, picture in (("accuracy", headline), ("growth", growth_curves)):
        if (path := Path(folder) / f"{part}{ending}.json").exists():
            figure = picture(Results(path).cells)
            figure.savefig(Path(folder) / f"{picture.__name__}{ending}.png", dpi=110)


def beside_best(cells, task):
    """By set: error and fit CPU time of ours over those of the best rival with defaults."""
    errors = wide(cells, task)
    if OURS not in errors:
        return {}
    errors, times = means(errors), means(wide(cells, task, "fit.cpu"))
    found = {}
    for name, row in rivals(errors).replace(np.inf, np.nan).iterrows():
        if row.notna().any() and np.isfinite(errors.loc[name, OURS]) and row.min() > 0:
            best = row.idxmin()
            found[name] = (
                errors.loc[name, OURS] / row[best],
                times.loc[name, OURS] / times.loc[name, best],
            )
    return found


def _panels(width, height, n=1):
    """Figure of n light panels with logarithmic axes, three in a row."""
    from matplotlib.figure import Figure

    n_rows, n_columns = -(-n // 3), min(n, 3)
    figure = Figure((width * n_columns, height * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for panel in panels:
        panel.set(xscale="log", yscale="log")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="0.93", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=8)
    return figure, panels


def _label(axis, steps):
    """Plain numbers at these steps of every decade."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _name_dots(panel, places):
    """Write a name beside each dot, where it overlaps least with the names before it."""
    written = []
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        texts = [
            panel.annotate(
                name, place, (x, y), textcoords="offset points", fontsize=7, color="0.35", ha=ha
            )
            for x, y, ha in ((4, 3, "left"), (4, -9, "left"), (-4, 3, "right"), (-4, -9, "right"))
        ]
        boxes = [text.get_window_extent() for text in texts]
        best = min(range(len(texts)), key=lambda k: sum(boxes[k].overlaps(box) for box in written))
        for k, text in enumerate(texts):
            if k != best:
                text.remove()
        written.append(boxes[best])


def headline(cells):
    """A dot a data set: error on one axis and time on the other, over the best rival's."""
    figure, (panel,) = _panels(7.5, 5)
    places = {}
    for task, colour in COLOURS.items():
        found = beside_best(cells, task)
        places |= found
        if found:
            panel.scatter(*zip(*found.values(), strict=True), s=26, color=colour, label=task)
    panel.set_xlabel("error, ours / best rival with defaults  (left is better)", fontsize=9)
    panel.set_ylabel("CPU time of the fit, ours / that rival  (below is better)", fontsize=9)
    panel.margins(x=0.12)
    _label(panel.xaxis, range(1, 10))
    _label(panel.yaxis, (1, 2, 3, 5, 7))
    _name_dots(panel, places)
    panel.axvline(1, color="0.6", linewidth=1)
    panel.axhline(1, color="0.6", linewidth=1)
    panel.legend(frameon=False, fontsize=8)
    return figure


def growth_curves(cells):
    """Error against rows, one panel a set, ours beside gradient boosting."""
    found = frame_of(cells).dropna(subset="error").sort_values("split")
    names = [name for name in SETS if name in set(found["set"])]
    figure, panels = _panels(3, 2.5, len(names))
    for name, panel in zip(names, panels, strict=False):
        for method, colour in zip(METHODS, LINES, strict=True):
            line = found[(found["set"] == name) & (found["method"] == method)]
            panel.plot(
                line["split"], line["error"], marker="o", markersize=3, color=colour,
                linewidth=2 if method == OURS else 1.1, label=method,
            )  # fmt: skip
        panel.set_title(name, fontsize=9)
        _label(panel.yaxis, (1, 2, 3, 5, 7))
    panels[0].legend(frameon=False, fontsize=7)
    figure.supxlabel("rows", fontsize=9)
    figure.supylabel("error", fontsize=9)
    return figure
