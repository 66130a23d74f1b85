"""The models as estimators of river: rows are dicts, learnt one by one or as data frames."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mondrian_kernel import _settings as settings
from mondrian_kernel import classifier, features, regressor
from mondrian_kernel._estimator.shared_docs import shared_docs
from mondrian_kernel._linear.losses import encode, probabilities
from mondrian_kernel._tables.columns import refuse_missing_targets
from mondrian_kernel._tables.named_rows import NamedColumns, Row, numbers
from mondrian_kernel._trees.checks import check_shares
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


@lru_cache(maxsize=64)
def _target_of(number: int, n_classes: int) -> FloatArray:
    """Return the target (1, K) of a row of a class, which nobody changes."""
    return encode(np.array([number]), n_classes, "log_loss")


class _RiverModel(NamedColumns):
    """What all classes share: parameters, and a model of ours with the same ones."""

    _kind: ClassVar[Any]

    def _begin(self, seed: int | None, **params: Any) -> None:
        """Keep the parameters, and make the model."""
        super().__init__()
        for name, value in params.items():
            setattr(self, name, value)
        self.seed, self._model = seed, self._kind(**params, random_state=seed)


class _GrowingTrees(_RiverModel):
    """What transformer and detector share."""

    _kind = features.MondrianFeatures

    def _extend(self, row: FloatArray) -> None:
        if self._is_empty:
            self._model.partial_fit(row)
        else:
            self._model._learn(row)  # without scikit-learn's checks, which take longer


@shared_docs
class MondrianFeatures(_GrowingTrees, base.MiniBatchTransformer):
    r"""Sparse random features of the Laplace kernel, which grow with the rows.

    The features of :class:`mondrian_kernel.MondrianFeatures`: a row has one non-zero feature in
    each tree. A linear model on them is a kernel machine.

    Parameters
    ----------
    lifetime : float, default=1.0
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)`.
    <river_trees>

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
        n_estimators: int = settings.STREAM_TREES,
        max_cells: int | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(seed, lifetime=lifetime, n_estimators=n_estimators, max_cells=max_cells)

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


@shared_docs
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
    <river_trees>

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
        n_estimators: int = settings.STREAM_TREES,
        max_cells: int | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(seed, lifetime=lifetime, n_estimators=n_estimators, max_cells=max_cells)

    def learn_one(self, x: Row) -> None:
        """Extend the trees by a row."""
        row = self._row_to_learn(x)
        if self._is_empty and self._model.lifetime is None:
            self._model.set_params(lifetime=settings.ANOMALY_LIFETIME / row.shape[1])
        self._extend(row)

    def score_one(self, x: Row) -> float:
        """Return the anomaly score of a row: higher is more abnormal, 0 without rows."""
        if self._is_empty:
            return 0.0
        model, row = self._model, self._row(x)  # without scikit-learn's checks, which take longer
        return -float(model.levels_.log_shares(model.trees_, row, model.n_jobs)[0])


class _Predictor(_RiverModel):
    """What regressor and classifier share."""

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int = settings.STREAM_TREES,
        max_cells: int | None = None,
        forgetting: float | str | None = "auto",
        seed: int | None = None,
    ) -> None:
        size = {"n_estimators": n_estimators, "max_cells": max_cells}
        self._begin(seed, lifetime=lifetime, alpha=alpha, forgetting=forgetting, **size)
        self._classes: dict[Hashable, int] = {}  # of a classifier, in order of appearance

    def learn_one(self, x: Row, y: Any) -> None:
        """Learn a row and its target or class."""
        target = self._target(y)
        self._learn(self._row_to_learn(x), target)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame one by one, as :meth:`learn_one` does.

        For batches learnt at once, which is faster, use ``partial_fit`` of the model of the same
        name in :mod:`mondrian_kernel`.
        """
        targets = [self._target(value) for value in y.tolist()]
        if len(targets) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(targets)}.")
        rows = self._rows_to_learn(X)
        for i, target in enumerate(targets):
            self._learn(rows[i : i + 1], target)

    def _target(self, y: Any) -> Any:
        """Return a target as :meth:`_learn` takes it, or raise ValueError."""
        return y

    def _learn(self, row: FloatArray, y: Any) -> None:
        """Learn a row, without scikit-learn's checks if it is not the first: they take longer."""
        raise NotImplementedError


@shared_docs
class MondrianKernelRegressor(_Predictor, base.MiniBatchRegressor):
    r"""Kernel regression in one pass, with the width chosen on the way and intervals.

    Rows are learnt by :meth:`mondrian_kernel.MondrianKernelRegressor.partial_fit`. With a number as
    ``lifetime``, the first 4000 rows are fitted exactly.

    Parameters
    ----------
    <river_predictor>
    <river_trees>

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

    _kind = regressor.MondrianKernelRegressor

    def _target(self, y: Any) -> FloatArray:
        return numbers([[y]], ["y"])

    def _learn(self, row: FloatArray, y: FloatArray) -> None:
        if self._is_empty:
            self._model.partial_fit(row, y[0])
        else:
            self._model._learn(row, y, None)

    def predict_one(self, x: Row) -> float:
        """Predict the target of a row; 0 before any was learnt."""
        return 0.0 if self._is_empty else float(self._model._scores_of(self._row(x))[0, 0])

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
        share = check_shares([coverage], "coverage")
        lower, upper = self._model.predict_interval(self._row(x), share)[0, 0].tolist()
        return conf.Interval(lower, upper)

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Predict the targets of rows."""
        import pandas as pd

        y = np.zeros(len(X)) if self._is_empty else self._model.predict(self._rows(X))
        return pd.Series(y, index=X.index)


@shared_docs
class MondrianKernelClassifier(_Predictor, base.MiniBatchClassifier):
    r"""Kernel classification in one pass, with the width chosen on the way.

    Rows are learnt by :meth:`mondrian_kernel.MondrianKernelClassifier.partial_fit`. Classes need
    not be known in advance. A new class starts with a low probability.

    Parameters
    ----------
    <river_predictor>
    <river_trees>

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from mondrian_kernel.river import MondrianKernelClassifier
    >>> model = MondrianKernelClassifier(n_estimators=20, seed=1)
    >>> accuracy = metrics.Accuracy()
    >>> evaluate.progressive_val_score(datasets.Phishing().take(300), model, accuracy).get() > 0.8
    True
    """

    _kind = classifier.MondrianKernelClassifier

    @property
    def _multiclass(self) -> bool:
        return True

    def _target(self, y: Any) -> Any:
        if y not in self._classes:
            refuse_missing_targets([y])
        return y

    def _learn(self, row: FloatArray, label: Hashable) -> None:
        if label not in self._classes:
            # Two classes are there from the beginning, although no row may be of them yet.
            if len(self._classes) >= 2:
                self._model._add_class()
            self._classes[label] = len(self._classes)
        n_classes, number = max(2, len(self._classes)), self._classes[label]
        if self._is_empty:
            self._model.partial_fit(row, np.array([number]), classes=np.arange(n_classes))
        else:
            self._model._learn(row, _target_of(number, n_classes), None)

    def predict_one(self, x: Row, **kwargs: Any) -> Hashable | None:
        """Predict the class of a row; None before any was learnt."""
        if self._is_empty:
            return None
        F = self._model._class_scores(self._row(x))
        number = int(F.item() > 0.0) if F.size == 1 else int(F.argmax())
        return tuple(self._classes)[number if len(self._classes) > 1 else 0]

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
        # Without scikit-learn's checks, which take longer.
        P: FloatArray = probabilities(self._model._class_scores(rows))
        return P if len(self._classes) > 1 else np.ones((rows.shape[0], 1))
