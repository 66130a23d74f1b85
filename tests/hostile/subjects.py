"""What is attacked: every public estimator and path, small enough to be fitted in milliseconds."""

from inspect import signature

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator

import mondrian_kernel as mk
from mondrian_kernel import dask as on_dask

RNG = np.random.default_rng(0)
N = 24
# Multiples of 1/8 are exact in every type of number.
X = np.round(8 * RNG.normal(size=(N, 3))) / 8
NEW = np.round(8 * RNG.normal(size=(5, 3))) / 8
Y = {
    "numbers": np.round(64 * np.sin(2 * X[:, 0])) / 64 + X[:, 1],
    "classes": (X[:, 0] * X[:, 1] > 0).astype(int),
    "rows": None,
    "tables": None,
    "boxes": None,
}
WEIGHT = np.round(8 * RNG.uniform(1, 2, size=N)) / 8


class Path(BaseEstimator):
    """A path as an estimator, so that all are attacked alike."""

    def __init__(self, function, **options):
        self.function, self.options = function, options

    def get_params(self, deep=True):
        defaults = {k: p.default for k, p in signature(self.function).parameters.items()}
        for data in ("X", "y", "sample_weight"):
            defaults.pop(data, None)
        return {**defaults, **self.options}

    def set_params(self, **options):
        self.options = {**self.options, **options}
        return self

    def fit(self, X, y, **options):
        self.path_ = self.function(X, y, **self.options, **options)
        return self

    def predict(self, X):
        has_model = self.path_.model is not None
        return self.path_.predict(X) if has_model else np.nanmin(self.path_.score, axis=1)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "path_")


class Box(BaseEstimator):
    """A partition of a box as an estimator, for its parameters; rows are not used."""

    def __init__(self, lower, upper, lifetime=0.1, random_state=0):
        self.lower, self.upper, self.lifetime = lower, upper, lifetime
        self.random_state = random_state

    def fit(self, X):
        self.partition_ = mk.MondrianPartition.sample(**self.get_params())
        return self

    def transform(self, X):
        return self.partition_.locate(self.partition_.upper[:1])


def path(function, **options):
    return lambda: Path(function, n_estimators=3, random_state=0, **options)


def estimator(cls, *arguments, **options):
    return lambda: cls(*arguments, **{"random_state": 0} | options)


LIFETIMES = np.array([0.3, 0.8])
MAKE = {
    "numbers": {
        "regressor": estimator(mk.MondrianKernelRegressor, 1.0, 0.1, 5),
        "default regressor": estimator(mk.MondrianKernelRegressor, n_estimators=3),
        "forest regressor": estimator(mk.MondrianForestRegressor, 1.0, 0.1, 5),
        "ridge path": path(mk.lifetime_path, lifetimes=LIFETIMES),
        "evidence path": path(
            mk.lifetime_path, lifetimes=LIFETIMES, criterion="evidence", solver="lanczos"
        ),
        "every cut": path(mk.every_cut_path, max_lifetime=0.3),
        "gradient path": path(mk.sgd_path, alpha=0.1, max_lifetime=1.0, n_lifetimes=3),
        "Dask regressor": estimator(on_dask.DaskMondrianKernelRegressor, 1.0, 0.1, 5),
    },
    "classes": {
        "classifier": estimator(mk.MondrianKernelClassifier, 1.0, 0.1, 5),
        "default classifier": estimator(mk.MondrianKernelClassifier, n_estimators=3),
        "hinge": estimator(mk.MondrianKernelClassifier, 1.0, 0.1, 5, loss="hinge"),
        "forest classifier": estimator(mk.MondrianForestClassifier, 1.0, 0.1, 5),
        "loss path": path(mk.lifetime_path, loss="log_loss", lifetimes=LIFETIMES, alphas=[0.1]),
        "gradient classes": path(
            mk.sgd_path, alpha=0.1, max_lifetime=1.0, n_lifetimes=3, loss="log_loss"
        ),
        "Dask classifier": estimator(on_dask.DaskMondrianKernelClassifier, 1.0, 0.1, 5),
    },
    "rows": {
        "features": estimator(mk.MondrianFeatures, 1.0, 5),
        "mixed features": estimator(mk.MondrianFeatures, [0.5, 1.0], 5, weights=[1.0, 2.0]),
        "Fourier": estimator(mk.LaplaceFourierFeatures, 1.0, 6),
        "binning": estimator(mk.RandomBinningFeatures, 1.0, 5),
        "Dask features": estimator(on_dask.DaskMondrianFeatures, 1.0, 5),
    },
    "tables": {"encoder": mk.TableEncoder},
    "boxes": {"partition": lambda: Box([-9.0] * 3, [9.0] * 3)},
}
KIND = {name: kind for kind, makers in MAKE.items() for name in makers}
VERBS = [
    (name, verb)
    for name, kind in KIND.items()
    for verb in ("fit", "partial_fit")
    if hasattr(MAKE[kind][name](), verb) and (name, verb) != ("mixed features", "partial_fit")
]


def make(name):
    return MAKE[KIND[name]][name]()


def on_blocks(value):
    """Return an array or a table as a Dask collection; other things as they are."""
    if isinstance(value, pd.DataFrame | pd.Series):
        return dd.from_pandas(value, npartitions=2)
    if isinstance(value, np.ndarray) and value.ndim and value.size:
        return da.from_array(value, chunks=(10, *value.shape[1:]))
    return value


def learn(name, model, verb, rows, y, weight=None):
    """Call ``fit`` or ``partial_fit`` in the way of the estimator."""
    given = [rows, y] if KIND[name] in ("numbers", "classes") else [rows]
    options = {} if weight is None else {"sample_weight": weight}
    if KIND[name] == "classes" and verb == "partial_fit":
        options["classes"] = np.unique(Y["classes"] if y is None else labels_of(y))
    if name.startswith("Dask"):
        given = [on_blocks(value) for value in given]
        options = {key: on_blocks(value) for key, value in options.items()}
        with dask.config.set(scheduler="synchronous"):
            return getattr(model, verb)(*given, **options)
    return getattr(model, verb)(*given, **options)


def labels_of(y):
    """Return the classes to announce: those of y where they can be read, else two."""
    try:
        return np.unique(np.asarray(y))
    except (TypeError, ValueError):
        return np.array([0, 1])


def seen(name, model, new):
    """Return everything that a fitted model says about new rows, as arrays."""
    if hasattr(model, "transform"):
        Phi = model.transform(new)
        return [Phi.toarray() if sparse.issparse(Phi) else Phi]
    found = [model.predict(new)]
    if isinstance(model, mk.MondrianKernelRegressor):
        found.append(model.predict(new, return_std=True)[1])
    if hasattr(model, "predict_interval"):
        found.append(model.predict_interval(new))
    methods = ("predict_proba", "decision_function")
    return found + [getattr(model, m)(new) for m in methods if hasattr(model, m)]
