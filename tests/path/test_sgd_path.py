"""The path by stochastic gradients: splits keep every score, passes lead to the minimum."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mondrian_kernel import MondrianFeatures, sgd_path
from mondrian_kernel._linear.losses import encode, value
from mondrian_kernel._linear.minimise import minimise
from mondrian_kernel._linear.operator import CellOperator, gather_cells
from mondrian_kernel._path import sgd_path as module
from oracles import objective

rng = np.random.default_rng(0)
X, X_VAL = rng.uniform(-1, 1, size=(120, 2)), rng.uniform(-1.2, 1.2, size=(80, 2))


def numbers(rows):
    return 3.0 + np.sin(3 * rows[:, 0]) + rows[:, 1]


def two(rows):
    return np.where(rows[:, 0] * rows[:, 1] > 0, "same", "other")


def three(rows):
    return np.array(["low", "middle", "high"])[np.digitize(rows.sum(axis=1), [-0.5, 0.5])]


CLASSES = [(loss, truth) for loss in ("log_loss", "hinge") for truth in (two, three)]
problems = pytest.mark.parametrize(("loss", "truth"), [("squared", numbers), *CLASSES])


def targets(loss, y):
    if loss == "squared":
        return y[:, None]
    classes, labels = np.unique(y, return_inverse=True)
    return encode(labels, classes.size, loss)


def path_of(loss, truth, **options):
    given = {"alpha": 0.1, "n_estimators": 10, "max_lifetime": 3.0, "n_lifetimes": 8}
    given |= {"random_state": 0} | options
    return sgd_path(X, truth(X), loss=loss, **given)


def scores_of(path, rows):
    return path.features().transform(rows) @ path.model.coef + path.model.intercept


@problems
def test_a_split_keeps_the_score_of_every_row_exactly(loss, truth, monkeypatch):
    seen, real = [], module.descend

    def watched(cells, Y, W, b, *how):
        """Keep the scores of the rows before a split and after it, both bit by bit."""
        seen.append((gather_cells(cells, W) + b, W.shape[0]))
        W, b = real(cells, Y, W, b, *how)
        seen.append((gather_cells(cells, W) + b, W.shape[0]))
        return W, b

    monkeypatch.setattr(module, "descend", watched)
    path = path_of(loss, truth, n_lifetimes=30)
    assert (np.diff(path.n_cells) > 0).all()
    pairs = list(zip(seen[1:-1:2], seen[2::2], strict=True))
    assert len(pairs) == path.lifetimes.size - 1 > 20
    Y = targets(loss, truth(X))
    for k, ((before, _), (after, n_cells)) in enumerate(pairs):
        assert_array_equal(after, before)
        assert value(loss, Y, after).mean() == path.train_loss[k, 0]
        assert n_cells == path.n_cells[k + 1]
        assert np.ptp(after) > 0


@problems
def test_many_passes_approach_the_minimum(loss, truth):
    """400 passes over 120 rows leave less than 0.5 % of the objective."""
    path = path_of(loss, truth, n_lifetimes=3, passes=400, alpha=0.5)
    cells, Y = path.features().apply(X), targets(loss, truth(X))
    rows = CellOperator(cells, path.features().n_cells_, centre=False)
    best = minimise(rows, Y, loss, 0.5).objective
    reached = objective(loss, Y, scores_of(path, X), path.model.coef, 0.5)
    assert best * (1 - 1e-6) <= reached <= best * 1.005


@problems
def test_a_warm_path_ends_lower_than_a_pass_from_scratch(loss, truth):
    warm, cold = (path_of(loss, truth, n_lifetimes=n) for n in (20, 1))
    assert_array_equal(cold.lifetimes, [3.0])
    assert cold.n_cells[-1] == warm.n_cells[-1]
    assert warm.train_loss[-1] < 0.7 * cold.train_loss[-1]


def test_lifetimes_and_cells_are_those_of_the_features():
    path = path_of("squared", numbers)
    assert path.lifetimes.size <= 8
    assert path.lifetimes[-1] == path.features().lifetime_ == 3.0
    assert_array_equal(path.n_cells, [path.features(t).n_cells_ for t in path.lifetimes])
    same = MondrianFeatures(3.0, 10, random_state=0).fit(X)
    assert_array_equal(path.features().apply(X_VAL), same.apply(X_VAL))
    assert path.model.coef.shape == (path.n_cells[-1], 1)
    assert path.complete
    assert path.model.classes is None
    assert path.validation_loss is None
    assert path.best_index == (np.argmin(path.train_loss), 0)


@problems
def test_losses_are_those_of_the_model_where_the_path_stops(loss, truth):
    validation = X_VAL, truth(X_VAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the best may be the last
        whole = path_of(loss, truth, validation=validation)
    for stop in (1, 4, whole.lifetimes.size):
        part = path_of(loss, truth, validation=validation, callback=interrupt(stop))
        assert not part.complete
        for name in ("lifetimes", "n_cells", "train_loss", "validation_loss"):
            assert_array_equal(getattr(part, name), getattr(whole, name)[:stop])
        assert part.features().lifetime_ == part.lifetimes[-1]
        for rows, losses in (X, part.train_loss), (X_VAL, part.validation_loss):
            expected = value(loss, targets(loss, truth(rows)), scores_of(part, rows)).mean()
            assert_allclose(losses[-1, 0], expected, rtol=1e-12)
    assert whole.complete
    assert whole.best_index == (np.argmin(whole.validation_loss), 0)
    assert whole.best_lifetime == whole.lifetimes[whole.best_index[0]]


def interrupt(stop):
    def callback(done, total, info):
        if done == stop:
            raise KeyboardInterrupt

    return callback


def test_an_interrupt_amid_a_lifetime_leaves_the_model_of_the_one_before(monkeypatch):
    real = module.descend

    def slow(*args):
        W, b = real(*args)
        if W.shape[0] == last:
            raise KeyboardInterrupt
        return W, b

    whole, third = (path_of("squared", numbers, callback=interrupt(k)) for k in (8, 3))
    monkeypatch.setattr(module, "descend", slow)
    last = whole.n_cells[3]
    path = path_of("squared", numbers)
    assert_array_equal(path.lifetimes, third.lifetimes)
    assert_array_equal(path.model.coef, third.model.coef)
    assert_array_equal(path.model.intercept, third.model.intercept)
    last = whole.n_cells[0]
    with pytest.raises(KeyboardInterrupt):
        path_of("squared", numbers)


def test_same_seed_same_path_for_any_number_of_threads():
    one, two_, other = (
        path_of("log_loss", three, random_state=seed, n_jobs=n_jobs)
        for seed, n_jobs in [(0, None), (0, 2), (1, None)]
    )
    for name in ("lifetimes", "train_loss"):
        assert_array_equal(getattr(one, name), getattr(two_, name))
    for a, b in zip(one.coef(), two_.coef(), strict=True):
        assert_array_equal(a, b)
    assert not np.array_equal(one.lifetimes, other.lifetimes)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_three_classes_are_learned(loss):
    path = path_of(loss, three, n_estimators=50, n_lifetimes=30, passes=3, alpha=0.01)
    assert_array_equal(path.model.classes, ["high", "low", "middle"])
    assert path.model.coef.shape[1] == 3
    assert np.mean(path.predict(X) == three(X)) > 0.97
    assert np.mean(path.model.classes[scores_of(path, X_VAL).argmax(axis=1)] == three(X_VAL)) > 0.8


def test_the_level_of_y_is_the_intercepts_alone():
    near = path_of("squared", numbers)
    far = path_of("squared", lambda rows: numbers(rows) + 1e4)
    assert_allclose(far.model.coef, near.model.coef, atol=1e-8)
    assert_allclose(far.model.intercept, near.model.intercept + 1e4)


def test_columns_of_y_are_learned_side_by_side():
    def both(rows):
        return np.column_stack([numbers(rows), -numbers(rows)])

    path, one = path_of("squared", both), path_of("squared", numbers)
    coef = one.model.coef
    assert_allclose(path.model.coef, np.hstack([coef, -coef]), atol=1e-12)
    assert_allclose(path.train_loss, 2 * one.train_loss)


def test_the_callback_hears_of_every_lifetime():
    seen = []
    path = path_of("hinge", two, callback=lambda *args: seen.append(args))
    best = np.minimum.accumulate(path.score[:, 0])
    for k, (done, total, info) in enumerate(seen):
        assert (done, total) == (k + 1, path.lifetimes.size)
        told = {"lifetime": path.lifetimes[k], "best": best[k], "measure": path.score_name}
        assert info == told
    assert len(seen) == path.lifetimes.size


def test_a_best_lifetime_at_the_end_warns():
    with pytest.warns(UserWarning, match="Raise max_lifetime"):
        path_of("log_loss", two, max_lifetime=0.3, validation=(X_VAL, two(X_VAL)))


def test_trees_may_end_before_the_lifetime():
    path = path_of("squared", numbers, max_lifetime=np.inf, validation=(X, numbers(X)))
    assert path.n_cells[-1] == 10 * 120
    assert np.isfinite(path.lifetimes).all()
    assert path.best_index[0] == path.lifetimes.size - 1  # without a warning: no cut is left
    still = sgd_path(np.ones((5, 2)), np.arange(5.0), alpha=1.0, max_lifetime=2.0, n_estimators=3)
    assert_array_equal(still.lifetimes, [2.0])
    assert_array_equal(still.n_cells, [3])


Y = numbers(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "huber"}, "'loss' parameter of sgd_path"),
        ({"alpha": 0.0}, "'alpha' parameter"),
        ({"alpha": np.nan}, "'alpha' parameter"),
        ({"max_lifetime": 0}, "'max_lifetime' parameter"),
        ({"max_lifetime": np.nan}, "'max_lifetime' parameter"),
        ({"n_lifetimes": 0}, "'n_lifetimes' parameter"),
        ({"passes": 0}, "'passes' parameter"),
        ({"n_estimators": 0}, "n_estimators"),
        ({"X": np.where(X > 0.9, np.nan, X)}, "contains NaN"),
        ({"y": Y[:-1]}, "inconsistent numbers of samples"),
        ({"y": np.where(Y > 3, np.nan, Y)}, "contains NaN"),
        ({"y": two(X)}, "takes numbers, but y holds classes such as"),
        ({"y": two(X).astype(object)}, "takes numbers, but y holds classes such as"),
        ({"y": two(X)[:-1], "loss": "hinge"}, "inconsistent numbers of samples"),
        ({"y": np.where(Y > 3, np.nan, 1.0), "loss": "hinge"}, "contains NaN"),
        ({"y": np.full(120, "a"), "loss": "log_loss"}, "All rows are of one class, 'a'"),
        ({"y": Y, "loss": "log_loss"}, "continuous"),
        ({"validation": (X_VAL[:, :1], X_VAL[:, 0])}, "1 features"),
        ({"validation": (X_VAL, Y[:3])}, "inconsistent numbers of samples"),
        ({"validation": (X_VAL, two(X_VAL))}, "takes numbers"),
        ({"validation": (X_VAL, X_VAL)}, "another number of outputs"),
        (
            {"y": two(X), "loss": "hinge", "validation": (X_VAL, three(X_VAL))},
            "of the rows that are fitted",
        ),
    ],
)
def test_bad_input_is_refused_before_any_work(options, message, monkeypatch):
    monkeypatch.setattr(module, "Growth", None)
    given = {"X": X, "y": Y, "alpha": 0.1, "max_lifetime": 1.0} | options
    with pytest.raises(ValueError, match=message):
        sgd_path(given.pop("X"), given.pop("y"), **given)


def test_predictions_are_those_of_the_scores():
    path = path_of("hinge", two)
    scores = scores_of(path, X_VAL)[:, 0]
    assert_array_equal(path.predict(X_VAL), np.where(scores > 0, "same", "other"))
    numbers_path = path_of("squared", numbers)
    assert_array_equal(numbers_path.predict(X_VAL), scores_of(numbers_path, X_VAL)[:, 0])
    coef, intercept = path.coef()
    assert coef.shape == (path.n_cells[-1],)
    assert intercept.shape == ()
    with pytest.raises(ValueError, match="weights of its last lifetime only"):
        path.coef(path.lifetimes[0])


def test_the_path_does_not_change_with_the_arrays_it_was_made_of():
    rows, targets = X.copy(), numbers(X)
    path = sgd_path(rows, targets, alpha=0.1, n_estimators=5, max_lifetime=2.0, random_state=0)
    before = path.predict(X_VAL)
    rows[:], targets[:] = 0.0, 1.0
    assert_array_equal(path.predict(X_VAL), before)
