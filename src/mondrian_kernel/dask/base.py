"""What the estimators on Dask share: how rows come, how trees grow, how predictions stay lazy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from inspect import isfunction, signature
from numbers import Real
from typing import Any, Self, TypeVar

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel._estimator.base import MondrianEstimator
from mondrian_kernel._model.columns import Columns, is_learnt
from mondrian_kernel._model.fitted import FittedModel
from mondrian_kernel._model.learn_columns import learn_columns
from mondrian_kernel._path.choose import Choice, enough_trees, sample_rows
from mondrian_kernel._trees.checks import check_budget, check_penalty, draw_seed
from mondrian_kernel._trees.levels import Levels, run_growth
from mondrian_kernel._typing import FloatArray
from mondrian_kernel.dask.blocks import Blocks
from mondrian_kernel.dask.cells import CellBlocks
from mondrian_kernel.dask.growth import BlockGrowth, cells_on_blocks
from mondrian_kernel.dask.inputs import (
    CollectionParts,
    beside,
    delayed_blocks,
    is_collection,
    known_rows,
    on_client,
    row_array,
)

Method = TypeVar("Method", bound=Callable[..., Any])

_ROWS = """Rows, finite. They are read once for each level of the trees: ``persist`` them if they
            fit into the memory of the workers."""


def docs_of(local: Callable[..., Any]) -> Callable[[Method], Method]:
    """Give a method the docstring of a local one, for collections."""
    text = local.__doc__ or ""
    if local.__name__.startswith("fit"):
        text = re.sub("Rows, finite.*[.]", _ROWS, text, count=1)
        text = text.replace(" : array-like of", " : dask array or dataframe of")
    elif "X : array-like" in text:
        text = text.replace("\n\n", "\n\n        Lazy where X is a dask collection.\n\n", 1)
        text = text.replace("X : array-like of", "X : dask collection or array-like of")
    for kind in "ndarray", "csr_matrix":
        text = text.replace(f" : {kind} of", f" : dask array or {kind} of")

    def write(method: Method) -> Method:
        method.__doc__ = text
        return method

    return write


def not_on_dask(local: Callable[..., Any]) -> Any:
    """Hide a method of a local estimator, which needs its rows in one place."""

    def refuse(model: object) -> bool:
        raise AttributeError(
            f"{type(model).__name__} has no {local.__name__}, which needs all rows in one place. "
            "Use the estimator without Dask."
        )

    return available_if(refuse)(local)


def if_learnt(method: Callable[..., Any]) -> Any:
    """Offer a method only with ``lifetime="auto"``, which holds rows out."""

    def check(model: Any) -> bool:
        if model.lifetime != "auto":
            raise AttributeError(
                f'{type(model).__name__} has {method.__name__} only with lifetime="auto", which '
                "measures errors of rows held out."
            )
        return True

    return available_if(check)(method)


def lazy(local: Callable[..., Any], width: Callable[..., int | None], dtype: Any = float) -> Any:
    """Return a method of a local estimator that is lazy where X is a dask collection.

    ``width`` of the model and the options is the number of columns of the answer, None for a
    vector; ``dtype`` may be a function of the model.
    """

    @docs_of(local)
    @wraps(local)
    def method(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_collection(X):
            return local(self, X, *args, **options)
        check_is_fitted(self)
        options = signature(local).bind_partial(self, X, *args, **options).arguments
        own = {name: value for name, value in options.items() if name not in ("self", "X")}
        kind = dtype(self) if isfunction(dtype) else dtype
        return self._lazily(local.__name__, X, width(self, **own), kind, **own)

    return method


class BlockEstimator(MondrianEstimator):
    """Base of regressor and classifier on Dask. They hold the same fitted record as without it."""

    _parameter_constraints: dict[str, list[Any]] = {
        "lifetime": [Interval(Real, 0, None, closed="left"), StrOptions({"path", "auto"})],
        "keep_cells": ["boolean", StrOptions({"auto"})],
    }
    categorical_features = "from_dtype"
    keep_cells: bool | str
    # What makes targets of blocks of y, given blocks and the number of dimensions of y; a choice as
    # the local estimator makes it, on rows that are fetched; whether a square matrix of so many
    # features is summed up; the record with weights.
    _encoding: Callable[[Blocks, int], Any]
    _choose: Callable[[Blocks, Any, int], Choice]
    _makes_matrix: Callable[[int], bool]
    _solved: Callable[[FittedModel, CellBlocks, Any], FittedModel]

    def _fit_blocks(
        self, local: Callable[..., Any], X: Any, y: Any, sample_weight: Any, *, numeric: bool
    ) -> None:
        """Fit on blocks; ``lifetime="auto"`` by a local ``fit`` that reads them one at a time."""
        if self.lifetime == "auto":
            for name in "alpha", "loss":
                value = getattr(self, name, "auto")
                if value != "auto":
                    raise ValueError(
                        f'lifetime="auto" learns without {name}={value!r}: leave {name}="auto", or '
                        'choose one width with lifetime="path".'
                    )
            if not is_collection(X):
                row_array(X)  # refuses it
            local(self, CollectionParts(X), on_client(y), on_client(sample_weight))
            return
        check_budget(self.max_cells, self.n_estimators)
        rows, names = row_array(X)
        targets = beside(y, rows, "y")
        blocks = Blocks(rows, targets, sample_weight, numeric=numeric)
        blocks.check_numbers()
        if not isinstance(self.alpha, str):
            check_penalty(self.alpha, blocks.summary.rows.weight)
        seed, encode = draw_seed(self.random_state), self._encoding(blocks, targets.ndim)
        columns = self._learn_scales(blocks, seed, encode.columns)
        blocks = blocks.scaled(columns.scale)
        lifetime, alpha, path = self.lifetime, self.alpha, None
        if isinstance(lifetime, str) or isinstance(alpha, str):
            lifetime, alpha, path = self._choose(blocks, encode, seed)
        n_trees = enough_trees(
            self.n_estimators,
            (blocks.n_rows, blocks.n_columns),
            self.max_cells,
            partial(cells_on_blocks, blocks, float(lifetime), seed),
            encode.n_classes,
        )
        growth = BlockGrowth(blocks, n_trees, seed)
        trees, _ = run_growth(growth, float(lifetime), self.max_cells)
        levels, none = Levels.of(trees, np.array([trees.lifetime])), np.empty(0)
        blank = FittedModel(trees, levels, none, none, columns, float(alpha), seed, none)
        keep = False if self._makes_matrix(levels.n_features) else self.keep_cells
        cells = CellBlocks(blocks, trees, levels, encode, keep=keep)
        self._set_fitted(self._solved(blank, cells, encode), path)
        self.n_features_in_ = blocks.n_columns
        keep_names(self, names)

    def _learn_scales(
        self, blocks: Blocks, seed: int, columns: Callable[[NDArray[Any]], FloatArray]
    ) -> Columns:
        """Return scaled columns, with relevances learnt on fetched rows.

        ``columns`` makes targets (n, T) of y.
        """
        scale = blocks.column_scale(self.scale)
        if not is_learnt(self.relevance, self.lifetime, self.scale):
            return Columns.scaled(scale)
        X, y, weight = blocks.take(sample_rows(blocks.n_rows, seed))
        assert y is not None
        no_ranks = np.zeros(scale.size, bool)
        found = learn_columns(X, columns(y), unless_one(weight), seed, scale=scale, ranked=no_ranks)
        relevance = found.columns.relevance
        return Columns.scaled(scale / relevance, relevance)

    def _for_workers(self) -> Self:
        """Return a copy that predicts arrays, without anything large that this does not need."""
        model = self._copy_with(replace(self._fitted(), rows=None))
        model.path_ = model._notes = model.n_jobs = None  # workers are many: one thread each
        if model.encoder_ is None:  # blocks have no names; those of the collection are checked
            keep_names(model, None)
        return model

    def _lazily(
        self, method: str, X: Any, n_columns: int | None, dtype: Any = float, **options: Any
    ) -> da.Array:
        """Lazy ``method`` of the rows of a collection, block by block."""
        meta, model = np.empty((0,) if n_columns is None else (0, 0), dtype), self._for_workers()
        if model.encoder_ is None:
            return map_rows(method, model, known_rows(self, X), n_columns, meta, **options)
        return map_tables(method, model, X, n_columns, meta, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        takes_tables = self.lifetime == "auto"
        tags.input_tags.allow_nan = tags.input_tags.categorical = takes_tables
        return tags


def map_rows(
    method: str, model: Any, rows: da.Array, n_columns: int | None, meta: Any, **options: Any
) -> da.Array:
    """Lazy ``model.method(block, **options)`` for all blocks of rows (N, D), of all columns each.

    The model goes to every worker once. The result has ``n_columns``, or one dimension where that
    is None; ``meta`` is an empty one.
    """
    call = {"method": method, "model": dask.delayed(model, traverse=False), "options": options}
    shape = {"drop_axis": 1} if n_columns is None else {"chunks": (rows.chunks[0], (n_columns,))}
    return rows.map_blocks(_apply, **call, meta=meta, **shape)


def map_tables(
    method: str, model: Any, X: Any, n_columns: int | None, meta: Any, **options: Any
) -> da.Array:
    """Return the same for the parts of a table, with categories and gaps."""
    sent, call = dask.delayed(model, traverse=False), dask.delayed(_apply_to_table, pure=False)
    shape = (np.nan,) if n_columns is None else (np.nan, n_columns)
    parts = [call(part, method, sent, options, meta) for part in delayed_blocks(X)]
    return da.concatenate([da.from_delayed(part, shape, meta=meta) for part in parts])


def _apply(block: Any, method: str, model: Any, options: dict[str, Any]) -> Any:
    X = np.ascontiguousarray(block, dtype=np.float64)
    if X.shape[0] == 0:  # partitions of a dataframe may be empty
        return getattr(model, method)(np.zeros((1, X.shape[1])), **options)[:0]
    return getattr(model, method)(X, **options)


def _apply_to_table(
    part: Any, method: str, model: Any, options: dict[str, Any], meta: NDArray[Any]
) -> Any:
    return getattr(model, method)(part, **options) if len(part) else meta


def unless_one(weight: FloatArray) -> FloatArray | None:
    """Return weights, or None where all are 1."""
    return None if (weight == 1.0).all() else weight


def keep_names(estimator: Any, names: NDArray[np.object_] | None) -> None:
    """Remember the names of columns, or forget those of an earlier fit."""
    if names is not None:
        estimator.feature_names_in_ = names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
