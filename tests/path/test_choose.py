"""Which rows a choice of the width is made on, and what decides."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import lifetime_path
from mondrian_kernel._path import choose as module
from mondrian_kernel._path.choose import choose, choose_width, sample_rows

rng = np.random.default_rng(0)
OPTIONS = {"n_estimators": 10, "criterion": "loo", "solver": "auto", "n_jobs": 1, "verbose": 0}


def test_all_rows_or_a_sample_in_order(monkeypatch):
    assert_array_equal(sample_rows(50, 0), np.arange(50))
    monkeypatch.setattr(module, "CHOICE_ROWS", 20)
    some = sample_rows(50, 0)
    assert np.unique(some).size == 20
    assert np.all(np.diff(some) > 0)
    assert_array_equal(sample_rows(50, 0), some)
    assert not np.array_equal(sample_rows(50, 1), some)


@pytest.fixture
def seen(monkeypatch):
    """What paths were asked for."""
    calls, ridge_path = [], module.ridge_path

    def spy(growth, learner, *budget, **options):
        calls.append(learner)
        return ridge_path(growth, learner, *budget, **options)

    monkeypatch.setattr(module, "ridge_path", spy)
    return calls


def test_copies_of_fitted_rows_are_held_out_where_rows_are_many(seen, monkeypatch):
    rows = np.repeat(rng.uniform(size=(40, 2)), 5, axis=0)
    Y = rows[:, :1] + 0.1 * np.repeat(rng.normal(size=(40, 1)), 5, axis=0)
    monkeypatch.setattr(module, "EXACT_ROWS", 10)
    choose_width(rows, Y, None, 0, lifetime="auto", alpha="auto", **OPTIONS)
    for learner in seen:
        held_out = learner.held_out[1]
        assert learner.weight.sum() + len(held_out) == 200
        assert np.isin(held_out, learner.Y).any()
        assert len(learner.Y) <= 40


@pytest.mark.parametrize(("criterion", "slack"), [("loo", 0.005), ("evidence", 0.0)])
def test_only_errors_have_slack(criterion, slack, monkeypatch):
    """A share of a likelihood would be many nats."""
    monkeypatch.setattr(module, "EXACT_ROWS", 10)
    X = rng.uniform(size=(60, 2))
    options = OPTIONS | {"criterion": criterion}
    _, _, path = choose_width(X, X[:, :1], None, 0, lifetime="auto", alpha="auto", **options)
    assert path.slack == slack


def test_copies_are_left_out_together_where_rows_are_few(seen):
    rows = np.repeat(rng.uniform(size=(40, 2)), 5, axis=0)
    choose_width(rows, rows[:, :1], None, 0, lifetime="auto", alpha="auto", **OPTIONS)
    for learner in seen:
        assert learner.held_out is None
        assert len(learner.Y) == 40
        assert_array_equal(learner.weight, 5.0)


def test_smallest_lifetime_within_the_slack():
    X = rng.uniform(size=(60, 2))
    path = lifetime_path(
        X, np.sin(6 * X[:, 0]) + 0.2 * rng.normal(size=60), n_estimators=20, max_lifetime=20.0,
        n_lifetimes=10, random_state=0,
    )  # fmt: skip
    best = path.score.min(axis=1)
    assert path.best_index == np.unravel_index(path.score.argmin(), path.score.shape)
    for slack in (0.01, 0.1, 0.5):
        k, a = replace(path, slack=slack).best_index
        assert best[k] <= (1 + slack) * best.min()
        assert np.all(best[:k] > (1 + slack) * best.min())
        assert path.score[k, a] == best[k]


def test_what_is_given_is_not_evaluated():
    def never(lifetimes, alphas):
        raise AssertionError

    assert choose(2.0, 0.1, never) == (2.0, 0.1, None)


@pytest.mark.parametrize(("lifetime", "alpha"), [("auto", "auto"), (2.0, "auto"), ("auto", 0.3)])
def test_the_rest_is_the_best_of_the_path(lifetime, alpha):
    X = rng.uniform(size=(40, 2))

    def evaluate(lifetimes, alphas):
        assert (lifetimes is None) == (lifetime == "auto")
        assert (alphas is None) == (alpha == "auto")
        return lifetime_path(
            X, X[:, 0], n_estimators=5, lifetimes=[1.0, 2.0] if lifetimes is None else lifetimes,
            alphas=alphas, random_state=0,
        )  # fmt: skip

    found = choose(lifetime, alpha, evaluate)
    assert found[:2] == (found[2].best_lifetime, found[2].best_alpha)
