"""The state of a stream on a fixed scale, at several widths that predict together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse

from mondrian_kernel import _settings as settings
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.spread import Spread
from mondrian_kernel._online.filter import Filter
from mondrian_kernel._online.group import Counts, LearnerGroup, Scores
from mondrian_kernel._online.means import Means
from mondrian_kernel._online.mixture import Mixture
from mondrian_kernel._online.sizes import ErrorSizes
from mondrian_kernel._trees.checks import check_vectors
from mondrian_kernel._trees.levels import Levels, check_online, online_levels
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray

Learner = Filter | Means
AnyLearner = TypeVar("AnyLearner", bound=Learner)


class StreamState:
    """What a stream on a fixed scale knows, and how it predicts: mutable.

    Up to five widths share the trees, each half the one before. At each there is a learner for
    every rate of forgetting. All learners predict together, in O(M) a row.

    Parameters
    ----------
    learners : list
        The same number of learners for each of the R widths, width after width; or any number of
        learners, of L levels each.
    online : OnlineTrees
        The trees, with a rung for each width or level.
    level_weights : ndarray of shape (L,)
        Weights of the levels.
    scale, relevance : ndarrays of shape (D,)
        What the columns are divided by, and how much each counts.
    changes_widths : bool
        Whether widths are added and dropped.

    Attributes
    ----------
    mixture : Mixture
        How the learners predict together.
    recent : ndarray of shape (2048, K), (2048, 1) or (2048, 0)
        Errors of rows before their batch was learnt, in units of their expected size; with the
        logistic loss, the probability of their class; with other losses, nothing. Row i is at
        place i modulo 2048. The last 1024 are used; the others are there in case a batch is rolled
        back.
    sizes : ErrorSizes or None
        The local size of the errors, where there was no fit that knows it.
    """

    _state: ClassVar[tuple[str, ...]] = (
        "learners",
        "mixture",
        "recent",
        "sizes",
        "level_weights",
        "scale",
        "relevance",
        "changes_widths",
    )

    def __init__(
        self,
        learners: list[Learner],
        online: OnlineTrees,
        level_weights: FloatArray,
        scale: FloatArray,
        relevance: FloatArray,
        changes_widths: bool,
    ) -> None:
        self.learners = learners
        self.online = online
        self.level_weights = level_weights
        self.scale = scale
        self.relevance = relevance
        self.changes_widths = changes_widths
        follows = self.n_rates > 1
        self.mixture = Mixture.equal(len(learners), self.n_outputs, follows=follows)
        self.recent = np.zeros((2 * settings.RECENT_ROWS, self._n_recent))
        self.sizes: ErrorSizes | None = None
        self._make_group()

    def _make_group(self) -> None:
        value = np.sqrt(self.level_weights / self.online.table.root.size)
        self._group = LearnerGroup(self.learners, self.n_rungs, value)
        self._size_group: LearnerGroup | None = None
        if self.sizes is not None:
            self._size_group = LearnerGroup(self.sizes.learners, self.n_rungs, value)

    @property
    def n_outputs(self) -> int:
        """Number of outputs, K."""
        return self.learners[0].n_outputs

    @property
    def _n_recent(self) -> int:
        return {"squared": self.n_outputs, "log_loss": 1}.get(self.learners[0].loss, 0)

    @property
    def n_rows(self) -> int:
        """Number of rows learnt from."""
        return self.online.n_rows

    @property
    def n_rungs(self) -> int:
        """Number of widths, R; 1 where each learner has several levels."""
        return self.online.rungs.size if self.changes_widths else 1

    @property
    def n_rates(self) -> int:
        """Number of learners at each width."""
        return len(self.learners) // self.n_rungs

    @property
    def best(self) -> int:
        """Index of the width whose best learner errs least."""
        return int(self.mixture.error[:-1].argmin()) // self.n_rates

    def fitted(self) -> FittedModel:
        """Return the present model, with all widths as levels.

        Trees and cells are views, which the next batch changes: ask again after each. The weights
        of the cells are computed in O(F).
        """
        levels, loss = self._levels(), self.learners[0].loss
        weights = [learner.cell_weights for learner in self.learners]
        errors, weight = self._errors()
        return FittedModel(
            trees=self.online.freeze(),
            levels=levels,
            cell_weights=self._mixed(levels, weights, self._weights, 0.5),
            intercept=self._intercept(),
            columns=Columns.scaled(self.scale, self.relevance),
            alpha=self.learners[0].alpha,
            seed=self.online.seed,
            signal=np.average(errors**2, axis=0, weights=weight)
            if loss == "squared"
            else np.empty(0),
            calibration=np.column_stack([errors, weight]) if loss == "log_loss" else None,
        )

    def scores(self, X: FloatArray, n_jobs: int | None) -> FloatArray:
        """Scores (n, K) of rows as they come, in O(M) a row."""
        out = Scores(np.empty((X.shape[0], self.n_outputs)), np.empty(0))
        self._write_scores(X, n_jobs, out)
        return out.mean

    def scores_and_variance(self, X: FloatArray, n_jobs: int | None) -> Scores:
        """Scores of rows as they come, and the variances of their errors, in O(M) a row."""
        out = Scores(np.empty((X.shape[0], self.n_outputs)), np.empty(X.shape[0]))
        self._write_scores(X, n_jobs, out)
        return out

    def scores_and_scale(self, X: FloatArray, n_jobs: int | None) -> tuple[FloatArray, FloatArray]:
        """Scores of rows as they come, and the scale of their errors, (n, K) each."""
        scores, variance = self.scores_and_variance(X, n_jobs)
        scale: FloatArray = np.repeat(np.sqrt(variance)[:, None], self.n_outputs, axis=1)
        if self.sizes is not None and self._size_group is not None:
            scale *= self.sizes.scale(self._size_group, (X / self.scale, *self._walk()))
        return scores, scale

    def _walk(self) -> tuple[Any, ...]:
        """Return nodes, lifetimes and cells of the trees, as kernels that walk them take them."""
        n_levels = self.n_rungs * self.level_weights.size
        table = self.online.table
        return table.nodes, self.online.rungs[:n_levels], table.column

    def _write_scores(self, X: FloatArray, n_jobs: int | None, out: Scores) -> None:
        X, trees = X / self.scale, self._walk()
        mixing = self._group, self._weights, self.mixture.shares

        def run(begin: int, end: int) -> None:
            part = Scores(out.mean[begin:end], out.variance[begin:end])
            self.learners[0].write_scores((X[begin:end], *trees), *mixing, part)

        in_threads(run, X.shape[0], n_jobs, work=10 * X.shape[0] * self.online.table.root.size)
        out.mean[:] += self._intercept()

    def spread(self) -> Spread:
        """Return the errors of the last rows in units of their scale, with their weights."""
        errors, weight = self._errors()
        if self.sizes is not None:
            errors = errors * np.exp(-self.sizes.recent[self._places()])
        return Spread.normal(errors, weight)

    def covariance(self, Phi: sparse.csr_matrix) -> FloatArray:
        """Joint covariance of f at new rows in units of the signal, (n, n), given their features.

        Covariances between the weights of cells are left out.
        """
        levels, shares = self._levels(), self.mixture.shares
        learners: list[Any] = self.learners  # filters: forests have no covariance
        cells = self._mixed(levels, [learner.variances for learner in learners], shares, 1.0)
        cov: FloatArray = (Phi @ sparse.diags_array(cells) @ Phi.T).toarray()
        cov += 2.0 * learners[0].alpha * (shares @ self._group.small["b_variance"][:, 0])
        squares = np.asarray(Phi.multiply(Phi).sum(axis=1)).ravel()
        cov.flat[:: cov.shape[0] + 1] += np.maximum(self.level_weights.sum() - squares, 0.0)
        return cov

    def _mixed(self, levels: Levels, parts: Any, weights: FloatArray, power: float) -> FloatArray:
        """Mix numbers (F, any) of the cells over the learners of each width.

        ``parts`` are functions of the numbers of cells and the values of features. Each width is
        divided by its share to the ``power``, which is a part of the weights of the levels.
        """
        n_cells, n_levels = np.diff(levels.offset), self.level_weights.size
        mixed = []
        for r, share in enumerate(self._rung_shares()):
            own = n_cells[r * n_levels : (r + 1) * n_levels]
            learners = range(r * self.n_rates, (r + 1) * self.n_rates)
            total = sum(weights[j] * parts[j](own, self._group.value) for j in learners)
            mixed.append(total / share**power)
        return np.concatenate(mixed)

    def _rung_shares(self) -> FloatArray:
        """Share of each width, (R,), positive."""
        shares: FloatArray = self.mixture.shares.reshape(self.n_rungs, -1).sum(axis=1)
        return np.maximum(shares, np.finfo(float).eps)

    def _levels(self) -> Levels:
        weights = np.outer(self._rung_shares(), self.level_weights).ravel()
        return online_levels(self.online, slice(weights.size), weights)

    def _intercept(self) -> FloatArray:
        """Intercept (K,) of the mixture; that of the first learner is common to all."""
        first = self.learners[0]
        b = first.intercepts(self._group.small)
        return first.offset + self.mixture.intercept(b, first.loss)

    @property
    def _weights(self) -> FloatArray:
        """Weights of the learners in the mixture, (J,)."""
        return self.mixture.weights[: len(self.learners)]

    def _errors(self) -> tuple[FloatArray, FloatArray]:
        """Errors or probabilities of the last 1024 rows (see ``recent``), and weights (n,).

        A row of zeros before there are any. The weight halves every 128 rows.
        """
        places = self._places()
        return self.recent[places], 0.5 ** (np.arange(places.size) / settings.ERROR_HALF_LIFE)

    def _places(self) -> Counts:
        """Return the places of the last errors, the latest first; that of none is 0, which is 0.

        The first row only sets the intercept.
        """
        age = np.arange(max(min(self.n_rows - 1, settings.RECENT_ROWS), 1))
        return np.maximum(self.n_rows - 1 - age, 0) % (2 * settings.RECENT_ROWS)

    def check(self) -> None:
        """Raise ValueError unless trees, cells and learners belong together.

        The learners and the mixture have been checked before.
        """
        check_online(self.online)
        check_vectors(level_weights=self.level_weights, scale=self.scale, relevance=self.relevance)
        J, R, n_levels = len(self.learners), self.n_rungs, self.level_weights.size
        if J == 0 or J % R or self.mixture.shares.size != J:
            raise ValueError(f"There are {J} learners at {R} widths.")
        if self.mixture.recent.shape[1] != self.n_outputs:
            raise ValueError("The recent means of the mixture have other outputs.")
        if R > settings.MAX_RUNGS or R * n_levels > self.online.rungs.size:
            raise ValueError(f"There are {R} widths and {n_levels} levels, more than rungs.")
        n_cells, first = self.online.n_cells, self.learners[0]
        for begin in range(0, J, self.n_rates):
            self._check_alike(self.learners[begin : begin + self.n_rates])
        for j, learner in enumerate(self.learners):
            n = n_cells[j // self.n_rates] if n_levels == 1 else n_levels * n_cells[:n_levels].max()
            if learner.n_table != n:
                raise ValueError(f"A learner knows {learner.n_table} cells instead of {n}.")
        if self.sizes is not None:
            found = [learner.n_table for learner in self.sizes.learners]
            if n_levels > 1 or found != n_cells[:R].tolist() or first.loss != "squared":
                raise ValueError(f"The sizes of errors know {found} cells.")
            if self.sizes.recent.shape[1] != self.n_outputs:
                raise ValueError("The sizes of errors have other outputs.")
        shape = 2 * settings.RECENT_ROWS, self._n_recent
        if self.recent.shape != shape or not np.isfinite(self.recent).all():
            raise ValueError("The errors of the last rows have another shape, or are infinite.")
        self.fitted().check()

    def _check_alike(self, learners: Sequence[Learner]) -> None:
        """Raise ValueError unless the learners are of the kinds of those of the first width."""
        names = "n_outputs", "loss", "alpha", "half_life"
        kinds = [
            [(type(a), *(getattr(a, name) for name in names)) for a in some]
            for some in (learners, self.learners[: self.n_rates])
        ]
        if kinds[0] != kinds[1] or len({kind[:-1] for kind in kinds[0]}) != 1:
            raise ValueError("The learners are of different kinds.")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state as arrays, plain Python, :class:`Trees` and learners."""
        online = self.online
        trees = online.freeze(), online.seed, online.rungs, online.column, online.stop
        return {"trees": trees} | {name: getattr(self, name) for name in self._state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.online = OnlineTrees.from_trees(*state["trees"])
        for name in self._state:
            setattr(self, name, state[name])
        self._make_group()
