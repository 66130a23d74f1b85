"""Ridge after every cut equals ridge fitted from scratch after that cut."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mondrian_kernel._linear.every_cut import EveryCut
from mondrian_kernel._trees.growth import Growth
from mondrian_kernel._trees.trees import CutSequence

RTOL = 1e-8

# (rows, trees, lifetime): cells stay below the rows, pass them on the way, exceed them at once.
PRIMAL, BOTH, DUAL = (80, 4, 1.0), (50, 8, 2.5), (20, 25, 3.0)


def problem(
    shape: tuple[int, int, float], seed: int
) -> tuple[CutSequence, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    n, m, lifetime = shape
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    X[1], X[2] = X[0], X[0]  # duplicates never part
    growth = Growth(X, m, seed)
    growth.advance(lifetime)
    sequence = CutSequence(*growth.freeze())
    new = rng.uniform(-0.3, 1.3, size=(15, 3))
    new[0] = X[5]
    y = rng.standard_normal(n) + X[:, 0]
    return sequence, y - y.mean(), (new, rng.standard_normal(15))


def features(sequence: CutSequence, cuts: int) -> np.ndarray:
    """Φ after some cuts, cell by cell, undoing the later ones."""
    n, m = sequence.cells.shape
    cells = sequence.cells.copy()
    for j in range(sequence.splits.size - 1, cuts - 1, -1):
        cells[cells == m + j] = sequence.splits[j]
    Phi = np.zeros((n, m + cuts))
    np.put_along_axis(Phi, cells, m**-0.5, axis=1)
    return Phi


def new_features(sequence: CutSequence, X: np.ndarray, cuts: int) -> np.ndarray:
    """Φ of new rows at the time of a cut, from the walk down the trees."""
    m = sequence.cells.shape[1]
    time = sequence.times[cuts - 1] if cuts else 0.0
    node, log_stay = sequence.trees.walk(X, time)
    Phi = np.zeros((X.shape[0], m + cuts))
    np.put_along_axis(Phi, sequence.cell[node], np.exp(log_stay) * m**-0.5, axis=1)
    return Phi


def ridge(Phi: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    return np.linalg.solve(Phi.T @ Phi + alpha * np.eye(Phi.shape[1]), Phi.T @ y)


def run(sequence: CutSequence, y: np.ndarray, alpha: float, held_out=None, **options) -> EveryCut:
    cuts = EveryCut(sequence, y, alpha, held_out)
    complete = cuts.run(**options)
    assert complete == (cuts.done == sequence.splits.size)
    return cuts


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [1e-3, 10.0])
@pytest.mark.parametrize(
    ("shape", "solvers"),
    [(PRIMAL, {"primal"}), (BOTH, {"primal", "dual"}), (DUAL, {"dual"})],
)
def test_equals_refitting_after_every_cut(shape, solvers, alpha, seed):
    sequence, y, held_out = problem(shape, seed)
    result = run(sequence, y, alpha, held_out=held_out, block=7)
    assert set(result.solver) == solvers
    assert result.train_error.size == sequence.splits.size + 1 > 10
    n = y.size
    for cuts in range(sequence.splits.size + 1):
        Phi = features(sequence, cuts)
        w = ridge(Phi, y, alpha)
        r = y - Phi @ w
        C = Phi @ Phi.T + alpha * np.eye(n)
        h = 1.0 - alpha * np.linalg.inv(C).diagonal()
        predicted = new_features(sequence, held_out[0], cuts) @ w
        expected = {
            "n_cells": Phi.shape[1],
            "train_error": np.mean(r**2),
            "loo_error": np.mean((r / (1 - h)) ** 2),
            "held_out_error": np.mean((held_out[1] - predicted) ** 2),
            "log_det": np.linalg.slogdet(C)[1],
            "misfit": y @ np.linalg.solve(C, y),
        }
        paper = multivariate_normal(np.zeros(n), C).logpdf(y)
        np.testing.assert_allclose(result.evidences[1][cuts], paper, rtol=RTOL)
        for name, value in expected.items():
            found = getattr(result, name)[cuts]
            np.testing.assert_allclose(found, value, rtol=RTOL, err_msg=f"{name}, {cuts} cuts")
        np.testing.assert_allclose(result.weight_norm2[cuts], w @ w, rtol=RTOL, atol=1e-12)
    np.testing.assert_allclose(result.coef, w, rtol=1e-7, atol=1e-9 * np.abs(w).max())


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
def test_block_size_does_not_matter(shape):
    sequence, y, held_out = problem(shape, 5)
    one, auto = (run(sequence, y, 0.01, held_out=held_out, block=b) for b in (1, None))
    for name in ("train_error", "loo_error", "held_out_error", "log_det", "misfit"):
        np.testing.assert_allclose(getattr(one, name), getattr(auto, name), rtol=RTOL)
    assert len(one.solver) == sequence.splits.size > len(auto.solver)


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
def test_leave_one_out_leaves_one_out(shape):
    sequence, y, _ = problem(shape, 1)
    result = run(sequence, y, 0.05)
    for cuts in range(0, sequence.splits.size + 1, 9):
        Phi = features(sequence, cuts)
        errors = np.empty(y.size)
        for i in range(y.size):
            rest = np.arange(y.size) != i
            errors[i] = y[i] - Phi[i] @ ridge(Phi[rest], y[rest], 0.05)
        np.testing.assert_allclose(result.loo_error[cuts], np.mean(errors**2), rtol=RTOL)


def test_evidence_with_the_signal_variance_profiled_out_is_the_maximum():
    sequence, y, _ = problem(BOTH, 2)
    result = run(sequence, y, 0.1)
    n = y.size
    for cuts in (0, 10, sequence.splits.size):
        Phi = features(sequence, cuts)
        C = Phi @ Phi.T + 0.1 * np.eye(n)
        scale = result.misfit[cuts] / n
        at_best = [multivariate_normal(np.zeros(n), s * scale * C).logpdf(y) for s in (0.9, 1, 1.1)]
        assert at_best[1] > max(at_best[0], at_best[2])
        np.testing.assert_allclose(result.evidences[0][cuts], at_best[1], rtol=RTOL)


def test_evidence_of_the_paper_in_terms_of_weights():
    sequence, y, _ = problem(PRIMAL, 3)
    alpha = 0.2
    result = run(sequence, y, alpha)
    n, n_cells = y.size, result.n_cells
    log_det_A = result.log_det - (n - n_cells) * np.log(alpha)
    paper = (
        -n * result.train_error / (2 * alpha)
        - result.weight_norm2 / 2
        - log_det_A / 2
        - (n * np.log(2 * np.pi) + (n - n_cells) * np.log(alpha)) / 2
    )
    np.testing.assert_allclose(result.evidences[1], paper, rtol=1e-12)


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
def test_interrupt_leaves_a_correct_prefix(shape):
    sequence, y, held_out = problem(shape, 0)
    whole = run(sequence, y, 0.01, held_out=held_out)
    seen = []

    def stop(done, total, info):
        seen.append((done, total, info["n_cells"]))
        if done >= 14:
            raise KeyboardInterrupt

    part = run(sequence, y, 0.01, held_out=held_out, block=7, callback=stop)
    m = sequence.cells.shape[1]
    assert seen == [(d, sequence.splits.size, m + d) for d in (7, 14)]
    assert part.done == 14
    assert part.train_error.size == 15
    for name in ("train_error", "loo_error", "held_out_error", "log_det", "misfit"):
        np.testing.assert_allclose(getattr(part, name), getattr(whole, name)[:15], rtol=RTOL)
    w = ridge(features(sequence, 14), y, 0.01)
    np.testing.assert_allclose(part.coef, w, rtol=1e-7, atol=1e-9)


def test_an_interrupt_before_the_first_block_leaves_the_state_before_any_cut(monkeypatch):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(EveryCut, "_refresh", interrupt)
    sequence, y, _ = problem(PRIMAL, 0)
    result = run(sequence, y, 0.01)
    assert result.done == 0
    assert result.train_error.size == 1
    np.testing.assert_allclose(result.train_error[0], np.mean(y**2))


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
def test_a_block_that_drifts_is_repeated_with_fewer_cuts(shape, monkeypatch):
    sequence, y, _ = problem(shape, 0)
    whole = run(sequence, y, 0.01)
    exact = EveryCut._low_rank

    def spoilt(self):
        block = exact(self)
        if block.step.size > 6:
            block.step[-1] *= 1 + 1e-3
        return block

    monkeypatch.setattr(EveryCut, "_low_rank", spoilt)
    result = run(sequence, y, 0.01, block=8)
    assert result.n_repeats >= sequence.splits.size // 8
    np.testing.assert_allclose(result.loo_error, whole.loo_error, rtol=RTOL)
    assert result.max_drift < 1e-8


@pytest.mark.parametrize("shape", [PRIMAL, DUAL])
def test_leverages_that_drift_are_computed_afresh(shape, monkeypatch):
    sequence, y, _ = problem(shape, 0)
    whole = run(sequence, y, 0.01)
    exact = EveryCut._try

    def spoilt(self, k):
        kept = exact(self, k)
        self.slack *= 1 + 1e-5
        return kept

    monkeypatch.setattr(EveryCut, "_try", spoilt)
    result = run(sequence, y, 0.01, block=8)
    assert result.n_repeats == len(result.solver) - 1
    np.testing.assert_allclose(result.loo_error, whole.loo_error, rtol=RTOL)


def test_no_cuts_and_no_signal():
    growth = Growth(np.ones((6, 1)), 3, 0)
    growth.advance(1.0)
    result = run(CutSequence(*growth.freeze()), np.zeros(6), 0.1)
    np.testing.assert_array_equal(result.train_error, [0.0])
    np.testing.assert_array_equal(result.coef, np.zeros(3))
    assert result.evidences[0][0] > 1000  # a signal of no variance explains all


def test_cells_follow_the_trees():
    sequence = problem(BOTH, 0)[0]
    m = sequence.cells.shape[1]
    for cuts in (0, 5, sequence.splits.size):
        time = sequence.times[cuts - 1] if cuts else 0.0
        column = sequence.trees.cells(time)
        assert column.total == m + cuts
        Phi = features(sequence, cuts) > 0
        assert (Phi.sum(axis=0) > 0).all()
