"""Ridge for some alphas by dense factors of size min(C, N): exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from threadpoolctl import threadpool_limits

from mondrian_kernel._linear.design import Design
from mondrian_kernel._linear.scores import Scores, evidences, loo_error, train_error
from mondrian_kernel._trees.threads import in_threads
from mondrian_kernel._typing import FloatArray

_ONE_THREAD = 1500
# So many Cholesky factors take the time of one eigendecomposition.
_FEW_ALPHAS = 5
_ROWS = 256


class Spectrum(NamedTuple):
    """Thin eigendecomposition ``K = U diag(values) Uᵀ`` of the (centred) kernel matrix."""

    values: FloatArray
    U: FloatArray


def dense_cost(n_rows: int, n_cells: int) -> float:
    """Floating-point operations of a level and the scores that follow, roughly."""
    return min(25.0 * n_rows**3, 25.0 * n_cells**3 + 4.0 * n_rows * n_cells**2)


def kernel_matrix(design: Design) -> FloatArray:
    """(Centred) kernel matrix of a design of one level."""
    from mondrian_kernel._kernels.cells import matches

    cells, n = design.cells, design.n_rows
    K = np.empty((n, n))
    in_threads(lambda a, b: matches(cells, a, b, K), n, design.n_jobs, work=n * cells.size / 16)
    K *= design.scale
    K *= design.scale[:, None]
    if design.centre:
        u = design.mean_direction
        Ku = K @ u
        _add_symmetric(K, u, (0.5 * (u @ Ku)) * u - Ku)
    return K


def kernel_columns(design: Design, some: NDArray[np.intp]) -> FloatArray:
    """Columns of the kernel matrix of a design of one level, not centred, (N, len(some))."""
    from mondrian_kernel._kernels.cells import matches_with

    cells, others, n = design.cells, design.cells[some], design.n_rows
    K = np.empty((n, some.size))
    work = some.size * cells.size / 16
    in_threads(lambda a, b: matches_with(cells, others, a, b, K), n, design.n_jobs, work=work)
    K *= design.scale[some]
    K *= design.scale[:, None]
    return K


def cholesky(design: Design, alpha: float) -> FloatArray:
    """Lower factor of ΦᵀΦ + αI where there are fewer cells than rows, else of ΦΦᵀ + αI; centred."""
    if design.n_cells[0] < design.n_rows:
        Phi = dense_features(design)
        A = Phi.T @ Phi
    else:
        A = kernel_matrix(design)
    A.flat[:: A.shape[0] + 1] += alpha
    L: FloatArray = linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    return L


def _add_symmetric(K: FloatArray, u: FloatArray, v: FloatArray) -> None:
    """Add ``u vᵀ + v uᵀ`` to K, a few rows at a time: K may fill the memory."""
    for begin in range(0, K.shape[0], _ROWS):
        rows = slice(begin, begin + _ROWS)
        K[rows] += np.outer(u[rows], v) + np.outer(v[rows], u)


def dense_features(design: Design) -> FloatArray:
    """(Centred) features of a design of one level as a dense matrix."""
    Phi = np.zeros((design.n_rows, int(design.n_cells[0])))
    np.put_along_axis(Phi, design.cells.astype(np.intp), design.scale[:, None], axis=1)
    return design.centred(Phi)


def spectra(design: Design) -> Iterator[Spectrum]:
    """Eigendecomposition of each level, through the smaller of K (N × N) and ΦᵀΦ (C × C).

    Of the latter one is made, and joined for the coarser levels.
    """
    few = np.flatnonzero(design.n_cells < design.n_rows)
    if few.size:
        fine, group_of = design.level(int(few[-1])), design.groups[:, few[-1]]
        Phi = dense_features(fine)
        A = Phi.T @ Phi
        del Phi
        some = np.flatnonzero(np.diff(group_of, prepend=-1))  # a finest cell of each of these
    for level in range(design.n_levels):
        if level not in few:
            values, U = _eigh(kernel_matrix(design.level(level)))
            yield Spectrum(np.maximum(values, 0.0), U)
            continue
        group = design.groups[some, level]
        first = np.flatnonzero(np.diff(group, prepend=-1))
        values, V = _eigh(np.add.reduceat(np.add.reduceat(A, first, axis=0), first, axis=1))
        keep = values > design.total_weight * np.finfo(float).eps * values.size
        values = values[keep]
        U = fine.centred(fine.gather((V[:, keep] / np.sqrt(values))[group]))
        yield Spectrum(values, U)


def _eigh(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigendecomposition, by one thread while more would only wait for each other."""
    with threadpool_limits(1 if A.shape[0] <= _ONE_THREAD else None, user_api="blas"):
        try:
            values, V = linalg.eigh(A, driver="evd")
        except linalg.LinAlgError:  # dividing and conquering is the fastest way, but may fail
            values, V = linalg.eigh(A, driver="ev")
    return values, V


