import pytest

from benchmarks.readme_table import filled
from benchmarks.rivals import OURS
from benchmarks.tables import accuracy, classification, rendered, speed


def fit(error, **more):
    return {"error": error, "fit": {"wall_seconds": 12.3}, "predict": {"wall_seconds": 1.0}, **more}


@pytest.fixture
def results():
    sets = {
        "first": {
            "task": "regression",
            "n_train": 100,
            "fits": {
                OURS: [fit(0.2, coverage=0.88), fit(0.3, coverage=0.92)],
                "ExtraTrees": [fit(0.3), fit(0.4)],
                "Nystroem": [fit(0.1), {"over_seconds": 5}],
            },
        },
        "second": {
            "task": "classification",
            "n_train": 200,
            "fits": {
                OURS: [fit(0.125, log_loss=0.5)],
                "ExtraTrees": [fit(0.1)],
            },
        },
    }
    return {"end_to_end": {"sets": sets}}


def test_the_least_mean_is_bold_and_a_method_that_ran_out_of_time_says_so(results):
    lines = accuracy(results).split("\n")
    assert lines[0] == f"| data | rows | {OURS} | Nystroem | ExtraTrees | coverage | seconds |"
    assert lines[1] == "|---|---:|---:|---:|---:|---:|---:|"
    assert lines[2] == "| first | 100 | **0.250** | too slow | 0.350 | 90 % | 12 |"
    assert len(lines) == 5


def test_our_own_fit_may_be_too_slow_as_well(results):
    results["end_to_end"]["sets"]["first"]["fits"][OURS][1] = {"over_seconds": 180}
    assert "| first | 100 | too slow | too slow | **0.350** | – | over 180 |" in accuracy(results)


def test_classes_are_shown_in_percent_with_the_log_loss(results):
    assert "| second | 200 | 12.5 | **10.0** | 0.500 | 12 |" in classification(results)


def test_tables_of_parts_that_were_not_run_are_left_out(results):
    assert {"accuracy", "classification"} <= set(rendered(results))
    assert not {"speed", "features", "streams"} & set(rendered(results))
    with pytest.raises(KeyError):
        speed(results)


def test_a_table_goes_between_its_marks_and_nothing_else_changes():
    text = "a\n<!-- speed -->\nold\n<!-- end -->\nb\n<!-- accuracy -->\nkept\n<!-- end -->\nc\n"
    found = filled(text, {"speed": r"| \1 |", "streams": "not in the text"})
    assert found == text.replace("old", r"| \1 |")


def test_streams_are_shown_beside_river(results):
    run = {"error": 0.1, "learn_times_faster": 30.0, "predict_times_faster": 60.0}
    kinds = ("river", "adaptive forest", "single rows", "batches", "equal time")
    found = {"rows": 9, **{kind: dict(run, time_over_rivers=0.9) for kind in kinds}}
    steps = [{"rows": 5, "rows_a_second": 66_000.0, "grown_by_mb": 16.5, "cells": 7, "rmse": 0.25}]
    memory = {"bike": {"times_smaller": 5.5}}
    results["streams"] = {"streams": {"bike": found}, "memory": memory, "million rows": steps}
    tables = rendered(results)
    assert (
        "| bike | 9 | 0.100 | 0.100 | 0.100 | 0.100 | 0.100 | 0.9 | 30 | 60 | 30 | 5.5 |"
        in (tables["streams"])
    )
    assert "| 5 | 66000 | 16.5 | 7 | 0.250 |" in tables["long_stream"]
