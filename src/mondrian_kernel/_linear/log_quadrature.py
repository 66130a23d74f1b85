r"""The logarithm of a shifted tridiagonal matrix, without its eigenvalues.

With :math:`r(s)` the first entry of :math:`(T + sI)^{-1}`,

.. math:: e_1^\top \ln(T + \alpha I)\, e_1 = e_1^\top \ln(T + SI)\, e_1 - \int_\alpha^S r(s)\, ds,

where for large S the first term is :math:`\ln S + T_{11} / S`. One integral serves every α, and
:math:`s\, r(s)` is as smooth in :math:`\ln s` as a sum of logistic curves.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mondrian_kernel._typing import FloatArray

# Eight nodes of Gauss on so short a piece of ln s leave no error but rounding.
_PIECE = 1.2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def first_log(a: FloatArray, b: FloatArray, alphas: FloatArray) -> FloatArray:
    """``e₁ᵀ ln(T + αI) e₁`` for increasing alphas (A,); T has diagonals a (n,) and b (n - 1,)."""
    from mondrian_kernel._kernels.tridiagonal import first_entries

    top = 1e8 * (np.abs(a).max() + 2.0 * b.max(initial=0.0) + alphas[-1])
    marks = np.log(np.append(alphas, top))
    pieces = [
        np.linspace(low, high, int(np.ceil((high - low) / _PIECE)) + 1)[:-1]
        for low, high in pairwise(marks)
    ]
    edges = np.append(np.concatenate(pieces), marks[-1])
    half = 0.5 * np.diff(edges)
    s = np.exp(edges[:-1, None] + half[:, None] * (1.0 + _NODES))
    r = np.empty(s.size)
    first_entries(np.ascontiguousarray(a), np.ascontiguousarray(b), s.ravel(), r)
    integrals = half * ((s * r.reshape(s.shape)) @ _WEIGHTS)
    up_to_top = np.cumsum(integrals[::-1])[::-1]
    begins = np.cumsum([0, *(piece.size for piece in pieces[:-1])])
    logs: FloatArray = marks[-1] + a[0] / top - up_to_top[begins]
    return logs
