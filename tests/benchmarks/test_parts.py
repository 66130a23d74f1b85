import json
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from benchmarks import PARTS, accuracy, check, data
from benchmarks.accuracy import interval_score
from benchmarks.growth import plan as growth_plan
from benchmarks.intervals import LEVELS, calibration_error, conformal, from_intervals, scores
from benchmarks.methods import OURS
from benchmarks.record import Key, Options, path_of, run
from benchmarks.streams import METHODS, TABLES, read, recovery


@pytest.fixture
def options(tmp_path):
    X, y = data.smooth(200)
    for name in ("small", "protein", "phishing"):
        table = pd.DataFrame(np.c_[X, y], columns=[*(f"x{d}" for d in range(10)), "y"])
        table.to_csv(tmp_path / f"{name}.csv.gz", index=False)
    return Options(data=tmp_path, out=tmp_path, splits=1)


def test_a_part_is_measured_and_shown_from_end_to_end(options):
    chosen = {"sets": ["small"], "methods": [OURS, "ExtraTrees", "ExtraTrees, searched"]}
    options = Options(**vars(options) | chosen)
    cells = run("accuracy", accuracy.plan(options), options).cells
    assert [key.method for key in cells] == chosen["methods"]
    assert not [cell["failed"] for cell in cells.values() if "failed" in cell]
    ours, _, searched = cells.values()
    assert searched["budget"] == ours["fit"]["cpu"]
    assert ours["rows"] == 160
    assert 0 < ours["error"] < 1
    assert 0.5 < ours["coverage"] <= 1
    lines = accuracy.TABLES["accuracy"](cells).split("\n")
    assert lines[2].startswith("| small | 160 | ")
    assert path_of("accuracy", options).exists()


@pytest.mark.parametrize("part", sorted(set(PARTS) - {"growth", "accuracy"}))
def test_every_part_has_a_plan_of_functions_that_a_process_can_call(options, part):
    module = import_module(f"benchmarks.{part}")
    cells = module.plan(options.made_quick())
    assert cells
    for key, cell in cells.items():
        assert isinstance(key, Key)
        assert getattr(import_module(cell.call.__module__), cell.call.__name__) is cell.call
    assert all(make({}) is None for make in module.TABLES.values() if part != "trees")


def test_growth_ends_with_all_rows_and_begins_with_few(options, monkeypatch):
    monkeypatch.setattr("benchmarks.growth.SETS", ("protein", "smooth"))
    monkeypatch.setattr("benchmarks.growth.MOST", 10_000)
    cells = growth_plan(options)
    sizes = {name: sorted({key.split for key in cells if key.set == name}) for name in
             ("protein", "smooth")}  # fmt: skip
    assert sizes == {"protein": [160], "smooth": [1000, 3000, 10_000]}
    assert cells[Key("smooth", 3000, OURS)].needs == (Key("smooth", 1000, OURS),)


def test_the_interval_score_is_the_length_and_twenty_times_the_miss():
    assert interval_score(np.array([0.5, 1.2]), np.zeros(2), np.ones(2), 0.9) == pytest.approx(
        (1 + 1 + 20 * 0.2) / 2
    )


def test_true_quantiles_have_their_coverage_and_the_least_scores():
    y = np.random.default_rng(0).normal(size=20_000)
    true = np.tile(norm.ppf(LEVELS), (y.size, 1))
    found, wider = scores(y, true, 1.0), scores(y, 1.3 * true, 1.0)
    # Six standard deviations of a share of 0.9 of the rows, and of a fifth of them.
    assert found["coverage"] == pytest.approx(0.9, abs=6 * np.sqrt(0.09 / y.size))
    assert found["worst_fifth"] == pytest.approx(0.9, abs=6 * np.sqrt(0.09 * 5 / y.size))
    assert found["interval_score"] < wider["interval_score"]
    assert found["pinball"] < wider["pinball"]


def test_conformal_quantiles_cover_whatever_the_regression_says():
    X, y = data.smooth(4000)
    quantiles = conformal(lambda *_: lambda new: np.zeros((len(new), LEVELS.size)), X, y, 0, 1)(X)
    shares = np.mean(y[:, None] <= quantiles, axis=0)
    # From 800 rows: six standard deviations of a share.
    np.testing.assert_array_less(np.abs(shares - LEVELS), 6 * np.sqrt(LEVELS * (1 - LEVELS) / 800))


def test_ends_of_intervals_are_quantiles_in_order():
    ends = [np.array([[-w, w]]) for w in (5, 4, 3, 2, 1)]
    np.testing.assert_array_equal(from_intervals(ends, np.zeros(1)), [np.arange(-5, 6)])


