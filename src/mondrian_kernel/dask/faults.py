"""Errors of a cluster in plain words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager


@contextmanager
def clear_errors() -> Iterator[None]:
    """Say what happened where the scheduler is lost, workers die or something does not pickle."""
    with warnings.catch_warnings():
        # The cuts so far go to the workers in every round, and may be many megabytes.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        try:
            yield
        except CancelledError as error:
            raise RuntimeError(
                f"The work was cancelled, most likely as the Dask scheduler was lost ({error}). "
                "Nothing was changed: connect a new distributed.Client and fit again."
            ) from error
        except TypeError as error:
            if "Could not serialize" not in str(error):
                raise
            raise TypeError(
                "X, y or sample_weight hold something that cannot be sent to workers: "
                f"{error.__cause__ or error}. Make them of functions and data "
                "that pickle, or use dask's threaded scheduler."
            ) from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            raise RuntimeError(
                "Workers died again and again at the same block, most likely for want of memory. "
                "Give them more, or X smaller blocks; their logs say why."
            ) from error
