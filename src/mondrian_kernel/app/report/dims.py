"""The part of a report on which dims matter: how the error changes as one is shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.inspection import permutation_importance

from mondrian_kernel._typing import FloatArray
from mondrian_kernel.app.report.figure import Figure, Section, Table, number, plain

_REPEATS, _SHOWN = 3, 20
_PREDICTIONS, _ROWS = 30_000, (100, 500)


def dims_section(
    estimator: Any, X: FloatArray, y: NDArray[Any], names: Sequence[str], scoring: Any, error: str
) -> tuple[str, Section]:
    """Return a sentence for the summary and the section; ``error`` says what grows."""
    n = int(np.clip(_PREDICTIONS // (_REPEATS * len(names)), *_ROWS))
    X, y = X[:n], y[:n]
    found = permutation_importance(
        estimator, X, y, scoring=scoring, n_repeats=_REPEATS, random_state=0
    )
    mean, std = found.importances_mean, found.importances_std
    order = np.argsort(-mean, kind="stable")[:_SHOWN]
    labels = [str(names[d]) for d in order]
    matter = [d for d in order if mean[d] > 2 * std[d]]
    if matter:
        listed = ", ".join(f"{names[d]} (+{number(mean[d])})" for d in matter[:3])
        sentence = (
            f"What matters most, by how much the {error} grows as a dim is shuffled: {listed}."
        )
    else:
        sentence = "No dim matters clearly: shuffling any of them leaves the error as it is."
    silent = int(np.sum(mean <= 2 * std))
    share = f"{silent} of {len(names)} dims make no" if silent else "Every dim makes a"
    caption = (
        f"Growth of the {error} when one dim is shuffled among {X.shape[0]} test rows, mean and "
        f"standard deviation of {_REPEATS} shuffles. {share} clear difference. "
        "Dims that say the same share their effect between them."
    )
    if len(names) > _SHOWN:
        caption += f" The first {_SHOWN} are shown."
    spec = {
        "kind": "bars", "labels": labels, "values": plain(mean[order]), "spread": plain(std[order]),
        "x": {"label": f"growth of the {error}"},
    }  # fmt: skip
    relevance = estimator.relevance_
    rows = [[names[d], number(mean[d]), number(std[d]), number(relevance[d])] for d in order]
    header = ["dim", f"growth of the {error}", "standard deviation", "relevance in the kernel"]
    table = Table(header, rows)
    figure = Figure("dims", "Error as a dim is shuffled", caption, spec, table)
    return sentence, Section("Which dims matter", [figure])
