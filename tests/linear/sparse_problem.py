"""Small sparse problems that the tests of this directory share."""

import numpy as np

from mondrian_kernel._linear import minimise as module
from mondrian_kernel._linear.losses import encode
from mondrian_kernel._linear.operator import CellOperator

LOSSES = ("squared", "log_loss", "hinge")


def features(n_rows=60, n_slots=5, per_slot=6, seed=0):
    """Return cells, their number, and Φ as a dense matrix."""
    rng = np.random.default_rng(seed)
    local = rng.integers(per_slot, size=(n_rows, n_slots))
    cells = (local + per_slot * np.arange(n_slots)).astype(np.int32)
    Phi = np.zeros((n_rows, n_slots * per_slot))
    np.put_along_axis(Phi, cells, n_slots**-0.5, axis=1)
    return cells, Phi.shape[1], Phi


def rows_of(cells, n_cells, n_jobs=None):
    """Return the operator of rows that losses take."""
    return CellOperator(cells, n_cells, centre=False, n_jobs=n_jobs)


def minimise(cells, n_cells, Y, loss, alpha, n_jobs=None, **options):
    """Minimise a loss over features given by their cells."""
    return module.minimise(rows_of(cells, n_cells, n_jobs), Y, loss, alpha, **options)


def targets(Phi, loss, n_classes, seed=1):
    """Return class numbers that depend on the features, with noise, and their targets Y."""
    rng = np.random.default_rng(seed)
    scores = Phi @ rng.normal(size=(Phi.shape[1], n_classes)) * 2.0
    labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return labels, encode(labels, n_classes, loss)
