"""The classifier on blocks is the classifier in one place."""

import pickle
from functools import cache

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel import MondrianKernelClassifier
from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import encode
from mondrian_kernel._linear.minimise import minimise
from mondrian_kernel._linear.operator import CellOperator
from mondrian_kernel.dask import DaskMondrianKernelClassifier
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.classifier import Encoded, minimise_logistic
from mondrian_kernel.features import MondrianFeatures

rng = np.random.default_rng(0)
ROWS, NEW = rng.normal(size=(400, 2)), rng.normal(size=(60, 2))
LABELS = (ROWS[:, 0] * ROWS[:, 1] > 0).astype(int) + (ROWS[:, 0] > 1)
NAMES = np.array(["a", "bb", "c"])
WEIGHTS = rng.integers(0, 4, size=400).astype(float)


def in_blocks(a):
    return da.from_array(a, chunks=(130,) + (-1,) * (a.ndim - 1))


@cache
def pair(loss="log_loss", n_classes=3, class_weight=None, choice=(1.0, 0.3)):
    y = NAMES[np.minimum(LABELS, n_classes - 1)]
    options = {"loss": loss, "class_weight": class_weight, "random_state": 1}
    local = MondrianKernelClassifier(*choice, 15, **options).fit(ROWS, y, WEIGHTS)
    blocks = DaskMondrianKernelClassifier(*choice, 15, **options)
    return local, blocks.fit(in_blocks(ROWS), in_blocks(y), in_blocks(WEIGHTS))


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["log_loss", "squared"])
def test_fit_is_that_in_one_place(loss, n_classes, class_weight):
    local, blocks = pair(loss, n_classes, class_weight)
    assert_array_equal(blocks.classes_, local.classes_)
    assert_array_equal(blocks.features_.trees_.loc, local.features_.trees_.loc)
    assert blocks.cell_weights_.shape == local.cell_weights_.shape
    new = in_blocks(NEW)
    # Either objective is within 1e-4 of the optimum.
    assert_allclose(
        blocks.decision_function(new).compute(), local.decision_function(NEW), atol=0.05
    )
    assert_array_equal(blocks.predict(new).compute(), local.predict(NEW))
    assert blocks.predict(new).dtype == local.predict(NEW).dtype
    if loss == "log_loss":
        P = blocks.predict_proba(new)
        assert P.shape == (60, n_classes)
        assert_allclose(P.compute(), local.predict_proba(NEW), atol=0.01)
        assert_array_equal(P.compute(), blocks.predict_proba(NEW))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_loss_to_any_tolerance(n_classes):
    features = MondrianFeatures(1.0, 10, random_state=0).fit(ROWS)
    labels, weight = np.minimum(LABELS, n_classes - 1), 1.0 + WEIGHTS
    rows = CellOperator(features.apply(ROWS), features.n_cells_, centre=False)
    Y = encode(labels, n_classes, "log_loss")
    exact = minimise(rows, Y, "log_loss", 0.2, sample_weight=weight, tol=1e-12)
    target = Encoded(np.arange(n_classes), np.ones(n_classes), "log_loss")
    blocks = Blocks(in_blocks(ROWS), in_blocks(labels), in_blocks(weight))
    cells = CellBlocks(blocks, features.trees_, features.levels_, target, keep=True)
    W, b = minimise_logistic(cells, features.levels_, 0.2, 1e-10)
    assert_allclose(W, exact.W, atol=2e-4)
    assert_allclose(b - b.mean(), exact.b - exact.b.mean(), atol=2e-4)
    with pytest.warns(ConvergenceWarning, match="after 2 steps"):
        minimise_logistic(cells, features.levels_, 0.2, 1e-10, max_iter=2)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_few_rows_choose_as_in_one_place(class_weight):
    local, blocks = pair(class_weight=class_weight, choice=("path", "auto"))
    assert (blocks.lifetime_, blocks.alpha_) == (local.lifetime_, local.alpha_)
    assert_array_equal(blocks.relevance_, local.relevance_)
    assert_allclose(blocks.path_.score, local.path_.score, rtol=1e-6)


def test_many_rows_choose_on_a_sample_whatever_the_blocks(monkeypatch):
    monkeypatch.setattr(settings, "CHOICE_ROWS", 150)
    models = [
        DaskMondrianKernelClassifier(n_estimators=10, random_state=1).fit(
            da.from_array(ROWS, chunks=(n, -1)), da.from_array(LABELS, chunks=n)
        )
        for n in (400, 90)
    ]
    assert models[0].lifetime_ == models[1].lifetime_
    assert_array_equal(models[0].path_.score, models[1].path_.score)
    everything = DaskMondrianKernelClassifier(n_estimators=10, random_state=1)
    monkeypatch.undo()
    everything.fit(in_blocks(ROWS), in_blocks(LABELS))
    assert everything.lifetime_ != models[0].lifetime_


def test_frames():
    frame = pd.DataFrame({"u": ROWS[:, 0], "v": ROWS[:, 1], "class": NAMES[LABELS]})
    parts = dd.from_pandas(frame, npartitions=3)
    blocks = DaskMondrianKernelClassifier(1.0, 0.3, 15, random_state=1)
    blocks.fit(parts[["u", "v"]], parts["class"])
    local = MondrianKernelClassifier(1.0, 0.3, 15, random_state=1).fit(ROWS, NAMES[LABELS])
    assert list(blocks.classes_) == list(local.classes_)
    assert_array_equal(blocks.predict(parts[["u", "v"]]).compute(), local.predict(ROWS))


def test_probabilities_only_of_a_logistic_loss():
    model = DaskMondrianKernelClassifier(loss="squared")
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        _ = model.predict_proba
    assert "not log-odds" in str(caught.value.__cause__)


def test_pickles_and_clones():
    blocks = pair()[1]
    again = pickle.loads(pickle.dumps(blocks))
    assert_array_equal(again.predict(in_blocks(NEW)).compute(), blocks.predict(NEW))
    assert clone(blocks).get_params() == blocks.get_params()
