"""Scores of outliers against their formula, counted by hand."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mondrian_kernel import MondrianFeatures

RNG = np.random.default_rng(0)
X = np.vstack([RNG.normal(size=(60, 2)), np.zeros((3, 2))])
NEW = np.vstack([RNG.normal(size=(20, 2)), [[8.0, -9.0]]])


def by_hand(features, fitted, rows):
    """Mean over trees of ln(p n / N), from cells and features alone."""
    n_trees = features.n_estimators
    own, cells = features.apply(fitted), features.apply(rows)
    count = (own[None] == cells[:, None]).sum(axis=1)
    Phi = features.transform(rows).toarray()
    stay = np.sqrt(n_trees) * np.take_along_axis(Phi, cells, axis=1)
    return np.log(stay * count / len(fitted)).mean(axis=1)


@pytest.mark.parametrize("rows", [X, NEW], ids=["fitted", "new"])
@pytest.mark.parametrize("batches", [1, 63])
def test_score_is_the_mean_log_share_of_rows_in_the_cells(rows, batches):
    features = MondrianFeatures(1.0, 10, random_state=0)
    for part in np.array_split(X, batches):
        features.partial_fit(part)
    np.testing.assert_allclose(features.score_samples(rows), by_hand(features, X, rows), rtol=1e-12)


def test_several_lifetimes_are_averaged():
    both = MondrianFeatures([0.5, 2.0], 10, weights=[3.0, 1.0], random_state=0).fit(X)
    one, two = (both.at(lifetime).score_samples(NEW) for lifetime in (0.5, 2.0))
    np.testing.assert_allclose(both.score_samples(NEW), 0.75 * one + 0.25 * two, rtol=1e-12)


def test_rows_alone_in_their_cells_and_copies():
    scores = MondrianFeatures(np.inf, 5, random_state=0).fit(X).score_samples(X)
    np.testing.assert_allclose(scores[:60], -np.log(63), rtol=1e-12)
    np.testing.assert_allclose(scores[60:], -np.log(21), rtol=1e-12)


def test_scores_fall_with_the_distance():
    features = MondrianFeatures(0.5, 10, random_state=0).fit(X)
    far = np.array([[4.0, 4.0], [8.0, 8.0], [80.0, 80.0]])
    scores = features.score_samples(far)
    assert features.score_samples(X).min() > scores[0] > scores[1] > scores[2]
    # Outside of all boxes only the stay changes: by the lifetime times the distance.
    np.testing.assert_allclose(scores[1] - scores[2], 0.5 * 144.0, rtol=1e-9)


def test_outliers_among_the_fitted_rows_are_found():
    outliers = RNG.uniform(-6.0, 6.0, size=(20, 2))
    rows, is_outlier = np.vstack([X, outliers]), np.arange(83) >= 63
    scores = MondrianFeatures(2.0, 50, random_state=0).fit(rows).score_samples(rows)
    assert roc_auc_score(is_outlier, -scores) > 0.9
