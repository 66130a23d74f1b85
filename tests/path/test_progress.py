"""A path tells how it advances, to whom it is asked to, and keeps what it has when interrupted."""

import numpy as np
import pytest

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
        kinds = {"lifetime", "best"}, {"stage", "seconds", "compiled"}
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
