"""The files that commands read and write: places that can be written, models of tables."""

from __future__ import annotations

from pathlib import Path

from mondrian_kernel.app.table.model import TableModel
from mondrian_kernel.persistence import load


def require_place(file: str | None) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if file == "-":
        raise ValueError("Only predictions can be written to a pipe: give the name of a file.")
    folder = Path(file or ".").parent
    if not folder.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(folder))


def load_table_model(file: str, n_jobs: int) -> TableModel:
    """Load a model of a table, and no other, to be used with so many threads."""
    model = load(file)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{file}: it holds a {type(model).__name__}, not a model that 'fit' has written."
        )
    model.estimator.n_jobs = model.estimator.features_.n_jobs = n_jobs
    return model
