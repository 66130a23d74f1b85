"""The search over widths goes the way the paper describes."""

import numpy as np

from experiments.width_search import search, time_to


def powers(trace):
    return np.log2(trace["lifetime"]).tolist()


def test_lost_on_a_plateau_it_goes_both_ways():
    trace = search(lambda lifetime: 20.0, mean_error=20.0, n_evaluations=6)
    assert powers(trace) == [0, -1, 1, -2, 2, -3]
    assert trace["error"] == [20.0] * 6


def test_it_follows_the_better_end_then_bisects():
    def error(lifetime):
        return abs(np.log2(lifetime) + 3.3)

    trace = search(error, mean_error=100.0, n_evaluations=9)
    assert powers(trace) == [0, -1, -2, -3, -4, -3.5, -3.25, -3.375, -3.3125]


def test_it_goes_up_as_well():
    trace = search(lambda t: abs(np.log2(t) - 2.4), mean_error=100.0, n_evaluations=7)
    assert powers(trace) == [0, -1, 1, 2, 3, 2.5, 2.25]


def test_a_plateau_with_a_valley():
    def error(lifetime):
        return min(20.0, 2 + abs(np.log2(lifetime) + 5))

    trace = search(error, mean_error=15.0, n_evaluations=16)
    assert min(trace["error"]) == 2.0


def test_steps_are_told_and_time_passes():
    told = []
    trace = search(lambda t: t, mean_error=2.0, n_evaluations=4, step=told.append)
    assert told == [0, 1, 2, 3]
    assert np.all(np.diff(trace["seconds"]) >= 0)


def test_time_to_a_level():
    trace = {"seconds": [1.0, 2.0, 3.0], "lifetime": [1, 2, 3], "error": [9.0, 4.0, 3.0]}
    assert time_to(trace, 9.0) == 1.0
    assert time_to(trace, 4.5) == 2.0
