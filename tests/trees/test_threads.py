"""Work in pieces."""

import multiprocessing
import signal
import threading
import time
from itertools import pairwise

import pytest

from mondrian_kernel._trees.threads import in_threads, n_threads


def pieces(n, n_jobs, **options):
    return in_threads(lambda begin, end: (begin, end), n, n_jobs, **options)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_pieces_follow_each_other(n, n_jobs):
    found = pieces(n, n_jobs)
    assert found[0][0] == 0
    assert found[-1][1] == n
    assert all(one[1] == two[0] for one, two in pairwise(found))


def test_all_cores_unless_openmp_has_fewer(monkeypatch):
    monkeypatch.setattr("mondrian_kernel._trees.threads.effective_n_jobs", {-1: 8, 3: 3}.get)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert n_threads(None) == 8
    for given, used in {"2": 2, "100": 8, "4,1": 4, "0": 8, "": 8, "many": 8}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert n_threads(None) == used
        assert n_threads(3) == 3


def test_little_is_done_in_one_piece():
    assert pieces(100, 2, work=10) == [(0, 100)]


def test_in_other_threads_which_are_kept():
    names = {n for _ in range(20) for n in in_threads(lambda a, b: threading.get_ident(), 8, 2)}
    assert len(names) <= 2
    assert threading.get_ident() not in names


def test_a_thread_does_not_wait_for_its_own_pool():
    assert in_threads(lambda a, b: pieces(8, 2), 2, 2) == [[(0, 8)], [(0, 8)]]


def test_what_is_raised_is_raised_here():
    def fail(begin, end):
        raise ArithmeticError(f"at {begin}")

    with pytest.raises(ArithmeticError, match="at 0"):
        in_threads(fail, 8, 2)
    assert len(pieces(8, 2)) == 8


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    pieces(8, 2)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(pieces(8, 2)))
    child.start()
    try:
        assert receiver.poll(30), "the child waits for threads that it does not have"
        assert receiver.recv() == pieces(8, 2)
    finally:
        child.kill()
        child.join()


class Pieces:
    """Pieces of work that wait, and what became of them."""

    def __init__(self, first):
        self.first, self.begun, self.ended = first, [], []

    def __call__(self, begin, end):
        self.begun.append(begin)
        if begin == 0:
            self.first()
        time.sleep(0.2)
        self.ended.append(begin)


def interrupt():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def interrupt_twice():
    interrupt()
    time.sleep(0.1)
    interrupt()


def fail():
    raise ArithmeticError


ERRORS = [
    (interrupt, KeyboardInterrupt, 0),
    (interrupt_twice, KeyboardInterrupt, 0),
    (fail, ArithmeticError, 1),
]


@pytest.mark.parametrize(("first", "error", "n_lost"), ERRORS)
def test_nothing_runs_any_more_when_an_error_is_raised(first, error, n_lost):
    pieces = Pieces(first)
    with pytest.raises(error):
        in_threads(pieces, 8, 2)
    begun, ended = len(pieces.begun), len(pieces.ended)
    assert begun < 8, "pieces that had not begun were not dropped"
    assert ended == begun - n_lost, "a piece still runs"
    time.sleep(0.5)
    assert (len(pieces.begun), len(pieces.ended)) == (begun, ended)
    assert len(in_threads(lambda begin, end: begin, 8, 2)) == 8, "the pool is broken"
