import numpy as np
import pytest

from benchmarks.accuracy import TABLES
from benchmarks.growth import errors
from benchmarks.methods import OURS, SEARCHED
from benchmarks.pictures import beside_best, growth_curves, headline
from benchmarks.record import Key, Results
from benchmarks.streams import CLASS, FEW, LONG
from benchmarks.streams import TABLES as STREAM_TABLES
from benchmarks.tables import filled, of_cells, rendered, shown, table


def fit(key, task, error, cpu=2.0, **more):
    return key._asdict() | {
        "task": task, "error": error, "rows": 100, "fit": {"cpu": cpu, "wall": cpu, "mb": 4.0},
        "predict": {"cpu": 1.0, "wall": 1.0}, "size_mb": 1.0, "run": 0, **more,
    }  # fmt: skip


@pytest.fixture
def cells():
    found = {}
    for name, task, method, values in (
        ("first", "regression", OURS, (0.2, 0.3)),
        ("first", "regression", "CatBoost", (0.3, 0.5)),
        ("first", "regression", "CatBoost" + SEARCHED, (0.1, 0.1)),
        ("first", "regression", "LightGBM", (0.5, 0.7)),
        ("first", "regression", "ExtraTrees", (0.6, None)),
        ("second", "classification", OURS, (0.125,)),
        ("second", "classification", "CatBoost", (0.1,)),
    ):
        for split, value in enumerate(values):
            key = Key(name, split, method)
            more = {"coverage": 0.9, "interval_score": 1.5} if method == OURS else {}
            found[key] = fit(key, task, value, 4.0 if method == OURS else 2.0, **more)
            if value is None:
                found[key] = key._asdict() | {"over_seconds": 5, "run": 0}
    return found


def test_the_least_mean_is_bold_and_a_method_that_ran_out_of_time_says_so(cells):
    lines = TABLES["accuracy"](cells).split("\n")
    assert lines[0] == (
        f"| data | rows | {OURS} | CatBoost | LightGBM | ExtraTrees | ours / best rival | p "
        "| coverage of 90 % | interval score | fit, CPU s |"
    )
    # Searched methods are neither a column nor the best rival. By hand: differences -0.1 and -0.2,
    # t = -0.15 / √((1/2 + 1/4) 0.005), and with one degree of freedom p = 1 - 2 atan(|t|)/π.
    p = 1 - 2 * np.arctan(0.15 / np.sqrt(0.75 * 0.005)) / np.pi
    assert lines[2] == (
        f"| first | 100 | **0.250 ± 0.071** | 0.400 ± 0.141 | 0.600 ± 0.141 | too slow "
        f"| 0.625 | {p:.2g} | 0.9 | 1.5 | 4 |"
    )
    assert len(lines) == 3


def test_classes_are_shown_in_percent(cells):
    assert "| second | 100 | 12.5 | **10.0** | 1.25 | – | 4 |" in TABLES["classification"](cells)
    assert TABLES["log_loss"](cells) is None
    assert TABLES["harder_regression"](cells) is None


def test_the_summary_has_ratios_to_each_rival_searched_or_not(cells):
    lines = TABLES["summary_regression"](cells).split("\n")
    assert lines[2] == "| CatBoost | 1 | 0.625 | 1 | – | 2 | 1 | 1 | 1 |"
    assert lines[3].startswith(f"| CatBoost{SEARCHED} | 1 | 2.5 | 0 |")


def test_dots_are_ratios_to_the_best_rival_with_defaults(cells):
    assert beside_best(cells, "regression") == {"first": pytest.approx((0.625, 2.0))}
    assert beside_best(cells, "classification") == {"second": pytest.approx((1.25, 2.0))}


def test_the_pictures_name_sets_and_methods(cells):
    texts = [text.get_text() for text in headline(cells).axes[0].texts]
    assert texts == ["first", "second"]
    grown = {}
    for n in (1000, 3000):
        key = Key("smooth", n, OURS)
        grown[key] = fit(key, "regression", 100 / n)
    (panel,) = growth_curves(grown).axes
    assert panel.get_title() == "smooth"
    assert panel.lines[0].get_xdata().tolist() == [1000, 3000]
    assert "| smooth | 3000 | 0.0333 (2) |" in errors(grown)


