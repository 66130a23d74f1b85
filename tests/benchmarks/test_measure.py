import os
import time

import numpy as np
import pytest
from numba.core import event

from benchmarks.measure import best_of, clocked, in_child, machine


def test_compiling_does_not_count_however_deep():
    def call():
        for _ in range(2):
            with (
                event.trigger_event("numba:compiler_lock"),
                event.trigger_event("numba:compiler_lock"),
            ):
                time.sleep(0.05)
        return "done"

    begin = time.perf_counter()
    result, times = clocked(call)
    total = time.perf_counter() - begin
    assert result == "done"
    # A sleep lasts at least as long as asked for; nested events count once.
    assert 0 <= times["wall"] <= total - 0.1


def test_calls_take_turns():
    order = []
    costs = best_of(2, lambda: order.append("a"), lambda: order.append("b"))
    assert order == ["a", "b", "a", "b"]
    assert [set(found) for found in costs] == [{"wall", "cpu", "mb"}] * 2


def test_a_child_is_another_process_that_answers_raises_or_is_stopped():
    assert in_child(os.getpid, ()) != os.getpid()
    with pytest.raises(FileNotFoundError):
        in_child(os.stat, ("/no such file",))
    assert in_child(time.sleep, (60,), limit=0.01) is None
    with pytest.raises(MemoryError, match="killed"):
        in_child(os._exit, (1,))


def of_two_calls():
    """Memory of a call that needs 64 MB for a while, and of one that does not."""
    return [clocked(call)[1]["mb"] for call in (lambda: np.ones(2**23).sum(), lambda: None)]


def test_memory_is_the_peak_of_the_call_and_of_no_other():
    large, none = in_child(of_two_calls, ())
    assert large > 60
    assert none < 4


def test_the_machine_says_what_was_measured():
    found = machine()
    assert found["cpus"] == os.cpu_count()
    assert {"mondrian-kernel", "numpy", "scikit-learn"} <= set(found["versions"])
