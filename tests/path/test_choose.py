"""Which rows a choice of the width is made on, and what decides."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import LifetimePath, lifetime_path
from mondrian_kernel import _settings as settings
from mondrian_kernel._path import choose as module
from mondrian_kernel._path.choose import Wanted, choose, choose_width, sample_rows

rng = np.random.default_rng(0)
WANTED = Wanted("auto", "auto", 10, 1, 0)


def test_all_rows_or_a_sample_in_order(monkeypatch):
    assert_array_equal(sample_rows(50, 0), np.arange(50))
    monkeypatch.setattr(settings, "CHOICE_ROWS", 20)
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
    monkeypatch.setattr(settings, "EXACT_ROWS", 10)
    choose_width(rows, Y, None, 0, WANTED, "loo", "auto")
    for learner in seen:
        held_out = learner.held_out[1]
        assert learner.weight.sum() + len(held_out) == 200
        assert np.isin(held_out, learner.Y).any()
        assert len(learner.Y) <= 40


@pytest.mark.parametrize(("criterion", "slack"), [("loo", 0.005), ("evidence", 0.0)])
def test_only_errors_have_slack(criterion, slack, monkeypatch):
    """A share of a likelihood would be many nats."""
    monkeypatch.setattr(settings, "EXACT_ROWS", 10)
    X = rng.uniform(size=(60, 2))
    _, _, path = choose_width(X, X[:, :1], None, 0, WANTED, criterion, "auto")
    assert path.slack == slack


def test_copies_are_left_out_together_where_rows_are_few(seen):
    rows = np.repeat(rng.uniform(size=(40, 2)), 5, axis=0)
    choose_width(rows, rows[:, :1], None, 0, WANTED, "loo", "auto")
    for learner in seen:
        assert learner.held_out is None
        assert len(learner.Y) == 40
        assert_array_equal(learner.weight, 5.0)


@pytest.mark.parametrize(("slack", "best"), [(0.0, 2), (0.03, 2), (0.05, 1), (0.6, 0)])
def test_smallest_lifetime_within_the_slack(slack, best):
    errors = np.array([[1.5, 1.6], [1.06, 1.04], [1.2, 1.0], [1.01, 1.3]])
    alphas = np.array([0.1, 1.0])
    path = LifetimePath(np.arange(4.0), np.ones(4, int), alphas, {"loo_error": errors}, "loo")
    k, a = replace(path, slack=slack).best_index
    assert (k, a) == (best, errors[best].argmin())


def test_what_is_given_is_not_evaluated():
    def never(lifetimes, alphas):
        raise AssertionError

    assert choose(WANTED._replace(lifetime=2.0, alpha=0.1), never) == (2.0, 0.1, None)


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

    found = choose(WANTED._replace(lifetime=lifetime, alpha=alpha), evaluate)
    assert found[:2] == (found[2].best_lifetime, found[2].best_alpha)


@pytest.mark.parametrize(("gain", "n_windows"), [(0.001, 2), (0.003, module.settings.WINDOW_MOVES)])
def test_a_further_move_must_pay(gain, n_windows, monkeypatch):
    """Errors that fall by a share with every doubling of the lifetime, without an end."""
    centres = []

    def path(growth, learner, budget, *, lifetimes=None, **options):
        if lifetimes is None:
            lifetimes = np.array([1.0])
        else:
            centres.append(lifetimes[lifetimes.size // 2])
        errors = (1 - gain) ** np.log2(lifetimes[:, None]) + 0 * learner.alphas
        n_cells = np.ones(lifetimes.size, int)
        return LifetimePath(lifetimes, n_cells, learner.alphas, {"loo_error": errors}, "loo")

    monkeypatch.setattr(module, "ridge_path", path)
    rows = rng.uniform(size=(40, 2))
    choose_width(rows, rows[:, :1], None, 0, WANTED, "loo", "auto")
    assert_allclose(centres, 2.0 ** np.arange(n_windows))
