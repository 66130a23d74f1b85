"""Average ranks of methods over data sets, and the difference that luck would not explain."""

import numpy as np
from scipy.stats import rankdata, studentized_range


def mean_errors(section, task, what="error"):
    """Mean over splits by data set and method; infinite for one that ran out of time."""
    found = {}
    for name, entry in sorted(section["sets"].items()):
        if entry["task"] == task:
            fits = entry.get("fits", {})
            found[name] = {
                method: float(np.mean([fit.get(what, np.inf) for fit in runs]))
                for method, runs in fits.items()
                if all(what in fit or "over_seconds" in fit for fit in runs)
            }
    return found


def average_ranks(errors):
    """Average ranks of the methods that were run on every set, best first, and the sets' number."""
    sets = [row for row in errors.values() if row]
    if not sets:
        return {}, 0
    methods = [m for m in sets[0] if all(m in row for row in sets)]
    table = np.array([[row[m] for m in methods] for row in sets])
    means = rankdata(table, axis=1).mean(axis=0)
    order = np.argsort(means)
    return {methods[k]: float(means[k]) for k in order}, len(sets)


def critical_difference(n_methods, n_sets, level=0.05):
    """Nemenyi's: average ranks of two methods that are alike differ by more with this chance."""
    q = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def cliques(ranks, difference):
    """Largest groups of neighbouring methods that lie within the difference."""
    values = list(ranks.values())
    groups = []
    for begin in range(len(values)):
        end = max(k for k in range(begin, len(values)) if values[k] - values[begin] <= difference)
        if end > begin and (not groups or end > groups[-1][1]):
            groups.append((begin, end))
    return groups


def plot(ranks, difference, n_sets, path):
    """Critical-difference plot: a bar joins methods that the sets do not tell apart."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    groups, values = cliques(ranks, difference), list(ranks.values())
    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.25 * (len(ranks) + len(groups))))
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    for k, (name, rank) in enumerate(ranks.items()):
        height = -0.6 - 0.5 * (len(groups) + k)
        axes.plot([rank, rank], [0, height], color="0.6", lw=0.8, zorder=0)
        axes.text(rank, height, f" {name} {rank:.2f}", va="center", fontsize=9, bbox=paper)
    for k, (begin, end) in enumerate(groups):
        axes.plot([values[begin], values[end]], [-0.35 - 0.5 * k] * 2, color="k", lw=3)
    axes.set(xlim=(1, len(ranks)), ylim=(-0.6 - 0.5 * (len(groups) + len(ranks)), 0))
    axes.xaxis.tick_top()
    axes.set_yticks([])
    axes.set_title(
        f"average rank on {n_sets} data sets; critical difference {difference:.2f}", fontsize=9
    )
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def draw(section, folder):
    """Write ranks to the section and plots to the folder, one for each task."""
    for task in ("regression", "classification"):
        ranks, n_sets = average_ranks(mean_errors(section.found, task))
        if len(ranks) < 2:
            continue
        difference = critical_difference(len(ranks), n_sets)
        section.put(
            {"average": ranks, "critical_difference": difference, "sets": n_sets}, "ranks", task
        )
        plot(ranks, difference, n_sets, folder / f"ranks_{task}.svg")
