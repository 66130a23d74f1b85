"""A path tells how it advances, to whom it is asked to, and keeps what it has when interrupted."""

from itertools import pairwise

import numpy as np
import pytest

from mondrian_kernel._path import driver
from mondrian_kernel._path.loss_path import loss_path
from mondrian_kernel.classifier import MondrianKernelClassifier
from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor
from mondrian_kernel.regressor import MondrianKernelRegressor

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 2))
Y = (X[:, 0] > 0.5).astype(int)
MODELS = [
    MondrianKernelRegressor, MondrianKernelClassifier, MondrianForestRegressor,
    MondrianForestClassifier,
]  # fmt: skip


@pytest.mark.parametrize("cls", MODELS)
def test_a_callable_is_called_and_nothing_printed(cls, capsys):
    heard = []
    model = cls(n_estimators=5, random_state=0, verbose=lambda *step: heard.append(step))
    model.fit(X, Y)
    assert capsys.readouterr().out == ""
    assert heard
    for done, total, info in heard:
        assert ("share" not in info) <= done <= total
        kinds = {"lifetime", "best", "measure"}, {"stage", "seconds", "compiled"}
        assert set(info) in (*kinds, {"stage", "share", "seconds_left"})
    silent = cls(n_estimators=5, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(silent.cell_weights_, model.cell_weights_)


def test_an_interrupted_loss_path_keeps_what_it_has():
    def interrupt(done, total, info):
        if done == 3:
            raise KeyboardInterrupt

    whole = loss_path(X, Y, 2, "log_loss", n_estimators=5)
    part = loss_path(X, Y, 2, "log_loss", n_estimators=5, callback=interrupt)
    assert whole.complete
    assert not part.complete
    np.testing.assert_array_equal(part.lifetimes, whole.lifetimes[:3])
    np.testing.assert_array_equal(part.score, whole.score[:3])


def test_interrupted_before_anything_is_known_it_raises(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("mondrian_kernel._path.loss_path.LossLearner._try_alphas", interrupt)
    with pytest.raises(KeyboardInterrupt):
        loss_path(X, Y, 2, "log_loss", n_estimators=5)


def test_a_stage_tells_the_time_left_from_its_second_second_on(monkeypatch, capsys):
    now, heard = [0.0], []
    monkeypatch.setattr(driver, "perf_counter", lambda: now[0])
    stages = driver.Stages(lambda *told: heard.append(told), 7)
    tell = stages.teller("solving")
    for second in range(101):
        now[0] = float(second)
        tell(second / 100)
    assert heard[0] == (0, 7, {"stage": "solving", "share": 0.01, "seconds_left": 99.0})
    shares = [info["share"] for _, _, info in heard]
    assert all(later >= 1.25 * share for share, later in pairwise(shares))
    driver.report(*heard[0])
    assert capsys.readouterr().out == "fit 1/7: solving, 1 %, 99 s left\n"


def test_a_callback_that_interrupts_leaves_no_model():
    def interrupt(done, total, info):
        raise KeyboardInterrupt

    model = MondrianKernelRegressor(n_estimators=5, verbose=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not model.__sklearn_is_fitted__()
