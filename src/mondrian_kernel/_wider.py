"""Streams that go on with a further column or class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import logsumexp

from mondrian_kernel._online.exact import ExactStream
from mondrian_kernel._online.learners import Filter
from mondrian_kernel._online.scaled_stream import Learner
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._typing import FloatArray

AnyStream = TypeVar("AnyStream", bound=Stream | ExactStream)


def with_columns(stream: AnyStream, n_more: int) -> AnyStream:
    """Return the stream with further columns, in which all rows so far are 0.

    No prediction changes. The scale of the new columns is 1, until that of all columns is measured
    again. The old stream must not be used any more.
    """

    def wide(rows: FloatArray) -> FloatArray:
        return np.hstack([rows, np.zeros((rows.shape[0], n_more))])

    state, online = stream.__getstate__(), stream.online.widened(n_more)
    state["trees"] = online.freeze(), online.seed, online.rungs, online.column, online.stop
    for name in ("scale", "relevance", "scale_rule"):
        if not isinstance(state[name], str):
            state[name] = np.append(state[name], np.ones(n_more))
    for name in ("kept", "last"):
        rows = state.get(name)
        if isinstance(rows, tuple):
            state[name] = wide(rows[0]), *rows[1:]
        elif rows is not None:
            state[name] = wide(rows)
    return _made_of(stream, state)


def with_class(stream: Stream) -> Stream:
    """Return a stream of the logistic loss with a further class, to which no row so far belongs.

    The odds of the other classes do not change. The old stream must not be used any more.
    """
    state = stream.__getstate__()
    state["learners"] = [_with_class(learner) for learner in stream.learners]
    if stream.start is not None:
        learners: list[Learner] = [_with_class(learner) for learner in stream.start.learners]
        state["start"] = replace(stream.start, learners=learners)
    for name in ("kept", "last"):
        if state[name] is not None:
            X, Y, weight = state[name]
            if Y.shape[1] == 1:
                Y = np.hstack([Y < 0, Y > 0]).astype(np.float64)
            state[name] = X, np.hstack([Y, np.zeros((Y.shape[0], 1))]), weight
    return _made_of(stream, state)


def _made_of(stream: AnyStream, state: dict[str, Any]) -> AnyStream:
    new = object.__new__(type(stream))
    new.__setstate__(state)
    return new


def _with_class(learner: Learner) -> Filter:
    assert isinstance(learner, Filter)
    W, b, n_rows = learner.W, learner.b, learner.n_rows
    if b.size == 1:  # the log-odds of two classes
        W, b = np.hstack([-0.5 * W, 0.5 * W]), np.append(-0.5 * b, 0.5 * b)
    # One row in n + 2 is of a class that n rows were not of.
    rare = logsumexp(b) - np.log1p(n_rows[0])
    n_outputs = b.size + 1
    return replace(
        learner,
        n_outputs=n_outputs,
        W=np.hstack([W, np.zeros((W.shape[0], 1))]),
        b=np.append(b, rare),
        offset=np.zeros(n_outputs),
    )
