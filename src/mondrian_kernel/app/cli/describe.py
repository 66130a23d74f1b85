"""What there is to say of a model of a table, and how it is said."""

from __future__ import annotations

from typing import Any

import numpy as np

from mondrian_kernel.app.cli.console import lines
from mondrian_kernel.app.table.model import TableModel
from mondrian_kernel.app.table.training import COVERAGE

_SHOWN = 4  # dims that count most


def describe(model: TableModel) -> dict[str, Any]:
    """Return what there is to say of a model."""
    estimator = model.estimator
    return {
        "task": model.task,
        "target": model.target,
        "columns": dict(zip(model.columns.names, model.columns.categories, strict=True)),
        "dims": len(model.columns.dims),
        "rows": model.n_rows,
        "trees": estimator.features_.n_estimators,
        "cells": estimator.features_.n_cells_,
        "lifetime": estimator.lifetime_,
        "alpha": estimator.alpha_,
        "relevance": dict(zip(model.columns.dims, _relevance(model), strict=True)),
        "held_out": model.held_out,
    }


def _relevance(model: TableModel) -> list[float]:
    """How much each dim counts; also where that was learnt by another fit, and given as a scale."""
    found: list[float] = np.round(model.columns.scale / model.estimator.scale_, 2).tolist()
    return found


def relevance_words(relevance: dict[str, float]) -> str:
    """Dims that count most, in a line."""
    most = sorted(relevance, key=lambda dim: -relevance[dim])
    words = ", ".join(f"{dim} {relevance[dim]:.2g}" for dim in most[:_SHOWN])
    return f"{words}, ..." if len(most) > _SHOWN else words


def held_out_words(task: str, scores: dict[str, Any]) -> str:
    """Scores on the rows held out, in lines."""
    if not scores:
        return "  no rows were held out"
    if task == "regression":
        told = [
            ("root mean squared error", f"{scores['rmse']:.4g}   "
             f"(predicting the mean: {scores['rmse_of_the_mean']:.4g})"),
            ("R²", f"{scores['r2']:.3f}"),
            (f"{100 * COVERAGE:.0f} % intervals cover", f"{100 * scores['coverage']:.1f} %   "
             f"(mean width {scores['interval_width']:.4g})"),
        ]  # fmt: skip
    else:
        told = [
            ("accuracy", f"{scores['accuracy']:.3f}   "
             f"(commonest class: {scores['accuracy_of_the_commonest']:.3f})"),
            ("log loss", f"{scores['log_loss']:.4g}   "
             f"(class frequencies: {scores['log_loss_of_the_frequencies']:.4g})"),
        ]  # fmt: skip
    return f"  on {scores['rows']} rows held out\n{lines(told, '    ')}"
