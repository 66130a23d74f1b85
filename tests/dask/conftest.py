"""No test of a cluster waits for ever."""

import signal

import pytest

SECONDS = 120


def _ring(*_):
    raise TimeoutError(f"Not done after {SECONDS} seconds.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Interrupt what hangs in a test, or in setting up or closing the cluster that it uses."""
    before = signal.signal(signal.SIGALRM, _ring)
    # Again and again, as closing may hang as well.
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
