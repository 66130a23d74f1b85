"""
A stream that drifts
====================

``partial_fit`` learns rows as they arrive. In this stream the function changes halfway. One model
never forgets. The other one, the default, learns on the way how fast old rows must lose weight.
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


# %%
# Predict, then learn
# -------------------

models = {
    name: MondrianKernelRegressor(n_estimators=40, forgetting=forgetting, random_state=0)
    for name, forgetting in (("never forgets", None), ("learns to forget", "auto"))
}
errors = {name: [] for name in models}
for begin in range(0, N, BATCH):
    rows = slice(begin, begin + BATCH)
    for name, model in models.items():
        if begin:
            errors[name].append(np.mean((model.predict(X[rows]) - y[rows]) ** 2))
        model.partial_fit(X[rows], y[rows])

for name in models:
    print(f"{name:<17} error of the last 1000 rows {np.mean(errors[name][-20:]):.3f}")

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
