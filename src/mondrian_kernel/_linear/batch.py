"""Minimise the regularised sum of losses to a stated tolerance, whatever the number of cells."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mondrian_kernel._linear.hinge import minimise_hinge
from mondrian_kernel._linear.loss_design import Design
from mondrian_kernel._linear.losses import check_loss
from mondrian_kernel._linear.newton import Minimum, Newton
from mondrian_kernel._typing import FloatArray, IntArray


def minimise(
    cells: IntArray,
    values: FloatArray | None,
    n_cells: int,
    Y: FloatArray,
    loss: str,
    alpha: float,
    *,
    sample_weight: FloatArray | None = None,
    W0: FloatArray | None = None,
    b0: FloatArray | None = None,
    dual0: FloatArray | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
    n_jobs: int | None = None,
) -> Minimum:
    r"""Minimise :math:`\sum_i s_i \ell(y_i, b + \phi_i^\top W) + \alpha \lVert W \rVert^2`.

    Squared and logistic loss by Newton's method with conjugate gradients on the span of the rows,
    :class:`mondrian_kernel._linear.newton.Newton`; the hinge by coordinate descent in its dual,
    :func:`mondrian_kernel._linear.hinge.minimise_hinge`.

    Parameters
    ----------
    cells : ndarray of shape (N, M), int32
        Columns of the features of each row. No two of the M slots may share a column.
    values : ndarray of shape (N, M) or None
        Values of the features; where None all are :math:`1/\sqrt{M}`.
    n_cells : int
        Number of columns, C.
    Y : ndarray of shape (N, K)
        Targets as in :mod:`mondrian_kernel._linear.losses`.
    loss : {"squared", "log_loss", "hinge"}
        Loss ℓ.
    alpha : float
        Penalty α > 0. The intercept is not penalised.
    sample_weight : ndarray of shape (N,) or None, default=None
        Weights s ≥ 0, 1 where None.
    W0, b0 : ndarrays of shape (C, K) and (K,) or None, default=None
        Where to start, 0 where None; for instance inherited weights. Of no use to the hinge, whose
        dual they do not determine: W0 is refused.
    dual0 : ndarray of shape (N, K) or None, default=None
        Start at :math:`W = \Phi^\top` ``dual0`` instead, the ``dual`` of an earlier minimum for the
        same rows. Coefficients of rows need not be inherited when cells split.
    tol : float, default=1e-6
        Stop when the objective is at most ``tol`` times itself above the optimum. The bound is the
        duality gap, :math:`\lVert \nabla_W \rVert^2 / 4\alpha` for a smooth loss.
    max_iter : int, default=200
        Most steps of Newton's method, or rounds of descent; a warning says if they were too few.
    n_jobs : int or None, default=None
        Threads. The result does not depend on it.

    Returns
    -------
    minimum : Minimum
        Weights, intercept, and how they were reached.

    Examples
    --------
    >>> import numpy as np
    >>> cells = np.array([[0, 2], [0, 3], [1, 2], [1, 3]], np.int32)
    >>> y = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> W, b, *_ = minimise(cells, None, 4, y, "squared", alpha=1.0)
    >>> W.ravel().round(3), b.round(3)
    (array([-0.707,  0.707, -0.354,  0.354]), array([1.5]))
    """
    check_loss(loss)
    if not alpha > 0:
        raise ValueError(f"alpha={alpha} must be positive.")
    if W0 is not None and dual0 is not None:
        raise ValueError("Start at W0 or at dual0, not at both.")
    if W0 is not None and loss == "hinge":
        raise ValueError("Weights do not tell the dual of the hinge loss: start at dual0, not W0.")
    design = Design(cells, values, n_cells, n_jobs)
    if Y.ndim != 2 or Y.shape[0] != design.n_rows:
        raise ValueError(f"Y of shape {Y.shape} does not match {design.n_rows} rows of cells.")
    s = np.ones(design.n_rows) if sample_weight is None else np.asarray(sample_weight, float)
    if loss == "hinge":
        minimum = minimise_hinge(design, Y, alpha, s, b0, dual0, tol, max_iter)
    else:
        minimum = Newton(design, Y, loss, alpha, s, W0).run(b0, dual0, tol, max_iter)
    if minimum.gap > tol * minimum.objective:
        warnings.warn(
            f"The objective {minimum.objective:.6g} may be {minimum.gap:.2g} above the optimum "
            f"after {minimum.n_steps} steps. Raise max_iter or alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return minimum
