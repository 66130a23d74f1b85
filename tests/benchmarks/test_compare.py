import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.compare import (
    average_ranks,
    critical_difference,
    geometric_mean,
    paired_p,
    ratios,
    wide,
    wilcoxon_p,
)
from benchmarks.methods import OURS
from benchmarks.record import Key


def cells(**errors):
    """Cells of two splits; None is over its time."""
    found = {}
    for name, row in errors.items():
        for method, values in row.items():
            for split, value in enumerate(values):
                key = Key(name.replace("_", "-"), split, method)
                known = {"task": "regression", "error": value, "fit": {"cpu": 1.0}, "rows": 9}
                found[key] = key._asdict() | ({"over_seconds": 9} if value is None else known)
    return found


def test_ranks_are_averaged_over_sets_and_ties_are_shared():
    table = pd.DataFrame({"a": [0.1, 0.2, 0.1], "b": [0.2, 0.1, 0.2], "c": [0.3, 0.3, 0.2],
                          "some": [0.0, None, None]})  # fmt: skip
    ranks, n_sets = average_ranks(table)
    assert list(ranks.index) == ["a", "b", "c"]
    assert ranks.to_dict() == pytest.approx({"a": 4 / 3, "b": (2 + 1 + 2.5) / 3, "c": 8.5 / 3})
    assert n_sets == 3


def test_critical_difference_is_that_of_the_published_example():
    # Demšar (2006), four classifiers on fourteen data sets.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_the_paired_test_is_the_t_test_where_splits_share_nothing():
    rng = np.random.default_rng(0)
    ours, theirs = pd.Series(rng.normal(size=5)), pd.Series(rng.normal(size=5))
    expected = stats.ttest_rel(ours, theirs).pvalue
    assert paired_p(ours, theirs, test_share=0.0) == pytest.approx(expected)
    assert paired_p(ours, theirs) > expected  # shared rows make differences less certain
    assert paired_p(ours[:1], theirs) is None
    assert paired_p(ours, ours) is None


def test_few_sets_tell_nothing_and_many_do():
    assert wilcoxon_p(np.full(4, 0.5)) is None
    assert wilcoxon_p(np.linspace(0.5, 0.9, 8)) == pytest.approx(2 / 2**8)
    assert geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2)


def test_ratios_use_the_splits_that_both_have_and_leave_out_what_was_too_slow():
    table = wide(cells(x={OURS: (1.0, 5.0), "b": (2.0,)}, y={OURS: (1.0, 1.0), "b": (1.0, None)}),
                 "regression")  # fmt: skip
    assert np.isinf(table.loc[("y", 1), "b"])
    assert ratios(table, "b") == pytest.approx([0.5])
    assert ratios(table, "c").size == 0


def test_sets_made_from_others_are_kept_apart():
    found = cells(x={OURS: (1.0,)}, x_missing={OURS: (2.0,)})
    assert wide(found, "regression").index.unique("set").tolist() == ["x"]
    assert wide(found, "regression", harder=True).index.unique("set").tolist() == ["x-missing"]
    assert wide(found, "classification").empty
