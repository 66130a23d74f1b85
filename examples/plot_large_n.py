"""
Many rows
=========

The time of exact kernel ridge regression grows with the cube of the number of rows. The time to
compute Mondrian features is proportional to the number of rows. With more than some thousand rows,
fit a model on the features, or learn each row once.
"""

# %%
# Time against rows
# -----------------

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge

from mondrian_kernel import MondrianKernelRegressor


def draw(n):
    """Return rows of five columns and a function of three of them, with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)


X_test, y_test = draw(2000)
sizes, seconds = [500, 1000, 2000, 4000, 20_000, 40_000], {}
models = {
    "exact kernel": KernelRidge(alpha=0.3, kernel="laplacian", gamma=0.3),
    "Mondrian kernel, fit": MondrianKernelRegressor(0.15, 0.3, 100, random_state=0),
    "Mondrian kernel, one pass": MondrianKernelRegressor(
        n_estimators=50, max_cells=50_000, random_state=0
    ),
}
most = {"exact kernel": 4000, "Mondrian kernel, fit": 20_000, "Mondrian kernel, one pass": 40_000}
for model in models.values():  # compiled or loaded before anything is timed
    learn = getattr(model, "partial_fit", model.fit)
    learn(*draw(2000))

# %%
# The third model is not given a width or a penalty. It uses each row once, a thousand at a time.
# Its memory is bounded by ``max_cells``.

for name, model in models.items():
    seconds[name] = []
    for n in (n for n in sizes if n <= most[name]):
        X, y = draw(n + 2000)
        X, y = X[2000:], y[2000:]
        begin = time.process_time()
        if name.endswith("one pass"):
            model = MondrianKernelRegressor(**model.get_params())
            for first in range(0, n, 1000):
                model.partial_fit(X[first : first + 1000], y[first : first + 1000])
        else:
            model.fit(X, y)
        seconds[name].append(time.process_time() - begin)
    error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    print(f"{name:<26} {n:>6} rows: {seconds[name][-1]:6.2f} s, error {error:.3f} (noise: 0.3)")

# %%
# The figure shows CPU seconds. For rows that do not fit on one machine see
# :mod:`mondrian_kernel.dask`.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, values), paint in zip(seconds.items(), ("#777777", "#1f4e9c", "#d21f1b"), strict=True):
    ax.loglog(sizes[: len(values)], values, "o-", color=paint, label=name)
ax.set(xlabel="rows", ylabel="seconds")
ax.legend()
plt.show()
