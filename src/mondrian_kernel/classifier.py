"""Classification with the Mondrian kernel: widths learnt from the data, with probabilities."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import _settings as settings
from mondrian_kernel._estimator.shared_docs import shared_docs
from mondrian_kernel._estimator.targets import ClassEstimator
from mondrian_kernel._linear.losses import (
    LOSSES,
    check_classes,
    encode,
    probabilities,
    weigh_classes,
)
from mondrian_kernel._linear.minimise import minimise
from mondrian_kernel._model.class_fit import fit_classes
from mondrian_kernel._model.columns import Columns
from mondrian_kernel._model.fitted import FittedModel, TrainingRows
from mondrian_kernel._model.importance import findings_of_classes
from mondrian_kernel._model.kernel_fit import plan_sizes
from mondrian_kernel._model.link import log_odds
from mondrian_kernel._model.notes import draw_background, notes_on
from mondrian_kernel._model.ridge_model import fitted_operator
from mondrian_kernel._model.spread import upper_quantile
from mondrian_kernel._online.learners import Filter
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._path.checks import fixed_order, join_equal, used_rows
from mondrian_kernel._path.choose import cells_of_trees, choose_loss_width, enough_trees
from mondrian_kernel._path.driver import Stages, Verbose
from mondrian_kernel._path.result import LifetimePath
from mondrian_kernel._trees.checks import all_or_nothing, check_ranges, check_shares, draw_seed
from mondrian_kernel._trees.levels import Levels, grow_trees
from mondrian_kernel._typing import FloatArray


def _has_probabilities(model: MondrianKernelClassifier) -> bool:
    if model.loss not in ("auto", "log_loss"):
        raise AttributeError(
            f"Scores of loss={model.loss!r} are not log-odds: predict_proba needs loss='auto' or "
            "'log_loss'. Or wrap the model in CalibratedClassifierCV."
        )
    return True


@shared_docs
class MondrianKernelClassifier(ClassifierMixin, ClassEstimator):
    r"""Kernel classification whose columns, widths and noise are learnt from the data.

    By default the log-odds F of the classes are those of a trend, logistic regression on some
    hundred landmarks, and of trees for the rest, as in :class:`MondrianKernelRegressor`.
    Probabilities are

    .. math:: p_k(x) \propto \exp(a F_k(x) + b_k)

    with the factor a and the shifts b fitted to rows that were held out. With another ``loss`` or a
    number as ``lifetime`` the model is linear in the features of one Laplace kernel,

    .. math::
        f(x) = b + W^\top \phi_\lambda(x), \qquad
        \min_{W, b} \sum_i s_i \, \ell(y_i, f(x_i)) + \alpha \lVert W \rVert^2

    Parameters
    ----------
    lifetime : float, "auto" or "path", default="auto"
        Lifetime λ of the kernel :math:`\exp(-\lambda \lVert x - x' \rVert_1)` on the scaled
        columns: the inverse of its width. "auto" learns several lifetimes and their weights, unless
        ``alpha`` or ``loss`` is given. "path" chooses one lifetime by the loss on rows held out.
    alpha : float or "auto", default="auto"
        Penalty α > 0 beside a sum of losses, ``1 / (2 * C)`` of :class:`sklearn.svm.SVC` or
        :class:`sklearn.linear_model.LogisticRegression`; or "auto" to choose it.
    n_estimators : int or "auto", default="auto"
        Number of trees M. "auto" takes 200 for 5000 to 20 000 rows, and down to 100 for fewer or
        more rows. With one lifetime it takes 1000, or as many as 150 million triples of a row, a
        tree and a class (of more than two) and 1.2 GB of boxes allow, but at least 100. A stream
        without a fit has 100.
    loss : {"auto", "log_loss", "hinge", "squared"}, default="auto"
        Loss ℓ. "auto" is the logistic loss, with a trend and calibrated probabilities. All others
        use one lifetime: "log_loss" is logistic, with a softmax for many classes; "hinge" is that
        of a support vector machine; "squared" is the squared distance to ±1. The last two have
        one score for each class against the rest.
    class_weight : dict, "balanced" or None, default=None
        Factor of the weights of each class; None is 1. "balanced" gives all the same total.
    <scale>
    <max_cells>
    <forgetting>
    <random_state>

    Attributes
    ----------
    <attributes>
    feature_importances_, feature_importances_std_ : ndarrays of shape (n_features_in_,)
        How much the log loss on rows held out grows when a column is shuffled, and its standard
        deviation over shuffles. Only with ``lifetime="auto"``.
    classes_ : ndarray of shape (n_classes,)
        Classes, sorted.
    cell_weights_ : ndarray of shape (1, n_cells) or (n_classes, n_cells)
        Weights of the cells; of two classes, for the second.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts, not penalised.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianKernelClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = MondrianKernelClassifier(n_estimators=50, random_state=0).fit(X, y)
    >>> model.predict([[0.5, 0.5], [0.5, -0.5]])
    array(['same', 'other'], dtype='<U5')
    >>> model.predict_proba([[0.5, 0.5]]).shape
    (1, 2)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **ClassEstimator._parameter_constraints,
        "lifetime": [*ClassEstimator._parameter_constraints["lifetime"], StrOptions({"path"})],
        "loss": [StrOptions({"auto", *LOSSES})],
    }

    def __init__(
        self,
        lifetime: float | str = "auto",
        alpha: float | str = "auto",
        n_estimators: int | str = "auto",
        *,
        loss: str = "auto",
        class_weight: dict[Any, float] | str | None = None,
        scale: Any = "std",
        relevance: str = "auto",
        categorical_features: Any = "from_dtype",
        max_cells: int | None = None,
        forgetting: float | str | None = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.loss = loss
        self.class_weight = class_weight
        self.scale = scale
        self.relevance = relevance
        self.categorical_features = categorical_features
        self.max_cells = max_cells
        self.forgetting = forgetting
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> MondrianKernelClassifier:
        """Choose the width and fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, finite, or a data frame, also with gaps: see :class:`TableEncoder`.
        y : array-like of shape (n_samples,)
            Classes, numbers or strings.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights; a row of weight 2 counts as two, one of weight 0 is left out.

        Returns
        -------
        self : MondrianKernelClassifier
            The fitted model.
        """
        rows, targets, weight = self._check_fit(X, y, sample_weight)
        classes, labels = check_classes(targets)
        seed = draw_seed(self.random_state)
        learnt = self.lifetime == self.alpha == self.loss == "auto"
        if learnt:
            plan_sizes(rows.shape, self.n_estimators, self.max_cells)  # refuses too large a fit
        stages = Stages(self.verbose if learnt else 0, 6)
        tell, one_hot = stages.teller("learning columns"), np.eye(classes.size)[labels]
        metric = self._learn_columns(rows, one_hot, weight, seed, tell)
        if self.class_weight is not None:
            weight = weigh_classes(self.class_weight, classes, labels, weight)
        path = None
        stages.done("columns")
        if learnt:
            order, weight = fixed_order(rows, labels[:, None], weight)
            index = used_rows(sample_weight, labels.size)[order]
            rows, labels = rows[order], labels[order]
            fit = fit_classes(
                rows,
                labels,
                classes.size,
                weight,
                seed,
                metric,
                n_estimators=self.n_estimators,
                max_cells=self.max_cells,
                n_jobs=self.n_jobs,
                stages=stages,
            )
            model = fit.model
            found = findings_of_classes(fit, rows, labels, self._column_of_output(), self.n_jobs)
            stages.done("importances of the columns")
            if fit.rows.size:
                own = None if weight is None else weight[fit.rows]
                found["background"] = draw_background(
                    rows[fit.rows], fit.predictions, own, metric.columns, seed
                )
            notes = notes_on(rows, labels[:, None], weight, metric.columns, seed, index, **found)
        else:
            notes = notes_on(rows, labels[:, None], weight, metric.columns, seed)
            if weight is None:
                weight = np.ones(labels.size)
            model, path = self._fit_loss(rows, labels, classes.size, weight, seed, metric.columns)
        self._set_fitted(model, path, notes, stages.seconds)
        self.classes_ = classes
        return self

    def _fit_loss(
        self,
        rows: FloatArray,
        labels: NDArray[np.intp],
        n_classes: int,
        weight: FloatArray,
        seed: int,
        columns: Columns,
    ) -> tuple[FittedModel, LifetimePath | None]:
        """Return a linear model of one lifetime, and the path that it was chosen on."""
        loss, shape = self._loss, rows.shape
        rows = columns(rows)
        check_ranges(rows)
        # Equal rows must not be both fitted and held out; and a row of weight 2 is two rows.
        first, weight = join_equal(rows, labels[:, None], weight)
        rows, labels = rows[first], labels[first]
        lifetime, alpha, path = choose_loss_width(
            rows, labels, n_classes, loss, weight, seed, self._wanted()
        )
        n_trees = enough_trees(
            self.n_estimators,
            shape,
            self.max_cells,
            partial(cells_of_trees, rows, lifetime, seed),
            n_classes,
        )
        trees, leaf = grow_trees(rows, lifetime, n_trees, seed, self.max_cells, self.n_jobs)
        levels = Levels.of(trees, np.array([trees.lifetime]))
        known = TrainingRows(leaf, encode(labels, n_classes, loss), weight)
        # The weights of the rows belong to the losses, not to the features.
        operator = fitted_operator(
            trees, levels, known, self.n_jobs, points=rows, centre=False, weighted=False
        )
        fit = minimise(
            operator, known.Y, loss, alpha, sample_weight=weight, tol=settings.CLASSIFIER_TOL
        )
        model = FittedModel(trees, levels, fit.W, fit.b, columns, float(alpha), seed, np.empty(0))
        return model, path

    @property
    def _loss(self) -> str:
        """Loss of the linear model, where it is not given."""
        return "log_loss" if self.loss == "auto" else self.loss

    def _coded(self, labels: NDArray[np.intp], n_classes: int) -> FloatArray:
        return encode(labels, n_classes, "log_loss" if self._continues_odds else self._stream_loss)

    def _add_class(self) -> None:
        """Let a stream of the classes 0, 1, ... continue with one more, of which no row was."""
        assert isinstance(self._stream, Stream)
        self._stream, self._model = self._stream.with_class(), None
        self.classes_ = np.arange(self.classes_.size + 1)

    def _learner(self, n_outputs: int, alpha: float) -> Filter:
        return Filter(n_outputs, self._stream_loss, alpha)

    @property
    def _continues_odds(self) -> bool:
        """Whether a stream goes on from log-odds of a fit that has learnt its widths."""
        if not hasattr(self, "_model"):
            return False
        basis = self._fitted() if self._stream is None else self._fixed
        return basis is not None and basis.link is not None

    @property
    def _stream_loss(self) -> str:
        """Loss that a stream follows; log-odds of a fit go on by steps of Newton's method."""
        return "squared" if self._continues_odds else self._loss

    @property
    def intercept_(self) -> FloatArray:
        """Intercepts, not penalised."""
        return self._fitted().intercept

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores of rows, the higher the likelier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Scores; of two classes, of the second.
        """
        F = self._class_scores(self._check_new(X))
        return self._shaped(F)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of rows; only with loss "auto" or "log_loss".

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``. Far from the data they go to those of the
            intercept alone.
        """
        return probabilities(self._class_scores(self._check_new(X)))

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return a set of likely classes for each row.

        A class is in the set if its probability is at least a threshold. The true classes of the
        share ``coverage`` of the rows held out reach this threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Share of new rows whose class is to be in the set, between 0 and 1.

        Returns
        -------
        member : ndarray of bool, of shape (n_samples, n_classes)
            Whether a class is in the set, in the order of ``classes_``. The likeliest class always
            is.
        """
        check_is_fitted(self)
        (share,) = check_shares([coverage], "coverage")
        calibration = self._fitted().calibration
        if calibration is None:
            raise ValueError('predict_set needs rows that were held out: fit with lifetime="auto".')
        P = self.predict_proba(X)
        own, weight = calibration.T
        unlikely = upper_quantile(1.0 - own[:, None], weight, float(share))
        member: NDArray[np.bool_] = unlikely >= 1.0 - P
        member[np.arange(P.shape[0]), P.argmax(axis=1)] = True
        return member

    def check(self) -> None:
        """Raise ValueError unless the fitted parts belong together."""
        super().check()
        self._check_scores(1 if self.classes_.size == 2 else self.classes_.size)

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        S = self._scores_of(rows)
        basis = self._fitted() if self._stream is None else self._fixed
        link = None if basis is None else basis.link
        return S if link is None else log_odds(S, link)

    def _outputs(self, rows: FloatArray) -> FloatArray:
        F = self._class_scores(rows)
        return probabilities(F) if hasattr(self, "predict_proba") else F
