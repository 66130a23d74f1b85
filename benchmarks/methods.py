"""Our models and what a user would pick instead, by name, with defaults or searched."""

import time
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import loguniform, randint, uniform
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ParameterSampler, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

OURS, SEARCHED = "Mondrian kernel", ", searched"
MAX_EXACT = 8_000  # rows; above, a kernel matrix and its factors take minutes


class LaplaceRidge(KernelRidge):
    """Ridge with the exact Laplace kernel, on y or on indicators of its classes, centred."""

    def __init__(self, task="regression", gamma=0.1, alpha=1.0):
        super().__init__(alpha, kernel="laplacian", gamma=gamma)
        self.task = task

    def fit(self, X, y):
        if self.task == "classification":
            self.classes_, codes = np.unique(y, return_inverse=True)
            y = np.eye(self.classes_.size)[codes]
        self.mean_ = y.mean(axis=0)
        return super().fit(X, y - self.mean_)

    def predict(self, X):
        found = super().predict(X) + self.mean_
        return self.classes_[found.argmax(axis=1)] if self.task == "classification" else found

    def score(self, X, y):
        found = self.predict(X)
        return np.mean(found == y) if self.task == "classification" else -np.mean((found - y) ** 2)


class Tuned(BaseEstimator):
    """Parameters of an estimator, searched on some rows widely, then on all rows nearby."""

    def __init__(self, estimator, grid, n_some=1000):
        self.estimator, self.grid, self.n_some = estimator, grid, n_some

    def fit(self, X, y):
        some = np.random.default_rng(0).permutation(len(X))[: self.n_some]
        wide = GridSearchCV(clone(self.estimator), self.grid, cv=3).fit(X[some], y[some])
        near = {k: [v / 3**0.5, v, 3**0.5 * v] for k, v in wide.best_params_.items()}
        one_split = ShuffleSplit(1, test_size=0.2, random_state=0)
        cv = 3 if len(X) <= self.n_some else one_split
        self.best_ = GridSearchCV(clone(self.estimator), near, cv=cv).fit(X, y).best_estimator_
        return self

    def predict(self, X):
        return self.best_.predict(X)


