"""Probabilities from scores, and sets of classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
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


def test_bad_coverage_of_sets(model):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        model.predict_set(np.zeros((1, 2)), 1.0)
    other = MondrianKernelClassifier(1.0, 0.1, 10).fit(*wedges(50, 3))
    with pytest.raises(ValueError, match="held out"):
        other.predict_set(np.zeros((1, 2)))
