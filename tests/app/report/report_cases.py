"""Small models of every kind that a report is written on."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mondrian_kernel import MondrianKernelClassifier, MondrianKernelRegressor
from mondrian_kernel.app.report import write_report

TREES = {"n_estimators": 20, "random_state": 0}
NASTY = "</script><script>window.hacked = 1</script><b>&amp;'\""


@dataclass
class Case:
    """A fitted model with its rows, and what the report calls them."""

    model: Any
    X: Any
    y: Any
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        half = len(self.y) // 2
        self.train, self.test = (self.X[:half], self.y[:half]), (self.X[half:], self.y[half:])
        self.model.fit(*self.train)

    def write(self, file, **options):
        options = {"title": "A title", "target": "height", **self.options, **options}
        return write_report(file, self.model, *self.train, *self.test, **options)


def rows(n_columns, n=200):
    return np.random.default_rng(0).uniform(size=(n, n_columns))


def heights(X, noise=0.1):
    rng = np.random.default_rng(1)
    return np.sin(6 * X[:, 0]) + X[:, -1] + noise * rng.normal(size=len(X))


def named():
    frame = pd.DataFrame(rows(3), columns=["east", "north", "age"])
    return Case(
        MondrianKernelRegressor("path", **TREES), frame, pd.Series(heights(frame.to_numpy()))
    )


def plane():
    X = rows(2)
    return Case(
        MondrianKernelRegressor("path", **TREES), X, heights(X),
        {"title": NASTY, "target": NASTY, "feature_names": [NASTY, "north"]},
    )  # fmt: skip


def table():
    X = rows(2)
    kind = np.select([X[:, 1] < 0.1, X[:, 1] < 0.5], [None, "brick"], "wood")
    frame = pd.DataFrame({"area": np.where(X[:, 0] < 0.1, np.nan, X[:, 0]), "kind": kind})
    return Case(MondrianKernelRegressor(2.0, 0.1, **TREES), frame, heights(X) + (kind == "wood"))


def learnt():
    X = rows(2)
    return Case(MondrianKernelRegressor(**TREES), X, heights(X))


def fixed():
    X = rows(1)
    return Case(MondrianKernelRegressor(5.0, 0.1, **TREES), X, heights(X))


def fixed_lifetime():
    X = rows(2)
    return Case(MondrianKernelRegressor(5.0, **TREES), X, heights(X))


def constant():
    X = rows(2)
    return Case(MondrianKernelRegressor(0.0, 0.1, **TREES), X, heights(X))


def averaged():
    X = rows(2)
    return Case(MondrianKernelRegressor("average", **TREES), X, heights(X))


def streamed():
    X = rows(3)
    case = Case(MondrianKernelRegressor(**TREES), X, heights(X))
    case.model.fit(X[:50], case.y[:50]).partial_fit(X[50:100], case.y[50:100])
    return case


def two_classes():
    X = rows(2)
    y = np.where(heights(X, 0.5) > 1, "high", "low")
    return Case(MondrianKernelClassifier(**TREES), X, y)


def many_classes():
    X = rows(3, 400)
    return Case(MondrianKernelClassifier(2.0, 0.1, **TREES), X, np.floor(15 * X[:, 0]).astype(int))


def hinge():
    X = rows(2)
    y = np.digitize(X[:, 0], [0.3, 0.6])
    return Case(MondrianKernelClassifier("path", loss="hinge", **TREES), X, y)


MAKERS = {
    maker.__name__: maker
    for maker in (
        named,
        plane,
        table,
        learnt,
        fixed,
        fixed_lifetime,
        constant,
        averaged,
        streamed,
        two_classes,
        many_classes,
        hinge,
    )
}
