"""A fitted model shares no memory with the arrays that it was given."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mondrian_kernel import (
    MondrianFeatures,
    MondrianForestClassifier,
    MondrianForestRegressor,
    MondrianKernelClassifier,
    MondrianKernelRegressor,
)

NEW = np.random.default_rng(1).normal(size=(7, 3))
LEARNERS = {
    "regressor": MondrianKernelRegressor,
    "classifier": MondrianKernelClassifier,
    "forest regressor": MondrianForestRegressor,
    "forest classifier": MondrianForestClassifier,
}


def arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(float)
    return {"X": X, "y": y, "sample_weight": rng.uniform(1, 2, 60), "scale": np.array([1.0, 2, 3])}


def seen(model):
    if isinstance(model, MondrianKernelRegressor):
        return [*model.predict(NEW, return_std=True), model.log_marginal_likelihood_]
    return [
        model.predict(NEW),
        model.cell_weights_,
        model.intercept_ if hasattr(model, "intercept_") else 0,
    ]


@pytest.mark.parametrize("changed", ["X", "y", "sample_weight", "scale"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_changing_the_callers_arrays_changes_nothing(kind, method, changed):
    def learn():
        given = arrays()
        model = LEARNERS[kind](0.5, 0.1, 10, scale=given["scale"], random_state=0)
        options = {"sample_weight": given["sample_weight"]}
        if method == "partial_fit" and hasattr(model, "class_weight"):
            options["classes"] = [0.0, 1.0]
        getattr(model, method)(given["X"], given["y"], **options)
        return model, given

    expected = seen(learn()[0])
    model, given = learn()
    given[changed] *= 7.0
    for found, kept in zip(seen(model), expected, strict=True):
        assert_array_equal(found, kept)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_features_copy_the_rows(method):
    X = arrays()["X"]
    features = getattr(MondrianFeatures(0.5, 10, random_state=0), method)(X)
    expected = features.transform(NEW).toarray()
    X *= 7.0
    assert_array_equal(features.transform(NEW).toarray(), expected)


@pytest.mark.parametrize("changed", [0, 1], ids=["X", "y"])
def test_many_rows_without_weights_are_copied(changed):
    """Fewer rows, and rows with weights, are sorted, which copies them."""
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(1100, 3)), rng.normal(size=1100)]
    model = MondrianKernelRegressor(0.5, 0.1, 3, scale=None, random_state=0).fit(*given)
    expected = model.at(0.2).predict(NEW)
    given[changed] *= 7.0
    assert_array_equal(model.at(0.2).predict(NEW), expected)
