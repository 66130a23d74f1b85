"""A small table of houses, as rows and as a file."""

import csv

import numpy as np

N = 60


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x, kind = rng.uniform(size=n), rng.integers(3, size=n)
    y = 3 * x + kind + 0.05 * rng.normal(size=n)
    kinds = np.array(["brick", "wood", "stone"])[kind]
    return [
        {"area": f"{a:.4f}", "kind": k, "price": f"{p:.4f}", "sold": "yes" if p > 2.5 else "no"}
        for a, k, p in zip(x, kinds, y, strict=True)
    ]


def write(file, table):
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return str(file)
