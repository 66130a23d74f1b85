"""
A stream that drifts
====================

``partial_fit`` learns rows as they arrive. In this stream the function changes halfway. One model
learns all rows. The other one is replaced by a new model when its errors suddenly rise.
"""

# %%
# The stream
# ----------

import matplotlib.pyplot as plt
import numpy as np

from mondrian_kernel import MondrianKernelRegressor

rng = np.random.default_rng(0)
N, CHANGE, BATCH = 6000, 3000, 50
X = rng.uniform(size=(N, 2))
before, after = np.sin(8 * X[:, 0]) + X[:, 1], np.cos(8 * X[:, 0]) - X[:, 1]
y = np.where(np.arange(N) < CHANGE, before, after) + 0.2 * rng.normal(size=N)


def new_model():
    """Return a model that learns its lifetime and scale from the stream."""
    return MondrianKernelRegressor(n_estimators=40, max_cells=40_000, random_state=0)


# %%
# Predict, then learn
# -------------------
# If the mean error of a batch is far above the usual one, the function has probably changed. A new
# model then starts with the last two batches.

models = {"learns all rows": new_model(), "starts again": new_model()}
errors = {name: [] for name in models}
starts = []
for begin in range(0, N, BATCH):
    rows = slice(begin, begin + BATCH)
    for name in models:
        if begin:
            errors[name].append(np.mean((models[name].predict(X[rows]) - y[rows]) ** 2))
        if name == "starts again" and len(errors[name]) > 20:
            usual = np.array(errors[name][-20:-1])
            if errors[name][-1] > usual.mean() + 6 * usual.std():
                starts.append(begin)
                models[name] = new_model()
                recent = slice(begin - BATCH, begin)
                models[name].partial_fit(X[recent], y[recent])
        models[name].partial_fit(X[rows], y[rows])

print("started again at rows", starts)
for name, model in models.items():
    late = np.mean(errors[name][-20:])
    print(f"{name:<15} error of the last 1000 rows {late:.3f}, width 1/{model.lifetime_:.3g}")

# %%
# The noise has a variance of 0.04. No model can have a lower error.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
window = np.ones(5) / 5
for (name, values), paint in zip(errors.items(), ("#1f4e9c", "#d21f1b"), strict=True):
    smooth = np.convolve(values, window, mode="valid")
    ax.semilogy(BATCH * np.arange(5, 5 + smooth.size), smooth, color=paint, label=name)
ax.axvline(CHANGE, color="black", linestyle=":", label="the function changes")
ax.axhline(0.04, color="#777777", linestyle="--", label="noise")
ax.set(xlabel="rows so far", ylabel="mean squared error before learning")
ax.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
ax.minorticks_off()
ax.legend()
plt.show()
