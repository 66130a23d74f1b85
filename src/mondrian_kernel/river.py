"""The models as estimators of river: rows are dicts, learnt one by one or as data frames.

A row is a sparse vector, as in river's linear models and nearest neighbours: a column that it does
not name is 0. So a column may appear at any time. All rows before it are 0 there, and trees do not
change by a column of zeros. Predictions leave out columns that no row was learnt with.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mondrian_kernel import classifier, features, regressor
from mondrian_kernel._settings import ANOMALY_LIFETIME, LARGEST_NUMBER, STREAM_TREES
from mondrian_kernel._typing import FloatArray

try:
    from river import base, conf
except ImportError as error:
    raise ImportError(
        "mondrian_kernel.river needs river. Install the extra: pip install "
        "'mondrian-kernel[river]'."
    ) from error

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MondrianAnomaly",
    "MondrianFeatures",
    "MondrianKernelClassifier",
    "MondrianKernelRegressor",
]

Row = dict[Hashable, Any]


class _Columns(base.Estimator):
    """What all classes share: a model of ours, and the names of its columns."""

    _model: Any

    def __init__(self) -> None:
        self._names: dict[Hashable, None] = {}  # in the order of the columns

    @property
    def _is_empty(self) -> bool:
        return not self._model.__sklearn_is_fitted__()

    def _row(self, x: Row) -> FloatArray:
        """Return a row to predict, (1, D)."""
        return _numbers([[x.get(name, 0.0) for name in self._names]], self._names)

    def _rows(self, X: pd.DataFrame) -> FloatArray:
        """Return rows to predict, (n, D)."""
        known = X.reindex(columns=list(self._names), fill_value=0.0)
        return _numbers(known.to_numpy(), self._names)

    def _row_to_learn(self, x: Row) -> FloatArray:
        if self._is_empty or not x.keys() <= self._names.keys():
            _numbers([list(x.values())], x)
            self._add_columns(x)
        return self._row(x)

    def _rows_to_learn(self, X: pd.DataFrame) -> FloatArray:
        if self._is_empty or not self._names.keys() >= set(X.columns):
            _numbers(X.to_numpy(), X.columns)
            self._add_columns(X.columns)
        return self._rows(X)

    def _add_columns(self, names: Iterable[Hashable]) -> None:
        """Let the model have columns for names that are new, sorted: their order means nothing."""
        new = sorted((name for name in names if name not in self._names), key=repr)
        if not self._is_empty:
            self._model._add_columns(len(new))
        self._names.update(dict.fromkeys(new))
        if not self._names:
            raise ValueError("The first row has no columns: there is nothing to learn from.")


def _numbers(table: Any, names: Iterable[Hashable]) -> FloatArray:
    """Return rows as numbers, or raise ValueError with the name of a column that has others."""
    try:
        rows = np.array(table, dtype=np.float64, order="C")
        if rows.size == 0 or np.abs(rows).max() <= LARGEST_NUMBER:
            return rows
    except (TypeError, ValueError):
        pass
    for name, column in zip(names, zip(*table, strict=True), strict=True):
        for value in column:
            try:
                is_number = abs(float(value)) <= LARGEST_NUMBER
            except (TypeError, ValueError):
                is_number = False
            if not is_number:
                raise ValueError(
                    f"{name!r} is {value!r}, not a finite number below {LARGEST_NUMBER:g}. Put "
                    "preprocessing.OneHotEncoder before the model for words, and "
                    "preprocessing.StatImputer for gaps; or leave the name out, which means 0."
                )
    raise ValueError("The rows are not all of one length.")


class _GrowingTrees(_Columns):
    """What transformer and detector share."""

    def _extend(self, row: FloatArray) -> None:
        if self._is_empty:
            self._model.partial_fit(row)
        else:
            self._model._learn(row)  # without scikit-learn's checks, which take longer


class MondrianFeatures(_GrowingTrees, base.MiniBatchTransformer):
    r"""Sparse random features of the Laplace kernel, which grow with the rows.

    The features of :class:`mondrian_kernel.MondrianFeatures`: a row has one non-zero feature in
    each tree. A linear model on them is a kernel machine.

    Parameters
    ----------
    lifetime : float, default=1.0
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)`.
    n_estimators : int, default=100
        Number of trees.
    max_cells : int or None, default=None
        Bound on the number of cells, which are the features. Set it for streams without an end.
    seed : int or None, default=None
        Seed of the trees.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from mondrian_kernel.river import MondrianFeatures
    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | MondrianFeatures(lifetime=0.3, n_estimators=20, seed=1)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> accuracy = metrics.Accuracy()
    >>> evaluate.progressive_val_score(datasets.Phishing().take(300), model, accuracy).get() > 0.7
    True
    """

    def __init__(
        self,
        lifetime: float = 1.0,
        n_estimators: int = STREAM_TREES,
        max_cells: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.n_estimators = n_estimators
        self.max_cells = max_cells
        self.seed = seed
        self._model = features.MondrianFeatures(
            lifetime, n_estimators, max_cells=max_cells, random_state=seed
        )

    def learn_one(self, x: Row) -> None:
        """Extend the trees by a row."""
        self._extend(self._row_to_learn(x))

    def transform_one(self, x: Row) -> dict[Hashable, float]:
        """Return the features of a row that are not 0, by the numbers of their cells."""
        if self._is_empty:
            return {}
        model = self._model
        node, log_stay = model.trees_.walk(self._row(x), model.lifetime_)
        cells = model.levels_.column[0, node[0]]
        values = np.exp(log_stay[0]) / math.sqrt(cells.size)
        return dict(zip(cells.tolist(), values.tolist(), strict=True))

    def learn_many(self, X: pd.DataFrame) -> None:
        """Extend the trees by the rows of a data frame."""
        self._model.partial_fit(self._rows_to_learn(X))

    def transform_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return all features of rows, as sparse columns."""
        import pandas as pd

        if self._is_empty:
            return pd.DataFrame(index=X.index)
        Phi = self._model.transform(self._rows(X))
        return pd.DataFrame.sparse.from_spmatrix(Phi, index=X.index)


class MondrianAnomaly(_GrowingTrees, base.AnomalyDetector):
    r"""Anomaly score from how full the cells of a row are, in trees that grow with the rows.

    .. math::
        -\frac1M \sum_m \ln \frac{p_m(x) \, n_m(x)}{N}

    It is the negative of :meth:`mondrian_kernel.MondrianFeatures.score_samples`: 0 where all rows
    so far are in the same cells as x, ln N where x is one row alone, and more outside of all cells.
    Columns should be on one scale, as from river's ``StandardScaler``.

    Parameters
    ----------
    lifetime : float or None, default=None
        Lifetime λ of the trees, longer for smaller cells. None is 4 divided by the number of
        columns of the first row, which suits columns of standard deviation 1.
    n_estimators : int, default=100
        Number of trees.
    max_cells : int or None, default=None
        Bound on the number of cells. Set it for streams without an end.
    seed : int or None, default=None
        Seed of the trees.

    Examples
    --------
    >>> from random import Random
    >>> from mondrian_kernel.river import MondrianAnomaly
    >>> model, draw = MondrianAnomaly(n_estimators=20, seed=1), Random(1)
    >>> for _ in range(200):
    ...     model.learn_one({"a": draw.gauss(0.0, 1.0), "b": draw.gauss(0.0, 1.0)})
    >>> model.score_one({"a": 0.0, "b": 0.5}) < model.score_one({"a": 3.0, "b": -4.0})
    True
    """

    def __init__(
        self,
        lifetime: float | None = None,
        n_estimators: int = STREAM_TREES,
        max_cells: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.n_estimators = n_estimators
        self.max_cells = max_cells
        self.seed = seed
        self._model = features.MondrianFeatures(
            1.0 if lifetime is None else lifetime,
            n_estimators,
            max_cells=max_cells,
            random_state=seed,
        )

    def learn_one(self, x: Row) -> None:
        """Extend the trees by a row."""
        row = self._row_to_learn(x)
        if self._is_empty and self.lifetime is None:
            self._model.set_params(lifetime=ANOMALY_LIFETIME / row.shape[1])
        self._extend(row)

    def score_one(self, x: Row) -> float:
        """Return the anomaly score of a row, the higher, the more abnormal; 0 without rows."""
        if self._is_empty:
            return 0.0
        return -float(self._model._log_shares(self._row(x))[0])


class MondrianKernelRegressor(_Columns, base.MiniBatchRegressor):
    r"""Kernel regression in one pass, with the width chosen on the way and intervals.

    Rows are learnt by :meth:`mondrian_kernel.MondrianKernelRegressor.partial_fit`.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)` on scaled columns,
        or "auto" to learn it. With a number, the first 4000 rows are fitted exactly.
    alpha : float or "auto", default="auto"
        Penalty. "auto" is 0.1.
    n_estimators : int, default=100
        Number of trees.
    max_cells : int or None, default=None
        Bound on the number of cells. Set it for streams without an end.
    seed : int or None, default=None
        Seed of the trees.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from mondrian_kernel.river import MondrianKernelRegressor
    >>> model = MondrianKernelRegressor(n_estimators=20, seed=1)
    >>> mae = metrics.MAE()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval().take(300), model, mae).get() < 1
    True
    >>> x, y = next(iter(datasets.TrumpApproval()))
    >>> interval = model.predict_interval_one(x, coverage=0.8)
    >>> interval.lower < interval.upper
    True
    """

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int = STREAM_TREES,
        max_cells: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.max_cells = max_cells
        self.seed = seed
        self._model = regressor.MondrianKernelRegressor(
            lifetime, alpha, n_estimators, max_cells=max_cells, random_state=seed
        )

    def learn_one(self, x: Row, y: float) -> None:
        """Learn a row and its target."""
        target = _numbers([[y]], ["y"])[0]
        self._model.partial_fit(self._row_to_learn(x), target)

    def predict_one(self, x: Row) -> float:
        """Predict the target of a row; 0 before any was learnt."""
        return 0.0 if self._is_empty else float(self._model.model_.scores(self._row(x), None)[0, 0])

    def predict_interval_one(self, x: Row, coverage: float = 0.9) -> conf.Interval:
        """Return an interval for the target of a row, from the errors of the last 1024 rows.

        Parameters
        ----------
        x : dict
            Row.
        coverage : float, default=0.9
            Share of targets to be inside, between 0 and 1.

        Returns
        -------
        interval : river.conf.Interval
            With ``lower`` and ``upper``, infinite before any row was learnt.
        """
        if self._is_empty:
            return conf.Interval(-math.inf, math.inf)
        lower, upper = self._model.predict_interval(self._row(x), coverage)[0].tolist()
        return conf.Interval(lower, upper)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame one by one, as :meth:`learn_one` does.

        For batches learnt at once, which is faster, use ``partial_fit`` of
        :class:`mondrian_kernel.MondrianKernelRegressor`.
        """
        targets = _numbers(np.asarray(y)[:, None], ["y"])[:, 0]
        rows = self._rows_to_learn(X)
        for i in range(len(rows)):
            self._model.partial_fit(rows[i : i + 1], targets[i : i + 1])

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predict the targets of rows."""
        import pandas as pd

        y = np.zeros(len(X)) if self._is_empty else self._model.predict(self._rows(X))
        return pd.Series(y, index=X.index)


class MondrianKernelClassifier(_Columns, base.MiniBatchClassifier):
    r"""Kernel classification in one pass, with the width chosen on the way.

    Rows are learnt by :meth:`mondrian_kernel.MondrianKernelClassifier.partial_fit`. Classes need
    not be known in advance: a further one starts as rare as it was so far.

    Parameters
    ----------
    lifetime : float or "auto", default="auto"
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)` on scaled columns,
        or "auto" to learn it.
    alpha : float or "auto", default="auto"
        Penalty. "auto" is 0.1.
    n_estimators : int, default=100
        Number of trees.
    max_cells : int or None, default=None
        Bound on the number of cells. Set it for streams without an end.
    seed : int or None, default=None
        Seed of the trees.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from mondrian_kernel.river import MondrianKernelClassifier
    >>> model = MondrianKernelClassifier(n_estimators=20, seed=1)
    >>> accuracy = metrics.Accuracy()
    >>> evaluate.progressive_val_score(datasets.Phishing().take(300), model, accuracy).get() > 0.8
    True
    """

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int = STREAM_TREES,
        max_cells: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.max_cells = max_cells
        self.seed = seed
        self._model = classifier.MondrianKernelClassifier(
            lifetime, alpha, n_estimators, max_cells=max_cells, random_state=seed
        )
        self._classes: dict[Hashable, int] = {}  # in order of appearance

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Row, y: Hashable) -> None:
        """Learn a row and its class."""
        self._learn(self._row_to_learn(x), y)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame one by one, as :meth:`learn_one` does."""
        rows = self._rows_to_learn(X)
        for i, label in enumerate(y.tolist()):
            self._learn(rows[i : i + 1], label)

    def _learn(self, row: FloatArray, label: Hashable) -> None:
        if label not in self._classes:
            # Two classes are there from the beginning, although no row may be of them yet.
            if len(self._classes) >= 2:
                self._model._add_class()
            self._classes[label] = len(self._classes)
        classes = np.arange(max(2, len(self._classes)))
        self._model.partial_fit(row, np.array([self._classes[label]]), classes=classes)

    def predict_proba_one(self, x: Row, **kwargs: Any) -> dict[Hashable, float]:
        """Return the probabilities of all classes that have been learnt."""
        if self._is_empty:
            return {}
        return dict(zip(self._classes, self._shares(self._row(x))[0].tolist(), strict=True))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probabilities of all classes that have been learnt, a column for each."""
        import pandas as pd

        P = None if self._is_empty else self._shares(self._rows(X))
        return pd.DataFrame(P, index=X.index, columns=pd.Index(list(self._classes)))

    def _shares(self, rows: FloatArray) -> FloatArray:
        P: FloatArray = self._model.predict_proba(rows)
        return P if len(self._classes) > 1 else np.ones((rows.shape[0], 1))