class Xrfm(BaseEstimator):
    """xRFM with its defaults; a fifth of the rows are its validation set."""

    def __init__(self, kind, task, seed):
        self.kind, self.task, self.seed = kind, task, seed

    def fit(self, X, y):
        order = np.random.default_rng(self.seed).permutation(len(X))
        val, train = np.split(order, [len(X) // 5])
        if self.task == "regression":
            self.mean_, self.std_ = y.mean(), y.std()
            y = ((y - self.mean_) / self.std_)[:, None].astype(np.float32)
        X = np.asarray(X, np.float32)
        self.model_ = self.kind(device="cpu", random_state=self.seed, verbose=False)
        self.model_.fit(X[train], y[train], X[val], y[val])
        return self

    def predict(self, X):
        found = np.ravel(self.model_.predict(np.asarray(X, np.float32)))
        return found if self.task == "classification" else found * self.std_ + self.mean_

    def predict_proba(self, X):
        return np.asarray(self.model_.predict_proba(np.asarray(X, np.float32)))


def maker(module, prefix, seeded="random_state", threaded="n_jobs", **fixed):
    """Return a function that makes a model of a library for a task."""

    def make(task, seed, threads, **settings):
        kind = getattr(import_module(module), prefix + KIND[task])
        counts = {threaded: threads} if threaded else {}
        return kind(**{seeded: seed}, **counts, **fixed | settings)

    return make


def laplace_ridge(task, seed, threads):
    grid = {"gamma": np.geomspace(3e-3, 1, 6), "alpha": np.logspace(-5, 1, 7)}
    return Tuned(LaplaceRidge(task), grid)


def xrfm(task, seed, threads):
    return Xrfm(import_module("xrfm").xRFM, task, seed)


class Method(NamedTuple):
    """How a model is made, what it takes, and the space of its random search."""

    make: Any  # (task, seed, threads, **settings)
    takes: str = "tables"  # with categories and missing values; "missing": values only; "numbers"
    package: str = "sklearn"
    max_rows: float = np.inf
    scaled: bool = False
    tasks: tuple = ("regression", "classification")
    space: dict | None = None


KIND = {"regression": "Regressor", "classification": "Classifier"}
RATE, SHARE, LEAVES = loguniform(0.01, 0.3), uniform(0.5, 0.5), randint(8, 257)
lightgbm = partial(maker, "lightgbm", "LGBM", verbose=-1)
METHODS = {
    OURS: Method(maker("mondrian_kernel", "MondrianKernel")),
    "CatBoost": Method(
        maker("catboost", "CatBoost", "random_seed", "thread_count", verbose=False,
              allow_writing_files=False), package="catboost",
        space={"learning_rate": RATE, "depth": randint(4, 11), "l2_leaf_reg": loguniform(1, 10),
               "iterations": randint(200, 2001)}),
    "LightGBM": Method(
        lightgbm(), package="lightgbm",
        space={"learning_rate": RATE, "num_leaves": LEAVES, "n_estimators": randint(50, 1501),
               "min_child_samples": randint(5, 101), "colsample_bytree": SHARE,
               "subsample": SHARE, "subsample_freq": [1]}),
    "LightGBM 1000": Method(
        lightgbm(n_estimators=1000, num_leaves=63, learning_rate=0.05), package="lightgbm",
        tasks=("regression",)),
    "XGBoost": Method(
        maker("xgboost", "XGB", enable_categorical=True), package="xgboost",
        space={"learning_rate": RATE, "max_depth": randint(3, 11), "subsample": SHARE,
               "n_estimators": randint(50, 1501), "min_child_weight": loguniform(1, 30),
               "colsample_bytree": SHARE}),
    "HistGradientBoosting": Method(
        maker("sklearn.ensemble", "HistGradientBoosting", threaded=None),
        space={"learning_rate": RATE, "max_leaf_nodes": LEAVES, "max_iter": randint(50, 1001),
               "min_samples_leaf": randint(5, 101), "l2_regularization": loguniform(1e-3, 10)}),
    "ExtraTrees": Method(
        maker("sklearn.ensemble", "ExtraTrees", n_estimators=200), takes="missing",
        space={"max_features": uniform(0.2, 0.8), "min_samples_leaf": randint(1, 6)}),
    "Laplace ridge": Method(laplace_ridge, takes="numbers", max_rows=MAX_EXACT, scaled=True),
    "xRFM": Method(xrfm, takes="numbers", package="xrfm", max_rows=MAX_EXACT, scaled=True),
}  # fmt: skip


def as_text(frame):
    """Frame with its categories as text, also the missing one, as CatBoost wants them."""
    return frame.astype(dict.fromkeys(categories(frame), str))


def categories(X):
    """Names of the columns of categories."""
    return list(X.select_dtypes("category")) if isinstance(X, pd.DataFrame) else []


def installed(names=METHODS):
    """Those of some methods whose package is here."""
    return [name for name in names if find_spec(METHODS[name].package)]


def build(name, X, task, seed=0, threads=1, encode=False, **settings):
    """Return the model of a name for such rows, after an encoder where it takes no tables."""
    method, columns = METHODS[name], categories(X)
    takes, steps = "numbers" if encode else method.takes, []
    if isinstance(X, pd.DataFrame) and takes != "tables":
        steps.append(encoder(takes))
    elif columns and method.package == "catboost":
        steps.append(FunctionTransformer(as_text))
        settings = settings | {"cat_features": columns}
    if method.scaled:
        steps.append(StandardScaler())
    model = method.make(task, seed, threads, **settings)
    return make_pipeline(*steps, model) if steps else model


def encoder(takes):
    """Columns of zeros and ones for categories; medians, and marks, for missing numbers."""
    medians = SimpleImputer(strategy="median", add_indicator=True)
    marks = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (
            "passthrough" if takes == "missing" else medians,
            make_column_selector(dtype_include=float),
        ),
        (marks, make_column_selector(dtype_include="category")),
    )


def search(name, X, y, task, seed, threads, budget):
    """Random search from the defaults on, until the CPU seconds are used up; all rows at the end.

    A fifth of the rows is held out: squared error or log loss decides. The last trial may go over
    the budget; the fit on all rows comes on top. Returns the fitted model and the trials.
    """
    begin, best, chosen = time.process_time(), np.inf, {}
    rows = X.iloc if isinstance(X, pd.DataFrame) else X
    val, train = np.split(np.random.default_rng(seed).permutation(len(y)), [len(y) // 5])
    drawn = ParameterSampler(METHODS[name].space, 10**6, random_state=seed)
    for trials, settings in enumerate(chain([{}], drawn), 1):  # noqa: B007
        model = build(name, X, task, seed, threads, **settings).fit(rows[train], y[train])
        if task == "regression":
            loss = np.mean((model.predict(rows[val]) - y[val]) ** 2)
        else:
            loss = log_loss(y[val], model.predict_proba(rows[val]), labels=np.unique(y[train]))
        if loss < best:
            best, chosen = loss, settings
        if time.process_time() - begin > budget:
            break
    return build(name, X, task, seed, threads, **chosen).fit(X, y), trials
