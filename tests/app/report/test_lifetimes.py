"""The slider's lifetimes hold the model's own, and its models are one set of trees run on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from app.report.report_cases import MAKERS, TREES, heights, rows
from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.app.report import lifetimes
from mondrian_kernel.app.report.lifetimes import chosen_path, fit_small_models, slider_lifetimes


def test_lifetimes_are_those_of_the_path_and_beyond():
    model = MAKERS["named"]().model
    lifetimes, path = slider_lifetimes(model), model.path_.lifetimes
    assert chosen_path(model) is model.path_
    assert set(path) <= set(lifetimes)
    assert lifetimes[0] < path[0] < model.lifetime_ < path[-1] < lifetimes[-1]
    assert model.lifetime_ in lifetimes


def test_a_long_path_is_thinned():
    model = MondrianKernelRegressor(**TREES).fit(rows(2), heights(rows(2)))
    # Nothing but the lifetimes is looked at.
    model.path_ = type("Path", (), {"lifetimes": np.geomspace(0.01, 100, 500)})
    lifetimes = slider_lifetimes(model)
    assert lifetimes.size == 16
    assert (lifetimes[0], lifetimes[-1]) == (0.01, 100)
    assert model.lifetime_ in lifetimes


@pytest.mark.parametrize("name", ["fixed", "fixed_lifetime", "many_classes"])
def test_without_a_path_they_lie_around_the_model(name):
    model = MAKERS[name]().model
    assert chosen_path(model) is None
    lifetimes = slider_lifetimes(model)
    assert_allclose(lifetimes[[0, -1]], [model.lifetime_ / 8, 4 * model.lifetime_])
    assert np.sum(lifetimes == model.lifetime_) == 1


def test_trees_of_one_model_lead_on_to_the_next():
    case = MAKERS["fixed_lifetime"]()
    models, words = fit_small_models(case.model, *case.train, np.array([1.0, 5.0, 20.0]))
    assert words == "20 trees on 100 rows"
    last = models[-1].features_
    for model in models:
        assert model.alpha_ == case.model.alpha_
        assert_array_equal(model.scale_, case.model.scale_)
        assert_array_equal(
            model.features_.trees_.cuts.time, last.at(model.lifetime_).trees_.cuts.time[
                : model.features_.trees_.cuts.time.size
            ],
        )  # fmt: skip
    # With so few trees and rows the one at its lifetime is the model itself.
    assert_allclose(models[1].predict(case.test[0]), case.model.predict(case.test[0]))


def test_fewer_rows_and_trees_but_every_class(monkeypatch):
    monkeypatch.setattr(lifetimes, "SLIDER_ROWS", 30)
    monkeypatch.setattr(lifetimes, "SLIDER_TREES", 5)
    X = rows(2, 1000)
    y = np.zeros(1000, int)
    y[:2] = 1, 2
    model = MondrianKernelClassifier(1.0, 0.1, **TREES).fit(X, y)
    (small,), words = fit_small_models(model, X, y, np.array([1.0]))
    assert words == "5 trees on 30 rows"
    assert_array_equal(small.classes_, [0, 1, 2])
    assert_array_equal(small.scale_, model.scale_)
    assert small.features_.trees_.n_trees == 5
    assert small.features_.trees_.count[small.features_.trees_.root].tolist() == [30] * 5
