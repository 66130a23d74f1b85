"""Probabilities from scores, and sets of classes."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

from mondrian_kernel import MondrianKernelClassifier
from mondrian_kernel._linear.losses import probabilities
from mondrian_kernel._model.link import fit_link, log_odds


@pytest.mark.parametrize("n_classes", [2, 4])
def test_link_recovers_the_probabilities(n_classes):
    """Classes drawn with known log-odds have nearly the log loss of the truth."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(4000, 1 if n_classes == 2 else n_classes))
    true = np.concatenate([[2.0], np.linspace(-1, 1, F.shape[1])])
    P = probabilities(true[0] * F + true[1:])
    labels = np.array([rng.choice(n_classes, p=p) for p in P])
    link = fit_link(F, labels, np.ones(4000))
    assert_allclose(link[0], 2.0, rtol=0.1)
    found = probabilities(log_odds(F, link))
    assert log_loss(labels, found) < log_loss(labels, P) + 1e-3


def test_weights_are_repetitions_in_the_link():
    rng = np.random.default_rng(0)
    S, labels = rng.uniform(-1, 1, size=(2000, 1)), rng.integers(2, size=2000)
    weight = rng.integers(1, 4, size=2000) * (1 + labels)
    link = fit_link(S, labels, weight.astype(float))
    again = (np.repeat(a, weight, axis=0) for a in (S, labels))
    repeated = fit_link(*again, np.ones(weight.sum()))
    assert link[1] > 0.3
    assert_allclose(link, repeated, atol=0.01)  # the prior is worth a row in both


def test_no_rows_held_out():
    assert_allclose(fit_link(np.empty((0, 1)), np.empty(0, int), np.empty(0)), [1, 0])


def wedges(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    y = np.floor((np.arctan2(*X.T) + 0.5 * rng.normal(size=n)) / 1.6).astype(int)
    return X, y


@pytest.fixture(scope="module")
def model():
    return MondrianKernelClassifier(n_estimators=60, random_state=0).fit(*wedges(2500, 0))


def test_probabilities_are_calibrated(model):
    """In bins of the predicted probability of a class, at least 300 rows each."""
    X, y = wedges(4000, 1)
    P = model.predict_proba(X)
    assert_allclose(P.sum(axis=1), 1.0)
    hit = y[:, None] == model.classes_
    for low, high in ((0.05, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0)):
        some = (low < P) & (high >= P)
        error = np.sqrt(0.25 / some.sum()) + 0.04  # binomial, and that of the fit
        assert abs(hit[some].mean() - P[some].mean()) < 2 * error


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_sets_cover(model, coverage):
    X, y = wedges(4000, 2)
    member = model.predict_set(X, coverage)
    inside = member[np.arange(4000), np.searchsorted(model.classes_, y)].mean()
    # The likeliest class is always in, so low coverages are exceeded.
    assert inside > coverage - 4 * np.sqrt(coverage * (1 - coverage) / 375)
    if coverage == 0.95:
        assert inside < 0.98
    assert member.any(axis=1).all()


def test_weights_are_repetitions_in_sets(model):
    """A class is in the set if enough rows held out, as often as they count, were less sure."""
    rng, n = np.random.default_rng(0), 200
    own, weight = rng.uniform(size=n), rng.integers(1, 5, size=n)
    other = copy(model)
    other._model = replace(model.model_, calibration=np.stack([own, weight], axis=1))
    other.check()
    P, repeated = other.predict_proba(wedges(50, 4)[0]), np.sort(np.repeat(own, weight))
    for coverage in (0.5, 0.9):
        threshold = repeated[int(np.floor((1 - coverage) * (repeated.size + 1))) - 1]
        expected = (threshold <= P) | (P.max(axis=1, keepdims=True) == P)
        assert_array_equal(other.predict_set(wedges(50, 4)[0], coverage), expected)


def test_fits_keep_the_weights_of_rows_held_out():
    X, y = wedges(100, 5)
    weight = np.random.default_rng(0).uniform(1, 3, size=100)
    fitted = MondrianKernelClassifier(n_estimators=5, random_state=0).fit(X, y, weight)
    assert_allclose(np.sort(fitted.model_.calibration[:, 1]), np.sort(weight))


@pytest.mark.parametrize("bad", [[-0.1, 1.0], [1.1, 1.0], [0.5, 0.0], [0.5, np.inf], [np.nan, 1]])
def test_impossible_calibrations_are_refused(model, bad):
    wrong = np.vstack([model.model_.calibration, bad])
    for calibration in (wrong, wrong[:-1, :1], wrong[:-1, 0]):
        with pytest.raises(ValueError, match="calibration"):
            replace(model.model_, calibration=calibration).check()


def test_bad_coverage_of_sets(model):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        model.predict_set(np.zeros((1, 2)), 1.0)
    other = MondrianKernelClassifier(1.0, 0.1, 10).fit(*wedges(50, 3))
    with pytest.raises(ValueError, match="held out"):
        other.predict_set(np.zeros((1, 2)))
