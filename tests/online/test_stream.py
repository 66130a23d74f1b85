"""Streams: the ladder of widths, the warm-up, the cap on cells, and leaves as of a batch."""

import copy
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.online.committees import Cells
from tests.online.committees import learn as learn_cells

from mondrian_kernel import MondrianKernelRegressor
from mondrian_kernel import _settings as settings
from mondrian_kernel._kernels import committee as kernels
from mondrian_kernel._kernels.extend import FINISHED
from mondrian_kernel._model.columns import Columns, Metric
from mondrian_kernel._online import stream as stream_module
from mondrian_kernel._online.committee import Committee
from mondrian_kernel._online.learners import Filter, Means
from mondrian_kernel._online.mixture import Mixture
from mondrian_kernel._online.stream import Stream
from mondrian_kernel._settings import SIZE_HALF_LIFE
from mondrian_kernel._settings import STREAM_WINDOW as WINDOW
from mondrian_kernel._trees.online import OnlineTrees
from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor

RNG = np.random.default_rng(0)


RATES = (np.inf, 300.0)


def begin(
    lifetime="auto", scale="std", relevance="equal", n_trees=5, n_dims=2, blank=None, rates=None
):
    blank = Filter(1, "squared", 0.1) if blank is None else blank
    return Stream.begin(blank, rates or (np.inf,), n_dims, n_trees, lifetime, scale, relevance, 1)


def table(learners, j=0):
    """The table of a learner, without the room for more cells."""
    begin = learners.begin[j]
    return learners.table[begin : begin + learners.n_table[j]].copy()


def wave(n, frequency, n_dims=2, seed=0):
    X = np.random.default_rng(seed).uniform(size=(n, n_dims))
    return X, np.sin(frequency * X[:, :1]), np.ones(n)


def batches(stream, rows, size, begin=0):
    """Learn rows in batches."""
    for i in range(begin, len(rows[0]), size):
        stream = stream.learn(*(part[i : i + size] for part in rows), None)
    return stream


def test_all_learners_are_judged_before_they_learn_a_batch():
    """By their mean loss; the mixture by what was predicted; both forget after 1024 rows."""
    rows = X, Y, _ = wave(1500, 6.0)
    stream = batches(begin(scale=[1.0, 1.0], rates=RATES), [part[:1024] for part in rows], 256)
    error = stream.learners.mixture.error.copy()
    mean, expected = stream.scores_and_variance(X[1024:], None)
    # The same rows as the trees see them once they are in: no more in no cell.
    stream = batches(stream, rows, 476, begin=1024)
    (scores, variance, *_) = stream.learners.batch(476, 5)[-1]
    assert scores.shape == (5 * 2 + 2, 476, 1)  # and two linear ones
    assert variance.shape == (5 * 2, 476)
    residuals = Y[1024:] - stream.learners.offset - scores[:10]
    for loss in (residuals[:, :, 0] ** 2).T:
        error[:-1] += (loss - error[:-1]) / WINDOW
    assert_allclose(stream.learners.mixture.error[:-1], error[:-1])
    assert stream.best == np.argmin(error[:-1]) // 2
    kept = stream.recent[np.arange(1024, 1500)] * 1.0
    unit = np.sqrt(expected[:, None])
    assert np.corrcoef((kept * unit)[:, 0], (Y[1024:] - mean)[:, 0])[0, 1] > 0.95


@pytest.mark.parametrize("blank", ["filter", "means"])
def test_the_mixture_errs_less_than_its_learners(blank):
    rows = wave(6000, 12.0)
    rows[1][:] += 0.3 * np.random.default_rng(1).normal(size=rows[1].shape)
    stream = batches(
        begin(rates=RATES, blank=LEARNERS["squared" if blank == "filter" else "means"]), rows, 100
    )
    assert stream.learners.mixture.error[-1] < 1.02 * stream.learners.mixture.error[:-1].min()


