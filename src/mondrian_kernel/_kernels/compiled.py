"""The decorator of every kernel: numba compiles it, and a disk keeps it if one can be written."""

import gc
import os
import warnings
from contextlib import contextmanager, suppress
from functools import partial

from numba import config, njit
from numba.core import event
from numba.core.caching import FunctionCache, NullCache


def kernel(function=None, **options):
    """Compile a function by numba without the GIL, and keep it on disk for later processes.

    Use as ``@kernel`` or ``@kernel(inline="always")``; the options are those of ``numba.njit``.
    """
    if function is None:
        return partial(kernel, **options)
    compiled = njit(nogil=True, **options)(function)
    if not config.DISABLE_JIT:
        compiled._cache = _cache(function)
    return compiled


def _cache(function):
    """Return numba's cache of a function, or one that keeps nothing if no folder is writable."""
    try:
        return _Cache(function)
    except RuntimeError:  # numba found "no locator"
        _warn("no folder for it can be written")
        return NullCache()


class _Cache(FunctionCache):
    """A cache on disk whose faults cost a compilation and nothing else."""

    def load_overload(self, sig, target_context):
        try:
            with _without_collection():
                found = super().load_overload(sig, target_context)
        except Exception:  # a damaged file raises anything, and counts as a missing one
            return self._remove()
        # Two processes that save different signatures at once may both write file number 1.
        if found is not None and tuple(found.signature.args) != tuple(getattr(sig, "args", sig)):
            return self._remove()
        return found

    def save_overload(self, sig, data):
        _compiled.append(self._name)
        try:
            super().save_overload(sig, data)
        except Exception as fault:
            self._remove()
            self.disable()
            _warn(f"{self.cache_path} cannot be written ({getattr(fault, 'strerror', fault)})")

    def _remove(self):
        """Remove the index, which numba writes before the file that it names."""
        with suppress(OSError):
            os.unlink(self._cache_file._index_path)


@contextmanager
def _without_collection():
    """Pause the garbage collector, which takes 13 % of compiling and of loading compiled code.

    Numba's lock is held, so that one thread does either.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Compiling(event.Listener):
    """Pause the garbage collector while numba compiles. A called function is compiled within."""

    def __init__(self):
        self._open = []

    def on_start(self, compiling):
        self._open.append(_without_collection())
        self._open[-1].__enter__()

    def on_end(self, compiling):
        self._open.pop().__exit__(None, None, None)


event.register("numba:compile", _Compiling())


def n_compiled():
    """Return how many kernels this process has compiled rather than read from a disk."""
    return len(_compiled)


def _warn(reason):
    """Warn, once in a process, that kernels are kept in memory only."""
    if not _warned:
        _warned.append(reason)
        warnings.warn(
            f"Compiled code is kept in memory only: {reason}. Each new process compiles again, "
            "for some seconds. Set the environment variable NUMBA_CACHE_DIR to a folder with room "
            "that you may write to.",
            RuntimeWarning,
            stacklevel=3,
        )


_warned: list[str] = []
_compiled: list[str] = []
