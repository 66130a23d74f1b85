import numpy as np
import pytest

from benchmarks.ranks import average_ranks, cliques, critical_difference, mean_errors, plot

ERRORS = {
    "one": {"a": 0.1, "b": 0.2, "c": 0.3, "some": 0.0},
    "two": {"a": 0.2, "b": 0.1, "c": 0.3},
    "three": {"a": 0.1, "b": 0.2, "c": 0.2},
}


def test_ranks_are_averaged_over_sets_and_ties_are_shared():
    ranks, n_sets = average_ranks(ERRORS)
    assert list(ranks) == ["a", "b", "c"]
    assert ranks == pytest.approx({"a": 4 / 3, "b": (2 + 1 + 2.5) / 3, "c": 8.5 / 3})
    assert n_sets == 3


def test_no_sets_no_ranks():
    assert average_ranks({"unfinished": {}}) == ({}, 0)


def test_critical_difference_is_that_of_the_published_example():
    # Demšar (2006), four classifiers on fourteen data sets.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_cliques_are_the_largest_groups_within_the_difference():
    ranks = {"a": 1.0, "b": 1.5, "c": 2.2, "d": 3.9}
    assert cliques(ranks, 1.0) == [(0, 1), (1, 2)]
    assert cliques(ranks, 1.25) == [(0, 2)]
    assert cliques(ranks, 0.1) == []


def test_a_method_that_ran_out_of_time_has_an_infinite_error_and_comes_last():
    section = {
        "sets": {
            "x": {"task": "regression", "fits": {"a": [{"error": 1.0}, {"error": 3.0}],
                                                 "b": [{"error": 1.0}, {"over_seconds": 9}]}},
            "y": {"task": "classification", "fits": {"a": [{"error": 1.0}]}},
        }
    }  # fmt: skip
    errors = mean_errors(section, "regression")
    assert errors == {"x": {"a": 2.0, "b": np.inf}}
    assert average_ranks(errors) == ({"a": 1.0, "b": 2.0}, 1)


def test_the_plot_names_every_method(tmp_path):
    plot({"first": 1.2, "second": 1.9, "third": 2.9}, 1.0, 7, tmp_path / "ranks.svg")
    drawing = (tmp_path / "ranks.svg").read_text()
    assert all(f"{name} " in drawing for name in ("first", "second", "third"))
