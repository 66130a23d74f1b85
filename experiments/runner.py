"""Run experiments, write their results and figures, and the table of claims."""

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import sklearn
from threadpoolctl import threadpool_limits

import mondrian_kernel
from experiments.claims import Outcome, with_table
from experiments.cpu_data import DataMissing, load_cpu
from experiments.schemes import Tick

NAMES = (
    "partition",
    "kernel-error",
    "cpu-error",
    "width-recovery",
    "width-search",
    "kernel-and-forest",
)
"""Names of the experiments, in the order of the paper."""

_STEPS = 100  # progress steps per experiment


def run(
    names: Sequence[str] | None = None,
    *,
    data: Path | None = None,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Outcome]:
    """Run experiments: write ``out/results``, ``out/figures`` and the table in ``out/README.md``.

    A file is written completely or not at all. After Ctrl-C, finished experiments are kept and
    listed in the table.

    Parameters
    ----------
    names : sequence of str or None, default=None
        Some of `NAMES`; None for all.
    data : Path or None, default=None
        Folder with cpu_act.csv.gz. None: the folder in the environment variable
        MONDRIAN_KERNEL_DATA, or OpenML. Without the data, experiments that need it are skipped;
        with ``quick`` they run on synthetic data.
    out : Path
        Folder to write to; created if it does not exist.
    quick : bool, default=False
        Whether to run at small sizes.
    seed : int, default=0
        Seed of all random numbers.
    progress : callable or None, default=None
        Called as ``progress(done, total, text)``.

    Returns
    -------
    outcomes : list of Outcome
        For each name the claims with the measured numbers and the files, or why it was skipped.
    """
    names = NAMES if names is None else tuple(names)
    for name in names:
        if name not in NAMES:
            raise ValueError(f"There is no experiment {name!r}; there are {', '.join(NAMES)}.")
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise ImportError(
            "The experiments draw figures and need matplotlib: pip install 'mondrian-kernel[plot]'."
        ) from error
    out = Path(out)
    for folder in ("results", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    outcomes = []
    try:
        for k, name in enumerate(names):

            def tick(part: float, text: str, k: int = k, name: str = name) -> None:
                if progress is not None:
                    done = int(_STEPS * (k + part))
                    progress(done, _STEPS * len(names), f"{name}: {text}" if text else name)

            tick(0.0, "")
            outcomes.append(_run_one(name, data, out, quick, seed, tick))
            tick(1.0, "")
    finally:
        write_table(out)
    return outcomes


def _run_one(
    name: str, data: Path | None, out: Path, quick: bool, seed: int, tick: Tick
) -> Outcome:
    experiment = _module(name)
    split = None
    if experiment.NEEDS_CPU_DATA:
        try:
            split = load_cpu(data, quick=quick, seed=seed)
        except DataMissing as missing:
            return Outcome(name, skipped=str(missing))
    begin = time.process_time()
    # With one thread CPU times are comparable, and the result does not depend on the cores.
    with threadpool_limits(1):
        inputs = () if split is None else (split,)
        found = experiment.compute(*inputs, quick=quick, seed=seed, tick=tick)
    modules = {"mondrian_kernel": mondrian_kernel, "numpy": np, "scikit-learn": sklearn}
    versions = {name: module.__version__ for name, module in modules.items()}
    result = {
        "experiment": name,
        "quick": quick,
        "seed": seed,
        **({"data": split.name, "source": split.source} if split else {}),
        **found,
        "cpu_seconds": time.process_time() - begin,
        "versions": {"python": platform.python_version(), **versions},
    }
    path = out / "results" / f"{name}.json"
    # One line per key, because an indented list has one line per number.
    lines = [f'"{key}": {json.dumps(v, allow_nan=False)}' for key, v in _plain(result).items()]
    _write(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    files = [path, *draw(path, out / "figures")]
    return Outcome(name, claims=experiment.claims(json.loads(path.read_text())), files=files)


def draw(result: Path, folder: Path) -> list[Path]:
    """Draw the figures of a result file into a folder and return the files written."""
    from experiments import drawing  # needs matplotlib

    found = json.loads(result.read_text())
    files = []
    with drawing.style():
        for figure_name, figure in _module(found["experiment"]).draw(found).items():
            for ending, content in drawing.encode(figure).items():
                files.append(folder / f"{figure_name}.{ending}")
                _write(files[-1], content)
    return files


def write_table(out: Path) -> None:
    """Put the claims of all results in ``out`` into its README, between the markers."""
    rows = {}
    for name in NAMES:
        path = out / "results" / f"{name}.json"
        if path.exists():
            found = json.loads(path.read_text())
            sizes = ", small sizes" if found["quick"] else ""
            data = f", {found['data']}" if "data" in found else ""
            rows[name + data + sizes] = _module(name).claims(found)
    readme = out / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else "# The paper's experiments\n"
    _write(readme, with_table(text, rows).encode())


def _module(name: str) -> ModuleType:
    return import_module(f"experiments.{name.replace('-', '_')}")


def _write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """Turn arrays into lists and round to six digits, which is enough for figures."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and np.isfinite(value):
        return float(f"{value:.6g}")
    return value
