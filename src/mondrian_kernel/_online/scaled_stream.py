"""Learning from a stream on a fixed scale, at several widths that predict together."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel._linear.losses import value
from mondrian_kernel._online.group import Counts, Judged, LearnerGroup
from mondrian_kernel._online.mixture import Mixture
from mondrian_kernel._online.rows import Rows, put_at, take_rows
from mondrian_kernel._online.sizes import ErrorSizes, least_error
from mondrian_kernel._online.state import AnyLearner, Learner, StreamState
from mondrian_kernel._trees.checks import check_more_ranges
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel._typing import FloatArray


class _Before(NamedTuple):
    """The state of a stream before its last batch, for a rollback."""

    online: OnlineTrees
    n_rows: int
    group: LearnerGroup
    learners: list[Learner]
    mixture: Mixture
    size_group: LearnerGroup | None
    sizes: ErrorSizes | None


class ScaledStream(StreamState):
    """A stream on a fixed scale that learns: mutable.

    A row costs what the narrowest width costs, where it is put into the trees, and O(M) for each
    learner. How the learners predict together is learnt from their errors on rows of a batch before
    any of it was learnt.

    Widths change every 1024 rows, at the end of a batch, by the errors of their learners. When the
    narrowest one is the best, a narrower one is added: the trees get twice their lifetime
    (:meth:`OnlineTrees.deeper`), the new learners start as copies of the last ones, and the widest
    of six widths is dropped. No width is added once there are ``max_cells`` cells. When the best
    width is three or more below the narrowest, the narrowest one is dropped
    (:meth:`OnlineTrees.shallower`): its many cells take time and memory and are of no use.

    See :class:`StreamState` for parameters and attributes.
    """

    _before: _Before | None = None

    def rollback(self) -> None:
        """Undo the last batch that :meth:`learn` put into this stream, if there is one.

        A batch for which :meth:`learn` returned another stream did not change this one.
        """
        before = self._before
        if before is None:
            return
        before.group.rollback()
        before.online.rollback(before.n_rows)
        self.online, self._group = before.online, before.group
        self.learners, self.mixture = before.learners, before.mixture
        if before.size_group is not None:
            before.size_group.rollback()
        self._size_group, self.sizes = before.size_group, before.sizes
        self._before = None

    def learn_batch(self, rows: Rows, max_cells: int | None) -> None:
        """Learn from at most 1024 rows on the present scale; if anything fails, from none."""
        X, Y, weight = rows
        X = X / self.scale
        online, n_before, group = self.online, self.online.n_rows, self._group
        check_more_ranges(online.table, X)
        sizes = self._size_group, self.sizes
        for some in (group, self._size_group):
            if some is not None:
                some.commit()
        self._before = _Before(online, n_before, group, self.learners, self.mixture, *sizes)
        try:
            first = self.learners[0]
            base = first.intercepts(group.small)[0].copy()
            leaf = online.extend(X, max_cells)
            cells = leaf, online.column, online.n_cells.tolist(), online.origin
            judged = group.learn(*cells, Y, weight)
            self._judge(judged, base, Y - first.offset, weight, cells)
            n_rows = n_before + len(Y)
            if (
                self.changes_widths
                and n_rows // settings.STREAM_WINDOW > n_before // settings.STREAM_WINDOW
            ):
                self._change_widths(max_cells)
        except BaseException:
            self.rollback()
            raise

    def _judge(
        self,
        judged: Judged,
        base: FloatArray,
        Y: FloatArray,
        weight: FloatArray,
        cells: tuple[Any, ...],
    ) -> None:
        """Learn from the errors of rows, whose ``cells`` are known, and keep them."""
        loss, n_before = self.learners[0].loss, self.n_rows - len(Y)
        variance = self.mixture.shares @ judged.variance
        errors = np.zeros((len(Y), self.recent.shape[1]))
        if n_before > 0:
            self.mixture, mixed = self.mixture.judge(judged, base, Y, weight, loss)
            if loss == "squared":
                errors = (Y - mixed) / np.sqrt(variance)[:, None]
            elif loss == "log_loss":
                errors = np.exp(-np.maximum(value(loss, Y, mixed), 0.0))[:, None]
        put_at(self.recent, n_before, errors)
        if self.sizes is not None and self._size_group is not None:
            least = least_error(float(self.mixture.error[-1]), variance)
            self.sizes = self.sizes.learn(self._size_group, cells, errors, least, n_before)

    def learn_parts(
        self, rows: Rows, max_cells: int | None, size: int = settings.STREAM_WINDOW
    ) -> None:
        """Learn from any number of rows. If that fails, the stream must not be used any more.

        They are taken in parts of ``size`` rows, and the very first row alone. The parts matter for
        the mixture, which judges predictions of a part.
        """
        begin, n = 0, rows[0].shape[0]
        while begin < n:
            end = begin + (size if self.n_rows > 0 else 1)
            self.learn_batch(take_rows(rows, begin, end), max_cells)
            begin = end
        self._before = None

    def _change_widths(self, max_cells: int | None) -> None:
        """Add a narrower width if the narrowest is best; drop the narrowest if it is useless."""
        top, best, online, n_rates = self.n_rungs - 1, self.best, self.online, self.n_rates
        full = max_cells is not None and online.n_cells[top] >= max_cells
        rungs = np.arange(top + 1)
        if best == top and not full:
            self.online = online.deeper(2.0 * online.lifetime, settings.MAX_RUNGS)
            rungs = np.append(rungs, top)[-settings.MAX_RUNGS :]
        elif best < top - settings.RUNGS_ABOVE:
            self.online, rungs = online.shallower(), rungs[:-1]
        else:
            return
        self.learners, self.mixture = _at_rungs(self.learners, self.mixture, rungs, n_rates)
        if self.sizes is not None:
            learners, mixture = _at_rungs(self.sizes.learners, self.sizes.mixture, rungs, 1)
            self.sizes = replace(self.sizes, learners=learners, mixture=mixture)
        self._make_group()


def _at_rungs(
    learners: list[AnyLearner], mixture: Mixture, rungs: Counts, n_rates: int
) -> tuple[list[AnyLearner], Mixture]:
    """Return the learners of some rungs, copies where a rung is repeated, and their mixture."""
    members = (rungs[:, None] * n_rates + np.arange(n_rates)).ravel()
    numbers = members.tolist()
    chosen = [
        copy.deepcopy(learners[j]) if j in numbers[:i] else learners[j]
        for i, j in enumerate(numbers)
    ]
    return chosen, mixture.of(members)
