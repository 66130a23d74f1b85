"""Outliers put into data sets: who finds them, in a batch and in a stream.

Three per cent of the rows are replaced: by numbers drawn from the ranges of the columns, or by
values of each column taken from other rows. In a batch all rows are fitted and scored. In a stream
a row is scored before it is learnt.
"""

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from benchmarks import data
from benchmarks.record import Cell, Key
from benchmarks.tables import table
from mondrian_kernel import MondrianFeatures

SETS = ("cpu_act", "california", "magic", "satimage", "wine_quality", "elevators")
KINDS = ("drawn", "shuffled")
METHODS = ("IsolationForest", "score_samples", "HalfSpaceTrees", "MondrianAnomaly")
ROWS, SHARE, START = 4000, 0.03, 250  # START: rows before HalfSpaceTrees gives scores


def plan(options):
    """Cells by set and method; the split is the kind of outliers."""
    n_rows = min(options.rows, 500 if options.quick else ROWS)
    return {
        Key(name, k, method): Cell(one_method, (str(options.data), name, n_rows, kind, method))
        for name in options.some(SETS, 1)
        for k, kind in enumerate(KINDS)
        for method in METHODS
    }


def with_outliers(folder, name, n_rows, kind):
    """Rows in a random order, and which of them are outliers."""
    rng = np.random.default_rng(0)
    X = data.read(folder, name)[0]
    X = X[rng.permutation(len(X))[:n_rows]]
    found = rng.uniform(size=len(X)) < SHARE
    shape = int(found.sum()), X.shape[1]
    if kind == "drawn":
        X[found] = rng.uniform(X.min(axis=0), X.max(axis=0), shape)
    else:
        X[found] = np.take_along_axis(X, rng.integers(0, len(X), shape), axis=0)
    return X, found


def one_method(folder, name, n_rows, kind, method):
    """Area under the curve of one method."""
    X, is_outlier = with_outliers(folder, name, n_rows, kind)
    if method == "IsolationForest":
        scores = -IsolationForest(random_state=0).fit(X).score_samples(X)
    elif method == "score_samples":
        std = X.std(axis=0)
        X = X / np.where(std > 0, std, 1.0)
        scores = -MondrianFeatures(4.0 / X.shape[1], random_state=0).fit(X).score_samples(X)
    else:
        scores, is_outlier = stream_scores(method, X)[START:], is_outlier[START:]
    return {"auc": float(roc_auc_score(is_outlier, scores))}


def stream_scores(method, X):
    """Scores of rows before they are learnt."""
    from river import anomaly, preprocessing

    from mondrian_kernel.river import MondrianAnomaly

    if method == "HalfSpaceTrees":
        model = preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(n_trees=100, seed=0)
    else:
        model = preprocessing.StandardScaler() | MondrianAnomaly(n_estimators=100, seed=0)
    scores = []
    for row in X.tolist():
        x = dict(enumerate(row))
        scores.append(model.score_one(x))
        model.learn_one(x)
    return np.array(scores)


def areas(cells):
    """Areas under the curve, a line for each set and kind of outliers."""
    rows = []
    for name in SETS:
        for k, kind in enumerate(KINDS):
            found = {m: cells.get(Key(name, k, m), {}).get("auc") for m in METHODS}
            if None not in found.values():
                rows.append({"set": name, "outliers": kind} | found)
    return table(rows)


TABLES = {"anomalies": areas}
