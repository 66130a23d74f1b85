r"""
Learning the width
==================

The data are drawn from a Gaussian process with the kernel :math:`\exp(-\lambda \lVert x - x'
\rVert_1)` and λ = 10, so there is a right answer. The model does not know λ.
"""

# %%
# Fit
# ---
# ``lifetime="path"`` chooses one width. ``scale=None`` keeps the columns as they are, so that
# lifetimes can be compared with the true one.

import matplotlib.pyplot as plt
import numpy as np
from scipy import linalg
from sklearn.metrics.pairwise import laplacian_kernel

from mondrian_kernel import MondrianKernelRegressor, lifetime_path
from mondrian_kernel.datasets import make_laplace_gp
from mondrian_kernel.plotting import IntervalDisplay, LifetimePathDisplay, PartitionDisplay

X, y = make_laplace_gp(900, 2, lifetime=10.0, noise=0.1, random_state=0)
model = MondrianKernelRegressor("path", n_estimators=500, scale=None, random_state=0)
model.fit(X[:600], y[:600])
print(f"lifetime {model.lifetime_:.3g} (true: 10), alpha {model.alpha_:.3g} (true: 0.01)")
print(f"R² on new rows {model.score(X[600:], y[600:]):.3f}")

# %%
# Trees, path and predictions
# ---------------------------
# The left figure shows the cells of one tree at half the chosen lifetime. The middle one shows the
# leave-one-out error and the number of cells against the lifetime, with the chosen lifetime. The
# right one shows predictions of new rows with 90 % intervals.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
PartitionDisplay.from_features(model.features_, lifetime=model.lifetime_ / 2, ax=left)
left.set_title("one of 500 trees, halfway")
LifetimePathDisplay.from_estimator(model, ax=middle)
middle.set_title("every width on the same trees")
shown = IntervalDisplay.from_estimator(model, X[600:750], y[600:750], coverage=0.9, ax=right)
right.set_title(f"new rows, {100 * shown.covered:.0f} % in their intervals")

# sphinx_gallery_thumbnail_number = 1

# %%
# More trees, less bias
# ---------------------
# The kernel of few trees is rough, and a larger lifetime compensates for that. With every criterion
# the chosen width is too small, and more so with fewer trees. Here the width is chosen with M
# trees, by the leave-one-out error and by the evidence, for four data sets with little noise. It is
# compared with the width that the exact kernel chooses in the same way.

lifetimes, alpha, sizes = np.geomspace(4, 50, 16), 1e-4, [25, 50, 100, 200]


def exact_widths(X, y):
    """Return the lifetimes with the lowest leave-one-out error and with the highest evidence."""
    target, loo, evidence = y - y.mean(), [], []
    for lifetime in lifetimes:
        K = laplacian_kernel(X, gamma=lifetime) + alpha * np.eye(y.size)
        inverse = linalg.inv(K)
        dual = inverse @ target
        loo.append(np.mean((dual / np.diag(inverse)) ** 2))
        # The log-likelihood, with the most likely variance of the signal.
        evidence.append(-y.size * np.log(target @ dual) - np.linalg.slogdet(K)[1])
    return lifetimes[np.argmin(loo)], lifetimes[np.argmax(evidence)]


found = {"leave-one-out": [], "evidence": []}
for seed in range(4):
    X_s, y_s = make_laplace_gp(400, 2, lifetime=10.0, noise=0.01, random_state=seed)
    paths = [
        lifetime_path(
            X_s, y_s, n_estimators=M, lifetimes=lifetimes, alphas=[alpha], random_state=seed
        )
        for M in sizes
    ]
    by_loo = [path.lifetimes[path.loo_error[:, 0].argmin()] for path in paths]
    by_evidence = [path.lifetimes[path.log_marginal_likelihood[:, 0].argmax()] for path in paths]
    exact = exact_widths(X_s, y_s)
    found["leave-one-out"].append([*by_loo, exact[0]])
    found["evidence"].append([*by_evidence, exact[1]])

# %%
# Geometric means over the data sets:

means = {name: np.exp(np.mean(np.log(rows), axis=0)) for name, rows in found.items()}
print("trees         " + "".join(f"{size:>8}" for size in [*sizes, "exact"]))
for name, row in means.items():
    print(f"{name:<14}" + "".join(f"{value:8.1f}" for value in row))

# %%
# The same numbers as a figure:

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, row), paint in zip(means.items(), ("#1f4e9c", "#d21f1b"), strict=True):
    ax.loglog(sizes, row[:-1], "o-", color=paint, label=name)
    ax.axhline(row[-1], color=paint, linestyle="--", label=f"{name}, exact kernel")
ax.axhline(10.0, color="black", linewidth=1, label="true")
ax.set(xlabel="number of trees M", ylabel="lifetime found", xticks=sizes)
ax.set_xticklabels(sizes)
ax.minorticks_off()
ax.set_yticks([5, 10, 20, 40], ["5", "10", "20", "40"])
ax.legend(fontsize="small")
plt.show()
