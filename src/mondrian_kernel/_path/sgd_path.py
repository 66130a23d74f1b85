"""Stochastic gradients along the lifetimes: one learner, warm from the first cut to the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel._linear.losses import value
from mondrian_kernel._linear.sgd import SgdState, parents
from mondrian_kernel._path.driver import Callback, Plan, Point, follow
from mondrian_kernel._path.result import LifetimePath, SgdWeights
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.trees import Trees
from mondrian_kernel._typing import FloatArray, IntArray
from mondrian_kernel.features import MondrianFeatures


def gradient_path(
    rows: FloatArray,
    Y: FloatArray,
    classes: NDArray[Any] | None,
    *,
    loss: str,
    alpha: float,
    max_lifetime: float,
    n_estimators: int,
    n_lifetimes: int,
    passes: int,
    held_out: tuple[FloatArray, FloatArray] | None,
    seed: int,
    n_jobs: int | None,
    callback: Callback | None,
    names_of: Any = None,
) -> LifetimePath:
    """Return the path of valid rows and targets (N, K); see :func:`mondrian_kernel.sgd_path`."""
    growth = Growth(rows, n_estimators, seed, n_jobs)
    state = SgdState(n_estimators, Y.shape[1], loss, alpha)
    if loss == "squared":
        state.b = Y.mean(axis=0)  # so that no weight has to carry the level of y
    learner = SgdLearner(state, Y, held_out, passes, np.random.default_rng(seed), n_jobs)
    plan = Plan(
        n_lifetimes,
        rows.shape[0] * n_estimators,
        n_lifetimes,
        max_lifetime=max_lifetime,
        warns=held_out is not None,
    )
    criterion = "train" if held_out is None else "holdout"
    path, trees, _ = follow(growth, learner, plan, np.array([alpha]), criterion, callback)
    end = MondrianFeatures.from_trees(
        trees, float(path.lifetimes[-1]), n_jobs=n_jobs, seed=seed, names_of=names_of
    )
    coef, intercept = learner.weights_after(path.lifetimes.size)
    return replace(path, model=SgdWeights(end, coef, intercept, classes))


@dataclass
class SgdLearner:
    """Some passes over the rows at each lifetime, whose average the next one starts from."""

    state: SgdState
    Y: FloatArray
    held_out: tuple[FloatArray, FloatArray] | None
    passes: int
    rng: np.random.Generator
    n_jobs: int | None

    def __post_init__(self) -> None:
        self._cells: IntArray | None = None
        self._recent: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._done = 0

    def score(self, trees: Trees, leaf: IntArray, lifetimes: FloatArray) -> Iterator[list[Point]]:
        """Yield the point of each lifetime."""
        state, loss = self.state, self.state.loss
        for lifetime in lifetimes.tolist():
            features = MondrianFeatures.from_trees(trees, lifetime, n_jobs=self.n_jobs)
            cells = features.levels_.column[0][leaf]
            coarse = self._cells
            if coarse is None:
                whole = np.arange(cells.shape[1], dtype=np.int32)  # before the first cut
                coarse = np.broadcast_to(whole, cells.shape)
            state.inherit(parents(coarse, cells, features.n_cells_))
            state.run(cells, self.Y, self.passes, self.rng)
            state.restart()  # averaged over the whole path the weights would lag behind the cells
            curves = {"train_loss": value(loss, self.Y, state.scores(cells)).mean(keepdims=True)}
            if self.held_out is not None:
                rows, Y = self.held_out
                scores = features.transform(rows) @ state.W + state.b
                curves["validation_loss"] = value(loss, Y, scores).mean(keepdims=True)
            self._cells = cells
            self._keep()
            yield [Point(lifetime, features.n_cells_, curves)]

    def _keep(self) -> None:
        """Keep the weights of this lifetime and of the one before.

        An interrupt may come before the driver has noted this lifetime.
        """
        before = {k: v for k, v in self._recent.items() if k == self._done}
        self._recent = before | {self._done + 1: (self.state.W, self.state.b.copy())}
        self._done += 1

    def weights_after(self, n_lifetimes: int) -> tuple[FloatArray, FloatArray]:
        """Averaged weights (C, K) and intercept (K,) after the last lifetime or the one before."""
        return self._recent[n_lifetimes]