def dense_scores(
    design: Design, Y: FloatArray, alphas: FloatArray
) -> list[tuple[Scores, FloatArray]]:
    """Scores and dual coefficients (N, T, A) of every level, for every alpha, exactly.

    Y (N, T) is scaled and centred. One eigendecomposition serves many alphas; a few are faster by
    a Cholesky factor each.
    """
    exact, out = np.zeros_like(alphas), []
    for dual, diagonal, log_det in _solved(design, Y, alphas):
        quadratic = np.einsum("nt,nta->ta", Y, dual)
        scores = Scores(
            train_error(design, dual, alphas),
            loo_error(design, dual, diagonal, alphas),
            exact,
            *evidences(design, quadratic, log_det, alphas),
            exact,
        )
        out.append((scores, dual))
    return out


_Solved = tuple[FloatArray, FloatArray, FloatArray]


def _solved(design: Design, Y: FloatArray, alphas: FloatArray) -> Iterator[_Solved]:
    """``G Y`` (N, T, A), the diagonal of G (N, A) and ``-ln det G`` (A,) of each level."""
    if alphas.size <= _FEW_ALPHAS and design.n_rows <= design.n_cells[0]:
        for level in range(design.n_levels):
            yield _by_cholesky(design.level(level), Y, alphas)
        return
    for spectrum in spectra(design):
        yield _by_spectrum(spectrum, Y, alphas)


def _by_spectrum(spectrum: Spectrum, Y: FloatArray, alphas: FloatArray) -> _Solved:
    values, U = spectrum
    n_rest = U.shape[0] - values.size
    shrink = 1.0 / (values[:, None] + alphas) - 1.0 / alphas  # on the span of U; 1/α elsewhere
    UY = U.T @ Y
    dual = np.einsum("nr,rt,ra->nta", U, UY, shrink, optimize=True) + Y[:, :, None] / alphas
    diagonal = (U * U) @ shrink + 1.0 / alphas
    log_det = np.log(values[:, None] + alphas).sum(axis=0) + n_rest * np.log(alphas)
    return dual, diagonal, log_det


def _by_cholesky(design: Design, Y: FloatArray, alphas: FloatArray) -> _Solved:
    """Return what :func:`_by_spectrum` does, one alpha after the other, from K."""
    dual = np.empty((*Y.shape, alphas.size))
    diagonal, log_det = np.empty((Y.shape[0], alphas.size)), np.empty(alphas.size)
    K = kernel_matrix(design)
    # The direction of the mean is known: making it heavy keeps it out of the rounding errors.
    u, heavy = design.mean_direction, design.total_weight if design.centre else 0.0
    _add_symmetric(K, u, 0.5 * heavy * u)
    with threadpool_limits(1 if K.shape[0] <= _ONE_THREAD else None, user_api="blas"):
        for k, alpha in enumerate(alphas):
            L = K.copy(order="F")
            L.flat[:: L.shape[0] + 1] += alpha
            L = linalg.cholesky(L, lower=True, overwrite_a=True, check_finite=False)
            log_det[k] = 2.0 * np.log(np.diag(L)).sum() - np.log1p(heavy / alpha)
            dual[:, :, k] = linalg.cho_solve((L, True), Y, check_finite=False)
            inverse, _ = linalg.lapack.dpotri(L, lower=1, overwrite_c=1)
            diagonal[:, k] = np.diag(inverse) + u**2 * (1.0 / alpha - 1.0 / (alpha + heavy))
    return dual, diagonal, log_det
