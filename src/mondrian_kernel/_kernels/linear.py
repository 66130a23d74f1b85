"""Linear functions of the columns, learnt row by row with all covariances."""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel
from mondrian_kernel._kernels.learners import step


@kernel
def _seen(X, i, ends, factor, z):
    """Write 1 and the columns of row ``i``, cut off, centred and scaled, to ``z`` (D + 1,)."""
    z[0] = 1.0
    for d in range(factor.size):
        x = min(max(X[i, d], ends[0, d]), ends[1, d])
        z[1 + d] = (x - 0.5 * (ends[0, d] + ends[1, d])) * factor[d]


@kernel
def add_scores(X, ends, factor, weights, coef, scores):
    """Add Σ_s ``weights``_s β_sᵀz to ``scores`` (n, K), with ``coef`` as of :func:`learn`."""
    z = np.empty(factor.size + 1)
    for i in range(X.shape[0]):
        _seen(X, i, ends, factor, z)
        for s in range(len(coef)):
            for e in range(1, z.size):
                for k in range(scores.shape[1]):
                    scores[i, k] += weights[s] * z[e] * coef[s, e, k]


@kernel
def learn(X, ends, factor, Y, sample_weight, code, keep, prior, coef, P, scores):
    """Train S linear functions on each row once, in order, by the filter of a loss.

    With the score f = ``coef``ᵀz, its variance v = zᵀPz, s ℓ'' = h and the step d = -s ℓ' / (1 + h
    v): coef ← coef + P z d and P ← P - P z zᵀP h / (1 + h v). Before each row P is divided by
    ``keep[s]``, as far as its mean over the columns stays below ``prior``. Changed in place:
    ``coef`` (S, D + 1, K), ``P`` (S, D + 1, D + 1). ``scores`` (S, n, K) receives the scores of the
    rows before any of them was learnt from.
    """
    n, E, n_outputs = len(Y), factor.size + 1, Y.shape[1]
    Z, Pz, F, D = np.empty((n, E)), np.empty(E), np.empty(n_outputs), np.empty(n_outputs)
    for i in range(n):
        _seen(X, i, ends, factor, Z[i])
    for s in range(keep.size):
        w, p = coef[s], P[s]
        for i in range(n):
            _product(w, Z[i], scores[s, i])
        for i in range(n):
            z = Z[i]
            if keep[s] < 1.0:
                total = 0.0
                for e in range(E):
                    total += p[e, e] / keep[s]
                p *= min(1.0, E * prior / total) / keep[s]
            spread = 1e-300
            for e in range(E):
                Pz[e] = 0.0
                for g in range(E):
                    Pz[e] += p[e, g] * z[g]
                spread += Pz[e] * z[e]
            _product(w, z, F)
            curvature, _ = step(code, Y[i], F, sample_weight[i], spread, D)
            shrink = curvature / (1.0 + curvature * spread)
            for e in range(E):
                for k in range(n_outputs):
                    w[e, k] += Pz[e] * D[k]
                for g in range(E):
                    p[e, g] -= Pz[e] * Pz[g] * shrink


@kernel
def _product(w, z, F):
    """Write wᵀz to ``F`` (K,)."""
    F[:] = 0.0
    for e in range(z.size):
        for k in range(F.size):
            F[k] += w[e, k] * z[e]
