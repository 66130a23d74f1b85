"""Rows that come after a fit: the same seed, the same model."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import (
    MondrianFeatures,
    MondrianForestClassifier,
    MondrianForestRegressor,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
    lifetime_path,
)

rng = np.random.default_rng(0)
X = rng.uniform(size=(120, 2))
y = np.sin(9 * X[:, 0]) * np.sin(9 * X[:, 1])
MODELS = (
    MondrianKernelRegressor, MondrianKernelClassifier, MondrianForestRegressor,
    MondrianForestClassifier,
)  # fmt: skip


@pytest.mark.parametrize("lifetime", ["auto", 5.0])
@pytest.mark.parametrize("model_class", MODELS)
def test_a_fit_and_further_rows_repeat(model_class, lifetime):
    targets = y > 0 if "Classifier" in model_class.__name__ else y

    def predictions(seed):
        model = model_class(lifetime=lifetime, n_estimators=20, random_state=seed)
        n_before = model.fit(X[:80], targets[:80]).features_.n_cells_
        model.partial_fit(X[80:], targets[80:])
        assert model.features_.n_cells_ > n_before  # or there was nothing to draw
        return getattr(model, "predict_proba", model.predict)(X)

    assert_array_equal(predictions(3), predictions(3))
    assert not np.array_equal(predictions(3), predictions(4))


@pytest.mark.parametrize(
    "fitted",
    [
        lambda: MondrianFeatures(5.0, 20, random_state=np.random.RandomState(0)).fit(X[:80]),
        lambda: lifetime_path(X[:80], y[:80], n_estimators=20, random_state=0).trees,
    ],
    ids=["features", "path"],
)
def test_features_and_further_rows_repeat(fitted):
    a, b = (fitted().partial_fit(X[80:]).transform(X) for _ in range(2))
    assert_array_equal(a.toarray(), b.toarray())
