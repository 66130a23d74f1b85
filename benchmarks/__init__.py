"""Measurements beside what a user would pick instead; see ``python -m benchmarks --help``."""

PARTS = {
    "accuracy": "error, time, memory and model size of models beside their rivals, on every set",
    "growth": "error and time against the number of rows",
    "intervals": "score, coverage and cost of intervals and quantiles",
    "streams": "learning row by row beside river's forests",
    "anomalies": "outliers found, beside isolation forests and half-space trees",
    "trees": "error and time against the number of trees, and with all columns alike",
    "path": "the lifetime path beside one exact kernel ridge; ridge after every cut",
    "features": "feature maps: time, memory, error of the kernel",
    "cold_start": "imports, first calls with nothing compiled, what is compiled",
    "dask": "rows a second and memory of a fit on two Dask workers",
}
