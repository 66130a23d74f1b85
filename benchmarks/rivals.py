"""What a user would pick instead, each with its defaults or tuned, by name."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor

OURS = "Mondrian kernel"
# Above, a kernel matrix and its factors take minutes for every pair that is tried.
MAX_EXACT = 8_000
GAMMAS = np.geomspace(3e-3, 1, 6)


class Tuned(BaseEstimator):
    """Parameters of an estimator, searched on some rows widely, then on all rows nearby."""

    def __init__(self, estimator, grid, n_some=1000):
        self.estimator, self.grid, self.n_some = estimator, grid, n_some

    def fit(self, X, y):
        some = np.random.default_rng(0).permutation(len(X))[: self.n_some]
        wide = GridSearchCV(clone(self.estimator), self.grid, cv=3, n_jobs=1)
        wide.fit(X[some], y[some])
        near = {k: [v / 3**0.5, v, 3**0.5 * v] for k, v in wide.best_params_.items()}
        one_split = ShuffleSplit(1, test_size=0.2, random_state=0)
        narrow = GridSearchCV(
            clone(self.estimator), near, cv=3 if len(X) <= self.n_some else one_split, n_jobs=1
        )
        self.best_ = narrow.fit(X, y).best_estimator_
        return self

    def predict(self, X):
        return self.best_.predict(X)


class TunedClassifier(ClassifierMixin, Tuned):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return super().fit(X, y)

    def predict_proba(self, X):
        return self.best_.predict_proba(X)


class LaplaceSVC(ClassifierMixin, BaseEstimator):
    """SVC with the exact Laplace kernel."""

    def __init__(self, gamma=0.1, C=1.0):
        self.gamma, self.C = gamma, C

    def fit(self, X, y):
        self.X_, self.classes_ = X, np.unique(y)
        self.svc_ = SVC(C=self.C, kernel="precomputed").fit(
            laplacian_kernel(X, gamma=self.gamma), y
        )
        return self

    def predict(self, X):
        return self.svc_.predict(laplacian_kernel(X, self.X_, gamma=self.gamma))


class CentredRidge(KernelRidge):
    """Kernel ridge on y minus its mean, as it has no intercept."""

    def fit(self, X, y):
        self.mean_ = y.mean()
        return super().fit(X, y - self.mean_)

    def predict(self, X):
        return super().predict(X) + self.mean_


def nystroem(learner, seed):
    features = Nystroem("laplacian", n_components=500, random_state=seed)
    return Pipeline([("features", features), ("learner", learner)])


def regressors(n_rows, seed, threads):
    found = {
        OURS: MondrianKernelRegressor(random_state=seed, n_jobs=threads),
        "ExtraTrees": ExtraTreesRegressor(200, random_state=seed, n_jobs=threads),
        "RandomForest": RandomForestRegressor(200, random_state=seed, n_jobs=threads),
        "HistGradientBoosting": HistGradientBoostingRegressor(random_state=seed),
        "Nystroem": Tuned(
            nystroem(RidgeCV(np.logspace(-5, 1, 13)), seed), {"features__gamma": GAMMAS}
        ),
    }
    if n_rows <= MAX_EXACT:
        found["exact kernel"] = Tuned(
            CentredRidge(kernel="laplacian"), {"gamma": GAMMAS, "alpha": np.logspace(-5, 1, 7)}
        )
    return found


def classifiers(n_rows, seed, threads):
    found = {
        OURS: MondrianKernelClassifier(random_state=seed, n_jobs=threads),
        "ExtraTrees": ExtraTreesClassifier(200, random_state=seed, n_jobs=threads),
        "RandomForest": RandomForestClassifier(200, random_state=seed, n_jobs=threads),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=seed),
        "Nystroem": TunedClassifier(
            nystroem(LogisticRegression(max_iter=200), seed),
            {"features__gamma": GAMMAS[::2], "learner__C": np.logspace(-1, 3, 3)},
        ),
    }
    if n_rows <= MAX_EXACT:
        found["exact kernel"] = TunedClassifier(
            LaplaceSVC(), {"gamma": GAMMAS, "C": np.logspace(-1, 3, 5)}
        )
    return found
