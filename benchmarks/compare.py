"""Compare methods over splits and data sets: ratios, paired tests, mean ranks."""

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.methods import OURS, SEARCHED
from benchmarks.tables import frame_of


def wide(cells, task, value="error", harder=False):
    """Values by set and split (lines) and method (columns); infinite for one over its time.

    Sets that were made from others (``harder``) are not mixed with the others.
    """
    found = frame_of(cells)
    if value not in found:
        return pd.DataFrame()
    if "over_seconds" in found:
        found.loc[found["over_seconds"].notna(), value] = np.inf
    chosen = (found["task"] == task) & (found["set"].str.contains("-") == harder)
    table = found[chosen & found[value].notna()]
    return table.pivot(index=["set", "split"], columns="method", values=value)


def means(table):
    """Means over the splits, by set and method."""
    return table.groupby(level="set").mean()


def rivals(table, searched=False):
    """The columns that are not ours, with defaults or searched."""
    others = [name for name in table if not name.startswith(OURS)]
    return table[[name for name in others if searched or not name.endswith(SEARCHED)]]


def paired_p(ours, theirs, test_share=0.25):
    """P-value that two methods are alike, from their values on the same splits.

    Nadeau and Bengio's t-test: splits share training rows, so that the variance of the mean
    difference is (1/n + n_test/n_train) times that of the differences.
    """
    d = (ours - theirs).dropna()
    if d.size < 2 or not np.isfinite(d).all() or d.std() == 0:
        return None
    t = d.mean() / np.sqrt((1 / d.size + test_share) * d.var(ddof=1))
    return float(2 * stats.t.sf(abs(t), d.size - 1))


def ratios(table, rival):
    """Our mean over that of a rival, by set, over the splits where both were measured."""
    if OURS not in table or rival not in table:
        return np.empty(0)
    pairs = means(table[[OURS, rival]].dropna())
    found = (pairs[OURS] / pairs[rival]).to_numpy()
    return found[np.isfinite(found) & (found > 0)]


def geometric_mean(found):
    return float(np.exp(np.mean(np.log(found)))) if len(found) else None


def wilcoxon_p(found):
    """P-value that ratios scatter around 1 symmetrically, in logarithms."""
    logs = np.log(found)
    return float(stats.wilcoxon(logs).pvalue) if np.count_nonzero(logs) >= 5 else None


def average_ranks(table):
    """Mean ranks of the methods with a mean on every set, best first, and the number of sets."""
    complete = table.dropna(axis=1)
    return complete.rank(axis=1).mean().sort_values(), len(complete)


def critical_difference(n_methods, n_sets, level=0.05):
    """Nemenyi's: mean ranks of two methods that are alike differ by more with this chance."""
    q = stats.studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))
