"""The slider's lifetimes hold the model's own, and its models are one set of trees run on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from app.report.report_cases import MAKERS, TREES, rows
from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.app.report import lifetimes
from mondrian_kernel.app.report.figures import Model
from mondrian_kernel.app.report.lifetimes import Slider, slider_lifetimes, small_models


def slider(case):
    return Slider.of(Model(case.model, *case.train, *case.test, "y", []))


def test_lifetimes_are_those_of_the_path_and_beyond():
    model = MAKERS["named"]().model
    path = model.path_.lifetimes
    lifetimes = slider_lifetimes(model.lifetime_, model.path_)
    assert set(path) <= set(lifetimes)
    assert lifetimes[0] < path[0] < model.lifetime_ < path[-1] < lifetimes[-1]
    assert model.lifetime_ in lifetimes


def test_a_long_path_is_thinned():
    # Nothing but the lifetimes is looked at.
    path = type("Path", (), {"lifetimes": np.geomspace(0.01, 100, 500)})
    lifetimes = slider_lifetimes(3.0, path)
    assert lifetimes.size == 16
    assert (lifetimes[0], lifetimes[-1]) == (0.01, 100)
    assert 3.0 in lifetimes


def test_without_a_path_they_lie_around_the_model():
    lifetimes = slider_lifetimes(3.0, None)
    assert_allclose(lifetimes[[0, -1]], [3.0 / 8, 12.0])
    assert np.sum(lifetimes == 3.0) == 1


@pytest.mark.parametrize("name", ["fixed", "fixed_lifetime", "many_classes"])
def test_short_paths_are_not_shown(name):
    assert slider(MAKERS[name]()).path is None


def test_the_path_is_that_of_the_choice():
    case = MAKERS["named"]()
    case.X = case.X.to_numpy()
    case.__post_init__()
    assert slider(case).path is case.model.path_


def test_where_lifetimes_were_learnt_the_path_is_that_of_one_lifetime_on_the_same_columns():
    case = MAKERS["learnt"]()
    shown = slider(case)
    assert case.model.path_ is None
    alone = MondrianKernelRegressor("path", scale=None, relevance="equal", **TREES)
    alone.fit(case.model.model_.columns(case.train[0]), case.train[1])
    # Rows in another order are added up in another order.
    assert_allclose(shown.path.loo_error, alone.path_.loo_error, rtol=1e-6)
    assert {model.alpha_ for model in shown.models} == {alone.alpha_}
    assert all(model.model_.columns is case.model.model_.columns for model in shown.models)


def test_trees_of_one_model_lead_on_to_the_next():
    case = MAKERS["fixed_lifetime"]()
    fit, words = small_models(case.model, *case.train)
    models = [fit(lifetime, case.model.alpha_) for lifetime in (1.0, 5.0, 20.0)]
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
    fit, words = small_models(model, X, y)
    small = fit(1.0, 0.1)
    assert words == "5 trees on 30 rows"
    assert_array_equal(small.classes_, [0, 1, 2])
    assert_array_equal(small.scale_, model.scale_)
    assert small.features_.trees_.n_trees == 5
    assert small.features_.trees_.count[small.features_.trees_.root].tolist() == [30] * 5
