"""
Kernel and forest on the same trees
===================================

A Mondrian forest fits every tree separately and averages the predictions. The Mondrian kernel fits
the leaves of all trees together. Both can use the same trees, at every lifetime. Ren, Cao, Wei and
Sun (2015) fit the leaves of a forest again, all together, and call this *global refinement*. For a
Mondrian forest it gives the Mondrian kernel.
"""

# %%
# One sample of trees
# -------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from mondrian_kernel import MondrianFeatures, MondrianForestRegressor

X, y = make_friedman1(1000, n_features=5, noise=1.0, random_state=0)
X = StandardScaler().fit_transform(X)
X_test, y_test, X, y = X[500:], y[500:], X[:500], y[:500]
features = MondrianFeatures(lifetime=3.0, n_estimators=100, random_state=0).fit(X)

# %%
# Every lifetime
# --------------
# ``features.at(λ)`` is the same trees at an earlier time. For both methods the penalty is the best
# one on the test rows, so that the comparison does not depend on how it is chosen.

lifetimes, alphas = np.geomspace(0.02, 3.0, 12), np.logspace(-2, 1, 4)
errors = {"forest": [], "kernel": []}
for lifetime in lifetimes:
    at = features.at(lifetime)
    Phi, Phi_test = at.transform(X), at.transform(X_test)
    forests = [MondrianForestRegressor.from_features(at, a).fit(X, y) for a in alphas]
    kernels = [Ridge(a).fit(Phi, y) for a in alphas]
    errors["forest"].append(min(np.std(f.predict(X_test) - y_test) for f in forests))
    errors["kernel"].append(min(np.std(k.predict(Phi_test) - y_test) for k in kernels))

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, paint in ("forest", "#d21f1b"), ("kernel", "#1f4e9c"):
    ax.semilogx(lifetimes, errors[name], "o-", color=paint, label=name)
    best = int(np.argmin(errors[name]))
    print(f"{name}: least error {errors[name][best]:.2f} at lifetime {lifetimes[best]:.2g}")
ax.axhline(1.0, color="#777777", linestyle="--", label="noise")
ax.set(xlabel="lifetime λ", ylabel="error on new rows")
ax.legend()
plt.show()

# %%
# Refining a forest
# -----------------
# Fit the residuals of the forest on the features of its own trees. The penalty then applies to the
# difference from the forest's leaf values, and not to the weights themselves. This is the only
# difference between a refined forest and the kernel.

forest = MondrianForestRegressor.from_features(features.at(0.5), alpha=0.1).fit(X, y)
Phi, Phi_test = forest.features_.transform(X), forest.features_.transform(X_test)
refinement = Ridge(alpha=0.1).fit(Phi, y - forest.predict(X))
kernel = Ridge(alpha=0.1).fit(Phi, y)
refined = forest.predict(X_test) + refinement.predict(Phi_test)
for name, prediction in (
    ("forest", forest.predict(X_test)),
    ("forest, refined", refined),
    ("kernel", kernel.predict(Phi_test)),
):
    print(f"{name:<16} error {np.std(prediction - y_test):.2f}")