def test_the_calibration_error_is_how_far_probabilities_are_off():
    rng = np.random.default_rng(0)
    right = rng.uniform(0.5, 1.0, size=20_000)
    chances = np.column_stack([1 - right, right])
    y = (rng.random(right.size) < right).astype(int)
    # In each of 8 bins a mean of 2500 differences of deviation up to 0.5 is up to 0.01 off.
    assert calibration_error(y, chances) < 0.01
    sure = np.column_stack([0 * right, 0 * right + 1])
    assert calibration_error(y, sure) == pytest.approx(1 - y.mean())


def test_a_model_is_back_when_the_error_of_500_rows_is_near_that_before_the_drift():
    lost = np.ones(8000)
    lost[4000:4700] = 3.0
    found = recovery(lost, np.mean)
    # At most 25 of the 500 rows may cost 3; the end of the rows moves in steps of 50.
    assert found == {"before": 1.0, "after": pytest.approx(2200 / 800), "back_after": 1200}
    lost[4000:] = 3.0
    assert recovery(lost, np.mean)["back_after"] is None


def test_drawn_streams_change_after_half_of_the_rows():
    pytest.importorskip("river")
    for name in ("friedman_abrupt", "sea_abrupt", "agrawal_abrupt", "agrawal_gradual"):
        X, y, classes = read("", name, 400, 0)
        assert X.shape[0] == y.size == 400
        assert classes == (name != "friedman_abrupt")
    # The same rows, and from row 200 on another rule.
    for name in ("sea_abrupt", "agrawal_abrupt"):
        (X, y, _), (Z, z, _) = (read("", name, n, 0) for n in (400, 800))
        assert np.array_equal(X[:200], Z[:200])
        assert np.array_equal(y[:200], z[:200])
        assert (y[200:] != z[200:400]).any()


def test_methods_are_shown_with_their_spread_or_a_dash():
    cells = {
        Key("elec2", seed, method): {"set": "elec2", "method": method, "rows": 9, "error": error}
        for method in METHODS
        for seed, error in enumerate((0.1, 0.3))
    }
    text = TABLES["streams"](cells)
    assert text.count("0.2 ± 0.1") == len(METHODS)
    cells.pop(Key("elec2", 0, "AMF"))
    cells.pop(Key("elec2", 1, "AMF"))
    text = TABLES["streams"](cells)
    assert text.count("0.2 ± 0.1") == len(METHODS) - 1
    assert text.count("| – |") == 1


@pytest.mark.parametrize(
    ("now", "culprit"),
    [((1.0, 1.0, 1.0), None), ((1.11, 1.0, 1.0), "error on smooth"), ((1.0, 1.31, 1.0), "fit on")],
)
def test_a_loss_beyond_what_is_allowed_fails(tmp_path, monkeypatch, now, culprit):
    options = Options(data=tmp_path, out=tmp_path)
    monkeypatch.setattr(check, "problems", lambda *_: {"smooth": None})
    answers = [dict(zip(check.ALLOWED, values, strict=True)) for values in ((1.0,) * 3, now)]
    monkeypatch.setattr(check, "ratios", lambda _: answers[0])
    check.run(options, store=True)
    assert json.loads((tmp_path / "check.json").read_text()) == {"smooth": answers[0]}
    monkeypatch.setattr(check, "ratios", lambda _: answers[1])
    if culprit is None:
        check.run(options)
    else:
        with pytest.raises(SystemExit, match=culprit):
            check.run(options)


def test_the_smallest_check_compares_errors_alone(tmp_path, monkeypatch):
    options = Options(data=tmp_path, out=tmp_path)
    monkeypatch.setattr(check, "problems", lambda *_: {"smooth": None})
    monkeypatch.setattr(check, "ratios", lambda _: {"error": 1.0, "fit": 1.0, "predict": 1.0})
    check.run(options, store=True)
    monkeypatch.setattr(check, "ratios", lambda _: {"error": 1.0, "fit": 9.0, "predict": 9.0})
    check.run(options, smallest=True)
    monkeypatch.setattr(check, "ratios", lambda _: {"error": 1.2, "fit": 1.0, "predict": 1.0})
    with pytest.raises(SystemExit, match="error on smooth"):
        check.run(options, smallest=True)


def test_a_time_that_is_worse_only_once_is_bad_luck(monkeypatch):
    answers = iter(
        [{"error": 1.0, "fit": 9.0, "predict": 1.0}] * 2 + [dict.fromkeys(check.ALLOWED, 1.0)]
    )
    monkeypatch.setattr(check, "ratios", lambda _: next(answers))
    stored = dict.fromkeys(check.ALLOWED, 1.0)
    assert check.checked(None, stored) == stored
