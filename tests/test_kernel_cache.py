"""Kernels run wherever they are installed: on a disk that is read-only, full, damaged or shared."""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import TypingError, njit
from numba.core import event

import mondrian_kernel
import mondrian_kernel._kernels.compiled

# Two kernels, one of which calls the other, with the sum that they must give.
CALL = """
import numpy as np
from mondrian_kernel._kernels.descent import row_scores
cells, weights = np.arange(6, dtype=np.int32).reshape(3, 2), np.arange(6.0)[:, None]
scores = np.empty((3, 1))
for i in range(3):
    row_scores(cells, weights, i, scores[i])
print(int(scores @ [1] @ [1, 10, 100]))
"""
# Room for an index, not for code.
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
NO_PLACE = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "NUMBA_CACHE_DIR": os.devnull}


def started(source, code=CALL, **environment):
    """Start a process that calls a kernel of an installation."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"} | {
        name: str(value) for name, value in environment.items()
    }
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process):
    """Wait for a process that must succeed; return what it printed and its warnings."""
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return int(printed), said.count("RuntimeWarning: Compiled code is kept in memory only")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a copy of the package whose kernels have no folder for numba's files."""
    folder = tmp_path_factory.mktemp("installed")
    here = Path(mondrian_kernel.__file__).parent
    shutil.copytree(
        here, folder / "mondrian_kernel", ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    (folder / "mondrian_kernel" / "_kernels" / "__pycache__").write_text("not a folder")
    return folder


@pytest.fixture(scope="module")
def right(source, tmp_path_factory):
    result, warnings = outcome(started(source, NUMBA_CACHE_DIR=tmp_path_factory.mktemp("cache")))
    assert warnings == 0
    return result


def test_no_place_that_can_be_written_costs_one_warning(source, right):
    assert outcome(started(source, **NO_PLACE)) == (right, 1)


def test_a_full_disk_costs_one_warning_and_leaves_no_index(source, right, tmp_path):
    """Numba writes the index first: one that names a file of an older version would run it."""
    assert outcome(started(source, FULL + CALL, NUMBA_CACHE_DIR=tmp_path)) == (right, 1)
    assert not list(tmp_path.rglob("*.nbi"))
    assert outcome(started(source, NUMBA_CACHE_DIR=tmp_path)) == (right, 0)


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_damaged_files_are_written_again(source, right, tmp_path, kind):
    outcome(started(source, NUMBA_CACHE_DIR=tmp_path))
    files = {file: file.read_bytes() for file in tmp_path.rglob(f"*.{kind}")}
    assert files
    for file, content in files.items():
        file.write_bytes(content[: len(content) // 2])
    assert outcome(started(source, NUMBA_CACHE_DIR=tmp_path)) == (right, 0)
    assert {file.stat().st_size for file in files} == {len(content) for content in files.values()}


def test_a_file_with_another_signature_is_not_run(source, right, tmp_path):
    """Two processes that write file number 1 at once may leave the code of one for the other."""
    other = CALL.replace("np.empty((3, 1))", "np.empty((3, 1), np.float32)")
    outcome(started(source, other, NUMBA_CACHE_DIR=tmp_path / "other"))
    (wrong,) = (tmp_path / "other").rglob("descent.row_scores*.nbc")
    outcome(started(source, NUMBA_CACHE_DIR=tmp_path / "new"))
    (target,) = (tmp_path / "new").rglob("descent.row_scores*.nbc")
    target.write_bytes(wrong.read_bytes())
    assert outcome(started(source, NUMBA_CACHE_DIR=tmp_path / "new")) == (right, 0)


def test_processes_that_start_at_once_share_a_folder(source, right, tmp_path):
    processes = [started(source, NUMBA_CACHE_DIR=tmp_path) for _ in range(4)]
    assert [outcome(process) for process in processes] == [(right, 0)] * 4
    assert not list(tmp_path.rglob("*.tmp.*"))


def test_the_collector_pauses_while_a_function_is_compiled():
    class Watch(event.Listener):
        on = []

        def on_start(self, compiling):
            self.on.append(gc.isenabled())

        def on_end(self, compiling):
            pass

    inner = njit(lambda x: x + 1)
    with event.install_listener("numba:compile", Watch()) as watch:
        njit(lambda x: inner(x) + 1)(1)
        assert gc.isenabled()
        with pytest.raises(TypingError):
            njit(lambda x: x.nothing)(1)
    assert watch.on == [False] * 3
    assert gc.isenabled()


FIT = """
import numpy as np
from mondrian_kernel import MondrianKernelRegressor
X = np.random.default_rng(0).normal(size=(40, 2))
model = MondrianKernelRegressor(n_estimators=4, random_state=0).fit(X, np.sin(X[:, 0]))
print(*model.predict(X[:5] + 0.01))
"""


def test_without_compiling_a_fit_gives_the_same_predictions():
    said = [
        subprocess.run(
            [sys.executable, "-c", FIT],
            env={**os.environ, "NUMBA_DISABLE_JIT": off},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for off in ("0", "1")
    ]
    compiled, plain = np.array(said, dtype=float)
    np.testing.assert_allclose(plain, compiled, rtol=1e-3, atol=1e-4)  # sums in single precision
