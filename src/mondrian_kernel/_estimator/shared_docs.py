"""Texts that the docstrings of several estimators share."""

from __future__ import annotations

from typing import TypeVar

_DOCS = {
    "scale": """
    scale : "std", None or array-like of shape (n_features,), default="std"
        What every column is divided by: its standard deviation, nothing, or the given numbers. A
        Laplace kernel adds up the columns, so they should be on one scale. Two categories of a
        column have the distance 1, which "std" leaves as it is. A list may mix numbers and "std".
    relevance : {"auto", "learn", "equal"}, default="auto"
        How much each scaled column counts. It is learnt from some of the rows, or equal for all.
        "auto" learns it where ``lifetime`` is "auto" too and ``scale`` is not given as numbers.""",
    "max_cells": """
    max_cells : int or None, default=None
        Bound on the number of cells of all trees. None: no bound; in streams, a million.""",
    "forgetting": """
    forgetting : "auto", None or float, default="auto"
        How ``partial_fit`` forgets old rows. A number, at least 1, is a half-life: after so many
        rows a row counts half. None forgets nothing. "auto" learns from recent errors how much to
        forget. Exact updates forget nothing; a number turns them off.""",
    "random_state": """
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns are categories: those of text, truth values and category dtypes of a data
        frame; or a mask, indices or names; or none. See :class:`TableEncoder`.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees, and of the rows that are held out. None: another result at each fit.
    n_jobs : int or None, default=None
        Threads. None: all cores, or ``OMP_NUM_THREADS``. The result does not depend on it.
    verbose : int or callable, default=0
        0 prints nothing, 1 prints the progress. A function is called with the progress, as the
        ``callback`` of :func:`lifetime_path` is.""",
    "keep_cells": """
    keep_cells : bool or "auto", default="auto"
        Whether a fit without a matrix keeps the cells of all rows in the memory of the workers, M
        bytes a row or 2 M where a tree has more than 256 cells. If not, rows are read and go down
        the trees again at every step. By default they are kept where they take less than half of
        the free memory.
    random_state : int, RandomState instance or None, default=None
        Seed of the trees, and of the rows on which the width is chosen.
    n_jobs : int or None, default=None
        Threads of the client, for what it does itself: choose a width and, with
        ``lifetime="auto"``, fit. Tasks of workers have one thread each.
    verbose : int or callable, default=0
        As without Dask: progress of what the client does itself.""",
    "river_trees": """
    n_estimators : int, default=100
        Number of trees.
    max_cells : int or None, default=None
        Bound on the number of cells. None: no bound; for predictors, a million.
    seed : int or None, default=None
        Seed of the trees.""",
    "river_predictor": """
    lifetime : float or "auto", default="auto"
        Lifetime λ of the kernel :math:`\\exp(-\\lambda \\lVert x - x' \\rVert_1)` on scaled
        columns, or "auto" to learn it.
    alpha : float or "auto", default="auto"
        Penalty. "auto" is 0.1.
    forgetting : "auto", None or float, default="auto"
        Rows after which a row counts half; None forgets nothing, "auto" learns how much.""",
    "attributes": """
    model_ : FittedModel
        Everything that prediction needs, as one frozen record of arrays.
    lifetime_ : float
        Lifetime λ of the kernel. Of a mixture of widths, their weighted mean.
    lifetimes_, lifetime_weights_ : ndarrays of shape (n_lifetimes,)
        All lifetimes of the kernel and their weights.
    alpha_ : float
        Penalty of the fit.
    path_ : LifetimePath or None
        The path on which lifetime and penalty were chosen; None where both were given.
    features_ : MondrianFeatures
        The feature map, for scaled columns.
    encoder_ : TableEncoder or None
        What turned a table into numbers; None where the columns are numbers without gaps.
    relevance_ : ndarray of shape (n_features_in_,)
        How much each scaled column counts, 1 on average over the columns that the trees see. It is
        larger where the function changes faster along the column.
    scale_ : ndarray of shape (n_features_in_,)
        What the columns are divided by: their scale over their relevance.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the input columns, where ``X`` had any.""",
}

Estimator = TypeVar("Estimator", bound=type)


def shared_docs(cls: Estimator) -> Estimator:
    """Put the shared text where the docstring of a class says ``<name>``."""
    doc = cls.__doc__ or ""
    for name, text in _DOCS.items():
        doc = doc.replace(f"\n    <{name}>", text)
    cls.__doc__ = doc
    return cls