def test_first_rungs_follow_the_spread_of_the_rows():
    X, Y, s = wave(64, 6.0)
    stream = begin(scale=[0.5, 2.0]).learn(X, Y, s, None)
    spread = (X / [0.5, 2.0]).std(axis=0).sum()
    assert_allclose(stream.online.rungs * spread, [0.25, 0.5, 1.0, 2.0, 4.0])
    small, large = (begin(scale=None).learn(rows, Y, s, None) for rows in (X, 100 * X))
    assert_allclose(large.online.rungs * 100, small.online.rungs)
    one = begin().learn(X[:1], Y[:1], s[:1], None)
    assert_allclose(one.online.rungs, [0.25, 0.5, 1.0, 2.0, 4.0])


def test_the_ladder_climbs_while_its_top_is_the_best():
    X, Y, s = wave(8 * WINDOW, 100.0, n_dims=1)
    stream = begin(n_dims=1, n_trees=3)
    rungs = []
    for i in range(0, len(X), WINDOW // 4):
        was = stream
        before = (was.best, was.online.rungs)
        stream = stream.learn(
            X[i : i + WINDOW // 4],
            Y[i : i + WINDOW // 4],
            s[: WINDOW // 4],
            None,
        )
        if i and not np.array_equal(stream.online.rungs, before[1]) and stream.n_rows > WINDOW:
            assert_allclose(stream.online.rungs, 2 * before[1])
            assert stream.n_rows % WINDOW == 0
            # The new top starts as the one below it.
            assert stream.learners.mixture.error[-2] == stream.learners.mixture.error[-3]
            assert_array_equal(table(stream.learners, 4), table(stream.learners, 3))
            assert_array_equal(stream.online.column[-1], stream.online.column[-2])
        rungs.append(stream.online.rungs[-1])
    assert rungs[-1] >= 8 * rungs[0]
    assert (
        stream.learners.n_rungs
        == stream.online.rungs.size
        == stream.learners.mixture.shares.size
        == 5
    )
    assert stream.learners.mixture.error[-1] < 0.5 * Y.var()


def test_a_narrower_width_waits_until_cells_have_rows(monkeypatch):
    X, Y, s = wave(2 * WINDOW, 100.0, n_dims=1)
    monkeypatch.setattr(settings, "CELL_ROWS", np.inf)
    stream = begin(n_dims=1, n_trees=3).learn(X[:-1], Y[:-1], s[:-1], None)
    assert stream.best == stream.learners.n_rungs - 1
    cell_rows = 3 * stream.n_rows / stream.online.n_cells[-1]
    for n_rows, climbs in ((0.9 * cell_rows, True), (1.1 * cell_rows, False)):
        monkeypatch.setattr(settings, "CELL_ROWS", n_rows)
        lifetime = copy.deepcopy(stream).learn(X[-1:], Y[-1:], s[-1:], None).online.lifetime
        assert lifetime == (2 if climbs else 1) * stream.online.lifetime


def test_the_ladder_does_not_climb_past_the_cap():
    X, Y, s = wave(4 * WINDOW, 100.0, n_dims=1)
    stream = begin(n_dims=1, n_trees=3).learn(X, Y, s, 30)
    assert stream.online.n_cells[-1] == 30
    first = begin(n_dims=1, n_trees=3).learn(X[:WINDOW], Y[:WINDOW], s[:WINDOW], 30)
    assert stream.online.rungs[-1] <= 2 * first.online.rungs[-1]


@pytest.mark.parametrize("blank", [Filter(1, "squared", 0.1), Means(1, 0.1, True)])
def test_predictions_stay_when_cells_are_cut(blank):
    """After a climb, rows cut cells; where no row was learnt from, scores are what they were."""
    X, Y, s = wave(2 * WINDOW + 50, 100.0, n_dims=1)
    stream = batches(
        begin(n_dims=1, n_trees=3, blank=blank), [part[:-50] for part in (X, Y, s)], 128
    )
    assert stream.online.freeze().lifetime > 4 / (X / stream.scale).std()
    grid = np.linspace(X.min(), X.max(), 500)[:, None] / stream.scale

    def scores(stream):
        node, log_stay = stream.online.freeze().walk(grid, stream.online.rungs[-1])
        top, cells = stream.learners.n_rungs - 1, stream.online.column[-1][node]
        narrowest = stream.learners.at_rungs(np.array([top]))
        narrowest.mixture = Mixture.equal(1, 1)
        W = narrowest.cell_weights(stream.online.n_cells[-1:])[cells, 0]
        return (W * np.exp(log_stay)).sum(axis=1) / 3**0.5, cells, (log_stay == 0).all(axis=1)

    before, old, inside = scores(stream)
    assert inside.mean() > 0.5
    assert (
        stream.online.stop[stream.online.freeze().left < 0] < stream.online.freeze().lifetime
    ).any()
    n_cells = stream.online.n_cells[-1]
    # Rows of next to no weight: they cut, but teach nothing.
    stream = stream.learn(X[-50:], Y[-50:], np.full(50, 1e-12), None)
    after, new, _ = scores(stream)
    n_cut = (stream.online.origin[-1] >= 0).sum()
    assert n_cut > 0
    assert (new != old)[inside].any()
    assert (new[inside] < n_cells + n_cut).all()
    assert_allclose(after[inside], before[inside], atol=1e-8)


def test_large_batches_are_taken_in_parts_and_all_or_nothing(monkeypatch):
    X, Y, s = wave(5 * WINDOW, 100.0, n_dims=1)
    stream = begin(n_dims=1, n_trees=2).learn(X[:WINDOW], Y[:WINDOW], s[:WINDOW], None)
    before = stream.n_rows, stream.online.rungs.copy(), table(stream.learners)
    take, calls = Stream.learn_batch, []

    def interrupted(self, *args):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        take(self, *args)

    monkeypatch.setattr(Stream, "learn_batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.learn(X[WINDOW:], Y[WINDOW:], s[WINDOW:], None)
    monkeypatch.undo()
    assert stream.n_rows == before[0]
    assert_array_equal(stream.online.rungs, before[1])
    assert_array_equal(table(stream.learners), before[2])


def test_the_scale_is_that_of_the_first_1024_rows(monkeypatch):
    monkeypatch.setattr(settings, "WARM_UP", 64)
    X, Y, s = wave(200, 6.0)
    X[:, 1] *= np.arange(1, 201)
    whole, pieces = begin().learn(X, Y, s, None), begin()
    for i in range(200):
        pieces = pieces.learn(X[i : i + 1], Y[i : i + 1], s[:1], None)
        n = min(4 ** int(np.log2(i + 1) / 2), 64)
        assert_allclose(pieces.scale, X[:n].std(axis=0) if n > 1 else 1.0, rtol=1e-8)
        assert pieces._is_settled == (i >= 63)
    for stream in (whole, pieces):
        assert_allclose(stream.scale, X[:64].std(axis=0), rtol=1e-8)
    assert_array_equal(table(whole.learners), table(pieces.learners))


def test_it_learns_how_much_dims_count_from_the_first_4096_rows(monkeypatch):
    """However they come; and the rows so far are learnt again."""
    monkeypatch.setattr(settings, "WARM_UP", 64)
    monkeypatch.setattr(settings, "RELEVANCE_ROWS", (256,))
    X, Y, s = wave(400, 6.0, n_dims=5)
    streams = []
    for size in (400, 256, 30, 7, 1):
        stream = begin(relevance="auto", n_dims=5)
        for i in range(0, 400, size):
            stream = stream.learn(X[i : i + size], Y[i : i + size], s[i : i + size], None)
            n = min(i + size, 400)
            assert (stream.relevance[0] > 1.5) == (n >= 256)
            assert stream._is_settled == (n >= 256)
            if n <= 256:
                assert_array_equal(stream.kept[0][:n], X[:n])
        streams.append(stream)
    whole = streams[0]
    assert whole.n_rows == 400
    assert_allclose(whole.scale * whole.relevance, X[:256].std(axis=0), rtol=1e-8)
    for stream in streams[1:]:
        assert_array_equal(stream.relevance, whole.relevance)
        assert_array_equal(table(stream.learners), table(whole.learners))


def test_what_does_not_make_rows_come_out_better_is_not_taken(monkeypatch):
    monkeypatch.setattr(settings, "WARM_UP", 64)
    monkeypatch.setattr(settings, "RELEVANCE_ROWS", (256,))
    wrong = Columns.scaled(np.ones(5), np.array([0.01, 1.0, 1.0, 1.0, 1.99]))
    found = Metric(wrong, np.ones(1), np.ones(1))
    monkeypatch.setattr(stream_module, "learn_columns", lambda *_, **__: found)
    X, Y, s = wave(400, 6.0, n_dims=5)
    stream, other = begin(relevance="auto", n_dims=5), begin(n_dims=5)
    for i in range(0, 400, 50):
        stream = stream.learn(X[i : i + 50], Y[i : i + 50], s[:50], None)
        other = other.learn(X[i : i + 50], Y[i : i + 50], s[:50], None)
    assert stream._is_settled
    assert_array_equal(stream.relevance, np.ones(5))
    assert_array_equal(stream.scale, other.scale)
    assert_array_equal(table(stream.learners), table(other.learners))


@pytest.mark.parametrize("blank", [Filter(1, "squared", 0.1), Means(1, 0.1, True)])
@pytest.mark.parametrize("sizes", [[1], [100], [1500, 300], [4000]], ids=str)
@pytest.mark.parametrize("n_equal", [3, 1500])
def test_leading_equal_rows_do_not_hide_the_scale(n_equal, sizes, blank):
    """They count as one row; what they teach stays, and the result is that of any batches."""
    X, Y, _ = wave(1100, 6.0)
    X *= 1000.0
    X = np.concatenate([np.repeat(X[:1], n_equal - 1, axis=0), X])
    Y = np.concatenate([np.full((n_equal - 1, 1), 0.3), Y])
    n, stream, at = len(X), begin(blank=blank), 0
    while at < n:
        part = slice(at, at + sizes[min(at, len(sizes) - 1)])
        stream = stream.learn(X[part], Y[part], np.ones(len(X[part])), None)
        if stream.n_rows <= n_equal:
            assert stream._n_unequal == 1
            assert stream.online.freeze().time.size == 5
        at = part.stop
    assert stream._is_settled
    assert stream.n_rows == n
    distinct = X[n_equal - 1 :][:1024]
    assert_allclose(stream.scale, distinct.std(axis=0), rtol=1e-8)
    rungs = np.array([0.25, 0.5, 1.0, 2.0, 4.0]) / (distinct / stream.scale).std(axis=0).sum()
    assert np.isin(stream.online.rungs.round(9), rungs.round(9)).sum() >= 3
    assert stream.learners.mixture.error[-1] < 0.5 * Y[n_equal:].var()
    # The widest learner is one that took all rows, on trees of this scale and lifetime.
    trees = OnlineTrees.empty(2, 5, stream.online.rungs[0], 1)
    leaf = trees.extend(X / stream.scale)
    alone = Committee.blank(blank, [np.inf], 1, np.array([5**-0.5]))
    learn_cells(alone, Cells(leaf, trees.column, trees.n_cells, trees.origin), Y, np.ones(n))
    n_cells = alone.n_table[0]
    found = stream.learners.table[:n_cells]
    assert_allclose(found, alone.table[:n_cells], atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("blank", [Filter(1, "squared", 0.1), Means(1, 0.1, True)])
@pytest.mark.parametrize("offset", [1e5, 1e8, 1e12])
def test_a_large_mean_of_the_targets_costs_nothing(offset, blank):
    """Beyond the rounding of the targets themselves."""
    X, Y, s = wave(2000, 6.0)
    Y = ((Y + offset) - offset) + 0.0  # as rounded
    plain, far = begin(blank=blank), begin(blank=blank)
    for i in range(0, 2000, 250):
        part = slice(i, i + 250)
        plain = plain.learn(X[part], Y[part], s[part], None)
        far = far.learn(X[part], Y[part] + offset, s[part], None)
    grid = np.random.default_rng(5).uniform(size=(200, 2))
    expected = plain.fitted().scores(grid, None)
    assert_allclose(
        far.fitted().scores(grid, None) - offset, expected, atol=1e-9 + 10 * np.spacing(offset)
    )
    assert np.mean((expected[:, 0] - np.sin(6 * grid[:, 0])) ** 2) < 0.1 * Y.var()
    if isinstance(blank, Filter):
        assert_allclose(far.fitted().signal, plain.fitted().signal, rtol=1e-3)


@pytest.mark.parametrize("n_rows", [40, 3000])
def test_counts_of_a_refined_leaf_are_shares_of_its_box(n_rows):
    """After a climb a new row cuts leaves; each part gets rows in proportion to its side."""
    rng = np.random.default_rng(0)
    trees = OnlineTrees.empty(2, 30, 0.05, 1)
    trees.extend(rng.uniform(size=(n_rows, 2)))
    trees = trees.deeper(2.0)
    n_before = trees.freeze().time.size
    old = trees.snapshot()
    trees.extend(rng.uniform(0.4, 0.6, size=(1, 2)))
    t = trees.freeze()
    cut = [i for i in np.flatnonzero(old.left < 0) if t.left[i] >= 0]
    assert len(cut) > 5
    on_left = 0
    for i in cut:
        left, right, d = t.left[i], t.right[i], t.dim[i]
        assert min(left, right) >= n_before
        side = old.upper[i, d] - old.lower[i, d]
        share = (t.loc[i] - old.lower[i, d]) / side
        # Up to rounding, and the new row itself.
        assert abs(t.count[left] - share * old.count[i]) <= 1.5
        assert abs(t.count[right] - (1 - share) * old.count[i]) <= 1.5
        on_left += abs(share - 0.5) > 0.1
    assert on_left > 0


# --- continuing, copying, rolling back -----------------------------------------------------------


def seen(stream):
    model = stream.fitted()
    grid = np.random.default_rng(7).uniform(-0.2, 1.2, size=(50, 2))
    errors = stream.learners.mixture.error, *stream._errors()
    scale = stream.scores_and_scale(grid, None)[1], stream.spread().errors
    return [model.scores(grid, None), model.scale, model.signal, *errors, *scale, stream.n_rows]


def assert_same(a, b, **tolerance):
    for one, other in zip(seen(a), b if isinstance(b, list) else seen(b), strict=True):
        assert_allclose(one, other, **tolerance)


LEARNERS = {
    "squared": Filter(1, "squared", 0.1),
    "hinge": Filter(1, "hinge", 0.1),
    "means": Means(1, 0.1, True),
}


@pytest.mark.parametrize("keep", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
@pytest.mark.parametrize("n_before", [1, 3, 50, 1020, 2500])
@pytest.mark.parametrize("blank", LEARNERS)
def test_copies_and_pickles_go_on_as_the_stream_would(keep, n_before, blank):
    X, Y, s = wave(4000, 60.0)
    stream = begin(blank=LEARNERS[blank], rates=RATES)
    stream = stream.learn(X[:n_before], Y[:n_before], s[:n_before], None)
    kept = keep(stream)
    assert_same(kept, stream, rtol=0)
    for i in range(n_before, n_before + 1100, 100):
        stream = stream.learn(X[i : i + 100], Y[i : i + 100], s[:100], None)
        kept = kept.learn(X[i : i + 100], Y[i : i + 100], s[:100], None)
    assert_same(kept, stream, rtol=1e-12)


def test_a_pickle_has_no_room_for_further_cells():
    rows = wave(300, 3.0)
    learners = batches(begin(), rows, 50).learners
    copied = pickle.loads(pickle.dumps(learners))
    assert copied.begin[-1] == len(copied.table) == learners.n_table.sum() < len(learners.table)
    for j in range(learners.n_table.size):
        assert_array_equal(table(copied, j), table(learners, j))


def test_a_pickle_holds_arrays_and_plain_python():
    X, Y, s = wave(100, 6.0)
    state = begin().learn(X, Y, s, None).__getstate__()
    assert not any(isinstance(value, OnlineTrees) for value in state.values())
    learners = state["learners"].__getstate__()
    assert set(learners) == {field.name for field in fields(Committee)}  # no copies for a rollback


@pytest.mark.parametrize("n_before", [1, 2, 50, 1000, 1100, 2040])
@pytest.mark.parametrize("blank", LEARNERS)
def test_a_batch_can_be_rolled_back(n_before, blank):
    """Also where it was the one after which widths change, and where the scale changed."""
    X, Y, s = wave(3000, 60.0)
    blank = LEARNERS[blank]
    stream, plain = (
        begin(blank=blank, rates=RATES).learn(X[:n_before], Y[:n_before], s[:n_before], None)
        for _ in range(2)
    )
    before = seen(stream)
    part = slice(n_before, n_before + 30)
    stream.learn(X[part] + 5.0, Y[part], s[part], None)  # another stream if the scale changes
    n_after = stream.n_rows
    stream.rollback(n_before + 30)  # the next batch has not begun: there is nothing to undo
    assert stream.n_rows == n_after
    stream.rollback(n_before)
    stream.rollback(n_before)
    assert_same(stream, before, rtol=0)
    for i in range(n_before, n_before + 300, 100):
        stream = stream.learn(X[i : i + 100], Y[i : i + 100], s[:100], None)
        plain = plain.learn(X[i : i + 100], Y[i : i + 100], s[:100], None)
    assert_same(stream, plain, rtol=1e-12)


@pytest.mark.parametrize(
    "where",
    [
        (OnlineTrees, "start", 1),
        (OnlineTrees, "make_room", 1),
        (Committee, "commit", 1),  # the learners of the targets
        (Committee, "commit", 2),  # those of the sizes of errors
        (Committee, "grow", 1),
        (kernels, "learn_batch", 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_before", [0, 1, 2, 50, 1000, 1100, 2040])
def test_interrupt_leaves_the_stream_as_it_was(where, n_before, monkeypatch):
    X, Y, s = wave(3000, 60.0)
    stream, plain = (
        begin().learn(X[:n_before], Y[:n_before], s[:n_before], None) if n_before else begin()
        for _ in range(2)
    )
    before = seen(stream) if n_before else None
    (cls, name, at), calls = where, []
    original = getattr(cls, name)

    def interrupted(*args, **kwargs):
        result = original(*args, **kwargs)
        if name != "learn_batch" or result == FINISHED:
            calls.append(None)
        if len(calls) == at:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(cls, name, interrupted)
    part = slice(n_before, n_before + 30)
    try:
        stream.learn(X[part], Y[part], s[part], None)
    except KeyboardInterrupt:
        pass
    else:
        assert name in ("make_room", "grow")
        pytest.skip("there is room")
    monkeypatch.undo()
    if n_before:
        assert_same(stream, before, rtol=0)
    for i in range(n_before, n_before + 300, 100):
        stream = stream.learn(X[i : i + 100], Y[i : i + 100], s[:100], None)
        plain = plain.learn(X[i : i + 100], Y[i : i + 100], s[:100], None)
    assert_same(stream, plain, rtol=1e-12)


def test_bad_rows_leave_the_stream_as_it_was():
    X, Y, s = wave(300, 6.0)
    X *= 4.0
    stream = begin().learn(X[:100], Y[:100], s[:100], None)
    before = seen(stream)
    for n in (20, 200):  # on the present scale, and on a new one
        bad = X[100 : 100 + n].copy()
        bad[3, 1], bad[n - 1, 1] = 1.7e308, -1.7e308
        with pytest.raises(ValueError, match="overflow"):
            stream.learn(bad, Y[:n], s[:n], None)
        assert_same(stream, before, rtol=0)


def test_the_record_holds_all_widths():
    X, Y, s = wave(1500, 6.0)
    grid = np.random.default_rng(7).uniform(-0.2, 1.2, size=(50, 2))
    for blank in LEARNERS.values():
        stream = batches(begin(blank=blank, rates=RATES), (X, np.sign(Y), s), 100)
        model = stream.fitted()
        model.check()
        stream.check()
        assert_array_equal(model.levels.lifetimes, stream.online.rungs)
        shares = stream.learners.mixture.shares.reshape(-1, 2).sum(axis=1)
        assert_allclose(model.levels.weights, shares, atol=1e-15)
        mean, variance = stream.scores_and_variance(grid, None)
        assert_allclose(mean, model.scores(grid, None), atol=1e-9)
        # As of the learners one by one.
        learners, alone = stream.learners, []
        weights, n_learners = learners.mixture.weights, learners.n_table.size
        for j in range(n_learners):
            one = np.zeros(weights.size)
            one[j] = 1.0
            part = copy.copy(stream)
            mixture = replace(learners.mixture, weights=one, shares=one[:n_learners])
            part.learners = replace(learners, mixture=mixture)
            alone.append(part.scores(grid, None))
        b = learners.intercepts[0]
        base = b + learners.offset
        linear, n_terms = learners.linear, n_learners
        if linear is not None:  # lines through all columns, one for each rate
            n_terms += len(RATES)
            z = linear.factor * (grid / stream.scale - linear.ends.mean(axis=0))
            Z = np.column_stack([np.ones(len(grid)), z])
            alone += [Z @ coef + learners.offset for coef in linear.coef]
        mixed = base + np.tensordot(weights[:n_terms], np.stack(alone) - base, axes=1)
        level = b if blank.loss == "squared" else 0.0
        mixed += weights[n_terms:] @ (stream.learners.mixture.recent - level)
        assert_allclose(mean, mixed, atol=1e-9)
        if isinstance(blank, Filter):
            cov = stream.covariance(model.features(grid, None))
            assert_allclose(np.diagonal(cov) + 0.1, variance, rtol=1e-9)


def test_the_local_size_of_errors_is_the_discounted_mean_of_their_logarithms():
    """In one cell; the first row has no error. Between cells it is shrunk to that of all rows."""
    X, Y, s = wave(60, 6.0)
    stream, errors = begin(1e-9, [1.0, 1.0]), []
    for i in range(0, 60, 7):
        part = slice(max(i, 1), i + 7)  # as it is predicted: the first row by itself
        known = stream if i else batches(begin(1e-9, [1.0, 1.0]), (X[:1], Y[:1] + 3.0, s[:1]), 1)
        errors.append(Y[part, 0] + 3.0 - known.scores(X[part], None)[:, 0])
        stream = stream.learn(X[i : i + 7], Y[i : i + 7] + 3.0, s[i : i + 7], None)
    errors, keep = np.concatenate(errors), 0.5 ** (1 / SIZE_HALF_LIFE)
    weight = keep ** np.arange(58, -1, -1)
    assert_allclose(stream.sizes.intercept, weight @ np.log(np.abs(errors)) / weight.sum())
    # The level is that of the last errors, so their scale is 1; it is larger far away.
    assert_allclose(stream.spread().errors[:, 0], errors[::-1], rtol=1e-6)
    near, far = stream.scores_and_scale(np.array([X[0], [1e12, 0.0]]), None)[1]
    assert near == pytest.approx(1.0)
    assert far > 1.5


# --- forests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fitted", [0, 60])
def test_forest_leaves_are_those_of_a_fit_on_the_same_trees(fitted):
    X, Y, _ = wave(150, 6.0)
    y, labels = Y[:, 0], (Y[:, 0] > 0).astype(int)
    weight = RNG.integers(1, 4, 150).astype(float)
    given = {"lifetime": 3.0, "alpha": 0.5, "n_estimators": 6, "scale": None, "random_state": 0}
    given["forgetting"] = None
    for cls, targets in ((MondrianForestRegressor, y), (MondrianForestClassifier, labels)):
        forest = cls(**given)
        if fitted:
            forest.fit(X[:fitted], targets[:fitted], weight[:fitted])
        kwargs = {"classes": [0, 1]} if cls is MondrianForestClassifier else {}
        for a in range(fitted, 150, 30):
            forest.partial_fit(
                X[a : a + 30], targets[a : a + 30], sample_weight=weight[a : a + 30], **kwargs
            )
        batch = cls.from_features(forest.features_, 0.5).fit(X, targets, weight)
        again = cls.from_features(forest.features_.at(3.0), 0.5).fit(X, targets, weight)
        new = RNG.uniform(-0.2, 1.2, size=(50, 2))
        predict = "predict_proba" if kwargs else "predict"
        for other in (batch, again):
            assert_allclose(getattr(forest, predict)(new), getattr(other, predict)(new), atol=1e-12)
        # Features of a stream go on; forests that were put on them do not follow.
        forest.partial_fit(X, targets)
        assert_allclose(getattr(batch, predict)(new), getattr(again, predict)(new), atol=1e-12)


def test_a_forest_on_given_trees_is_fitted_first():
    X, Y, _ = wave(50, 6.0)
    model = MondrianKernelRegressor(1.0, 0.1, 5, random_state=0).fit(X, Y[:, 0])
    forest = MondrianForestRegressor.from_features(model.features_, scale=model.scale_)
    with pytest.raises(ValueError, match="fitted before"):
        forest.partial_fit(X, Y[:, 0])
    forest.fit(X, Y[:, 0]).partial_fit(X + 0.01, Y[:, 0])
    assert (model.features_.trees_.count[model.features_.trees_.root] == 50).all()


@pytest.mark.parametrize("lifetime", ["auto", 30.0])
def test_at_the_cap_memory_stands_still_and_learning_goes_on(lifetime):
    cap = 200
    forest = MondrianForestRegressor(
        lifetime, 0.1, n_estimators=4, scale=None, max_cells=cap, forgetting=None, random_state=0
    )
    X, Y, _ = wave(20_000, 6.0)
    sizes, errors = [], []
    for i in range(0, 20_000, 500):
        if i:
            errors.append(np.mean((forest.predict(X[i : i + 500]) - Y[i : i + 500, 0]) ** 2))
        forest.partial_fit(X[i : i + 500], Y[i : i + 500, 0])
        stream = forest._stream
        n_nodes, room = stream.online.freeze().time.size, stream.online._table.time.size
        sizes.append((n_nodes, room, stream.learners.table.size))
    assert stream.online.n_cells[-1] == cap
    assert len(set(sizes[20:])) == 1
    trees = stream.online.freeze()
    assert trees.count[trees.root].tolist() == [20_000] * 4
    # After the cap the target turns round; the leaves follow, with half of the rows.
    for i in range(0, 20_000, 500):
        forest.partial_fit(X[i : i + 500], 3.0 - Y[i : i + 500, 0])
    # The widths that no longer serve may have been given up meanwhile.
    n_cells = forest._stream.online.n_cells[-1]
    assert n_cells <= cap if lifetime == "auto" else n_cells == cap
    assert abs(forest.predict(X).mean() - 1.5) < 0.2
    assert np.mean(errors[-5:]) < 0.5 * Y.var()
