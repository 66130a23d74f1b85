import os
import time

import numpy as np
import pytest

from benchmarks.measure import best_of, clocked, in_child, machine, slope


def test_slope_is_the_exponent():
    sizes = np.array([10, 100, 1000])
    assert slope(sizes, 3 * sizes**1.5) == pytest.approx(1.5)


def test_clocked_returns_the_result_and_both_times():
    result, times = clocked(lambda: "done")
    assert result == "done"
    assert set(times) == {"wall_seconds", "cpu_seconds"}


def test_calls_take_turns():
    order = []
    times = best_of(2, lambda: order.append("a"), lambda: order.append("b"))
    assert order == ["a", "b", "a", "b"]
    assert len(times) == 2


def test_a_child_is_another_process_that_answers_raises_or_is_stopped():
    assert in_child(os.getpid) != os.getpid()
    with pytest.raises(FileNotFoundError):
        in_child(os.stat, "/no such file")
    assert in_child(time.sleep, 60, limit=0.01) is None
    with pytest.raises(MemoryError, match="killed"):
        in_child(os._exit, 1)


def test_the_machine_says_what_was_measured():
    found = machine()
    assert found["cpus"] == os.cpu_count()
    assert {"mondrian-kernel", "numpy", "scikit-learn"} <= set(found["versions"])
