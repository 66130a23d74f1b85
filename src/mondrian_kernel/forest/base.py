"""What both forests share: the width, the trees and the means of their leaves."""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._online.means import Means
from mondrian_kernel._online.model import (
    begin_stream,
    check_new,
    continue_stream,
    learn_and_show,
    stream_rows,
)
from mondrian_kernel._online.scores import cells_of
from mondrian_kernel._online.stream import STREAM_ALPHA, Stream
from mondrian_kernel._path.choose import choose_forest_width
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.features import MondrianFeatures, check_budget, check_ranges
from mondrian_kernel.features.csr import cell_features


class MondrianForest(BaseEstimator):
    """What both forests share: trees, and leaf values fitted in each tree apart."""

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "scale": [StrOptions({"std"}), None, "array-like"],
        "relevance": [StrOptions({"auto", "learn", "equal"})],
        "max_cells": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose", callable],
    }

    @classmethod
    def from_features(
        cls, features: MondrianFeatures, alpha: float = 1.0, *, scale: Any = None, **params: Any
    ) -> Self:
        """Return a forest on the very trees of fitted features, to be fitted to targets.

        Kernel and forest can be compared on one sample of trees then, at every lifetime by
        ``features.at``. A clone of the forest grows trees of its own.

        Parameters
        ----------
        features : MondrianFeatures
            Fitted features, for instance ``features_`` of a kernel model.
        alpha : float, default=1.0
            Shrinkage γ².
        scale : None or array-like of shape (n_features,), default=None
            What inputs are divided by before they reach the features: ``scale_`` of that model.
        **params : dict
            Further parameters of the forest.

        Returns
        -------
        forest : estimator
            A forest whose ``fit`` keeps the trees.
        """
        check_is_fitted(features)
        forest = cls(
            features.lifetime_, alpha, features.trees_.n_trees, scale=scale,
            n_jobs=features.n_jobs, **params,
        )  # fmt: skip
        online = "_online" in vars(features)  # whose trees further rows would change
        forest._shared = features.at(features.lifetime_) if online else features
        return forest

    def _fit_leaves(
        self,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        scales: tuple[FloatArray, FloatArray],
        seed: int,
        *,
        fit_intercept: bool,
    ) -> Means:
        """Choose the width, grow the trees on scaled rows and return the means of their leaves."""
        check_budget(self.max_cells, self.n_estimators)
        rows = rows / scales[0]
        check_ranges(rows)
        shared: MondrianFeatures | None = getattr(self, "_shared", None)
        lifetime, alpha, path = choose_forest_width(
            rows, Y, weight, seed,
            lifetime=self.lifetime if shared is None else shared.lifetime_, alpha=self.alpha,
            n_estimators=self.n_estimators, fit_intercept=fit_intercept, n_jobs=self.n_jobs,
            verbose=self.verbose,
        )  # fmt: skip
        if shared is None:
            features = MondrianFeatures(
                lifetime, self.n_estimators, max_cells=self.max_cells, n_jobs=self.n_jobs
            )
            leaf = features._grow(rows, seed)
            Phi = cell_features(features._cells.column[leaf], None, features.n_cells_)
        else:
            features, Phi = shared, shared.transform(rows)
        self.scale_, self.relevance_ = scales
        self.path_, self.alpha_ = path, alpha
        self.features_, self.lifetime_ = features, features.lifetime_
        self.__dict__.pop("_stream", None)
        return Means.of(Phi, Y, weight, alpha, features.trees_.n_trees, fit_intercept)

    def _learn(
        self,
        rows: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None,
        *,
        fit_intercept: bool,
        **known: Any,
    ) -> None:
        """Learn from further rows of a stream; ``known`` are attributes that they have shown."""
        rows, Y, s = stream_rows(rows, Y, weight)
        stream: Stream | None = self.__dict__.get("_stream")
        if stream is None and hasattr(self, "_means"):
            stream = continue_stream(self, copy.deepcopy(self._means))
        elif stream is None:
            if hasattr(self, "_shared"):
                raise ValueError("A forest on given trees is to be fitted before partial_fit.")
            alpha = STREAM_ALPHA if isinstance(self.alpha, str) else float(self.alpha)
            stream = begin_stream(self, Means(Y.shape[1], alpha, fit_intercept), rows.shape[1])
        if Y.shape[1] != stream.blank.n_outputs:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but those before had {stream.blank.n_outputs}."
            )
        learn_and_show(
            self, stream, (rows, Y, s),
            lambda new: {"alpha_": new.blank.alpha, "_means": new.learner, **known},
        )  # fmt: skip

    def _average(self, X: ArrayLike) -> FloatArray:
        rows = check_new(self, X)
        cells, log_stay = cells_of(self.features_, rows / self.scale_)
        average: FloatArray = self._means.scores(cells, np.exp(log_stay, out=log_stay))
        return average