def test_numbers_are_shown_with_their_digits():
    assert [shown(v) for v in (0.12345, 12345.6, 7, None, np.nan, np.inf, "word", 0.0)] == [
        "0.123", "12346", "7", "–", "–", "too slow", "word", "0",
    ]  # fmt: skip
    assert table([]) is None
    found = of_cells({Key("x", 3, "a"): {"set": "x", "split": 3, "fit": {"cpu": 0.25}, "n": 5},
                      Key("y", 3, "a"): {"set": "y", "failed": "no"}},
                     {"split": "rows", "n": "cells", "fit.cpu": "s", "none": "none"})  # fmt: skip
    assert found.split("\n")[2:] == ["| 3 | 5 | 0.25 | – |"]


def test_tables_are_read_from_files_and_say_where_they_come_from(tmp_path, cells):
    assert rendered(tmp_path) == {}
    results = Results(tmp_path / "accuracy.json")
    results.begin({"date": "today", "seed": 3, "splits": 5, "versions": {"numpy": "2.0"}})
    for key, cell in cells.items():
        results.put(key, cell)
    tables = rendered(tmp_path)
    assert {"accuracy", "summary_classification", "ranks"} <= set(tables)
    assert "growth" not in tables
    assert tables["setup_accuracy"] == (
        "- 12 cells: date today, seed of the splits 3 to 7, splits 5, numpy 2.0"
    )


def test_times_on_two_threads_stand_beside_those_on_one(tmp_path, cells):
    run = {"date": "d", "seed": 0, "splits": 1, "versions": {}}
    for name, factor in ("accuracy", 1.0), ("accuracy-2threads", 0.5):
        results = Results(tmp_path / f"{name}.json")
        results.begin(run)
        for key, values in cells.items():
            if "fit" in values:
                ours = key.method == OURS
                fit = values["fit"] | {"wall": values["fit"]["cpu"] * (factor if ours else 1.0)}
                results.put(key, values | {"fit": fit})
    titles, _, *lines = rendered(tmp_path)["two_threads"].split("\n")
    assert "| fit, 1 thread | fit, 2 threads | predict, 1 thread |" in titles
    assert lines == [
        f"| {rival} | 2 | 1 | 1 | 1 |" for rival in ("CatBoost", "LightGBM", "ExtraTrees")
    ]


def test_a_table_goes_between_its_marks_and_nothing_else_changes():
    text = "a\n<!-- one -->\nold\n<!-- end -->\nb\n<!-- two -->\nkept\n<!-- end -->\nc\n"
    found = filled(text, {"one": r"| \1 |", "three": "not in the text"})
    assert found == text.replace("old", r"| \1 |")


def test_streams_are_shown_beside_river():
    times = {"AMF": 30.0, "ARF": 60.0, FEW: 15.0, CLASS: 20.0, OURS: 25.0}
    found = {
        Key("bike", 0, name): {"set": "bike", "method": name, "error": 0.1, "rows": 9,
                               "learn_us": us, "predict_us": us, "batch_learn_us": us / 3,
                               "batch_predict_us": us / 5}
        for name, us in times.items()
    }  # fmt: skip
    step = {"rows": 5, "rows_a_second": 66_000.0, "grown_by_mb": 16.5, "cells": 7, "rmse": 0.25}
    found[Key(LONG, 0, OURS)] = {"set": LONG, "method": OURS, "steps": [step]}
    line = "| bike | 33333 | 33333 | 6 | 10 | 2 | 2 | 1.5 | 1.5 |"
    assert line in STREAM_TABLES["stream_speed"](found)
    assert "| 5 | 66000 | 16.5 | 7 | 0.25 |" in STREAM_TABLES["long_stream"](found)
