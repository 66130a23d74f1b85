import numpy as np
import pytest

from benchmarks import data
from benchmarks.features import at_budget
from benchmarks.rivals import CentredRidge, Tuned
from benchmarks.streams import trees_in
from benchmarks.width import summary


def test_time_to_one_percent_is_when_the_error_first_came_that_near():
    found = summary([(1.0, 0.5), (2.0, 0.2019), (3.0, 0.3), (4.0, 0.2)])
    assert found == {"held_out_error": 0.2, "seconds_to_one_percent": 2.0, "seconds": 4.0}


def step(seconds, non_zeros, rmse):
    return {
        "m": {
            "fit_transform": {"cpu_seconds": seconds},
            "non_zeros_a_row": non_zeros,
            "kernel_rmse": rmse,
        }
    }


def test_errors_at_a_budget_lie_on_the_line_between_two_sizes_in_logarithms():
    ladder = [step(1.0, 10, 0.1), step(4.0, 1000, 0.01)]
    found = at_budget(ladder, "m", step(2.0, 100, None)["m"])
    assert found["equal_time"] == pytest.approx(10**-1.5)
    assert found["equal_non_zeros"] == pytest.approx(10**-1.5)


def test_there_is_no_error_outside_of_what_was_measured():
    ladder = [step(1.0, 10, 0.1), step(4.0, 1000, 0.01)]
    found = at_budget(ladder, "m", step(5.0, 9, None)["m"])
    assert found == {"equal_time": None, "equal_non_zeros": None}


def test_whole_numbers_from_zero_without_a_gap_are_classes():
    assert data.is_classes(np.array([0.0, 2.0, 1.0, 1.0]))
    assert not data.is_classes(np.array([3.0, 4.0, 5.0]))
    assert not data.is_classes(np.array([0.0, 0.5, 1.0]))
    assert not data.is_classes(np.arange(1000.0))


def test_a_split_is_scaled_by_its_training_rows_and_shares_none(tmp_path):
    X = np.arange(50.0)[:, None]
    split = data.random_split(X, X[:, 0], seed=1, max_train=30, max_test=5)
    assert split.X.mean() == pytest.approx(0)
    assert split.X.std() == pytest.approx(1)
    assert not set(split.y) & set(split.y_test)
    assert split.X.shape == (30, 1)
    assert split.X_test.shape == (5, 1)


def test_a_missing_folder_or_file_says_what_to_do(tmp_path):
    with pytest.raises(SystemExit, match="MONDRIAN_KERNEL_DATA"):
        data.names(tmp_path)
    with pytest.raises(SystemExit, match=r"cpu_act\.csv\.gz is missing"):
        data.cpu_act(tmp_path)


def test_the_tuned_rival_finds_a_width_that_fits():
    X, y = data.curve(300, 3)
    model = Tuned(
        CentredRidge(kernel="laplacian"), {"gamma": [1e-3, 1.0], "alpha": [0.3]}, n_some=100
    ).fit(X[:200], y[:200])
    # Nearer than the grid came: a step of √3 from one of its values.
    assert model.best_.gamma == pytest.approx(1 / 3**0.5)
    assert np.std(model.predict(X[200:]) - y[200:]) < 0.8 * np.std(y[200:])


def test_trees_for_a_time_lie_on_the_line_through_two_runs():
    def of(n_trees, microseconds):
        return {"trees": n_trees, "learn_us": microseconds, "predict_us": 0.0}

    # A tree more costs 1 µs in the part, 2 µs in the whole, of which nine tenths are taken.
    assert trees_in(400.0, of(10, 200.0), of(10, 100.0), of(100, 190.0)) == 10 + 90
    assert trees_in(100.0, of(10, 200.0), of(10, 100.0), of(100, 190.0)) == 1
    assert trees_in(1e6, of(10, 200.0), of(10, 100.0), of(100, 190.0)) == 1000
