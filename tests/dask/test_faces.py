"""The faces on Dask are those of the estimators without it."""

import inspect
import os
import tempfile
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.utils import get_tags

from mondrian_kernel import MondrianFeatures, MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.dask import (
    DaskMondrianFeatures,
    DaskMondrianKernelClassifier,
    DaskMondrianKernelRegressor,
)

pytest.importorskip("distributed")  # which has settings of its own

FACES = [
    (DaskMondrianFeatures, MondrianFeatures),
    (DaskMondrianKernelRegressor, MondrianKernelRegressor),
    (DaskMondrianKernelClassifier, MondrianKernelClassifier),
]


@pytest.mark.parametrize(("face", "one"), FACES)
def test_same_parameters_and_defaults(face, one):
    """But for those that say how to compute, and what blocks or streams alone have."""
    faces, ones = (inspect.signature(c.__init__).parameters for c in (face, one))
    shared = [name for name in faces if name in ones]
    alone = ("criterion", "categorical_features", "forgetting")
    if "lifetime" not in faces or face is DaskMondrianFeatures:
        alone += ("n_jobs", "verbose")
    assert shared == [name for name in ones if name not in alone]
    assert set(faces) - set(shared) <= {"keep_cells"}
    one_width = {"lifetime": "path"}
    for name in shared:
        expected = ones[name].default
        if expected == "auto":
            expected = one_width.get(name, expected)
        assert faces[name].default == expected, name
        assert faces[name].kind == ones[name].kind, name


@pytest.mark.parametrize(("face", "one"), FACES)
def test_what_needs_rows_in_one_place_is_not_offered(face, one):
    hidden = {"partial_fit", "predict_interval"} & set(dir(one))
    for name in hidden:
        assert not hasattr(face(), name)
    public = {name for name in dir(one) if name[0] != "_" and callable(getattr(one, name))}
    assert public - hidden <= set(dir(face))


@pytest.mark.parametrize(("face", "one"), FACES)
def test_tags_say_that_blocks_are_numbers_without_gaps(face, one):
    assert not get_tags(face()).input_tags.allow_nan
    assert not get_tags(face()).input_tags.categorical


@pytest.mark.parametrize(("face", "one"), FACES)
def test_docs_speak_of_collections(face, one):
    for name in "fit", "transform", "predict", "decision_function", "predict_proba":
        if hasattr(face, name):
            doc = inspect.getdoc(getattr(face, name))
            assert "X : dask" in doc
            assert "X : array-like" not in doc
            assert doc != inspect.getdoc(getattr(one, name))
    assert "<" not in face.__doc__.split("Examples")[0]


@pytest.mark.parametrize(
    "model",
    [
        DaskMondrianFeatures(1.0, 5),
        DaskMondrianKernelRegressor(1.0, 0.1, 5, solver="lanczos"),
        DaskMondrianKernelClassifier(1.0, 0.1, 5),
    ],
)
def test_nothing_is_left_behind(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X = da.from_array(np.random.default_rng(0).normal(size=(60, 2)), chunks=(20, 2))
    before = repr(dask.config.config), dict(os.environ), list(warnings.filters)
    model.fit(X, X[:, 0] > 0)
    (model.predict(X) if hasattr(model, "predict") else model.transform(X)).compute()
    assert (repr(dask.config.config), dict(os.environ), list(warnings.filters)) == before
    assert list(tmp_path.iterdir()) == []
