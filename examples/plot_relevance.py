"""
Which columns count
===================

In the paper's Laplace kernel all columns count equally, also those that have nothing to do with y.
Models that choose their width also learn a relevance r for each column. Their kernel is
:math:`\\exp(-\\lambda \\sum_d r_d |x_d - x'_d|)` on the scaled columns.
"""

# %%
# Ten columns, five of which matter
# ---------------------------------
# Friedman's function is a sine of the product of the first two columns, plus a parabola in the
# third column, plus a linear function of the fourth and the fifth. The other five columns are
# noise.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

from mondrian_kernel import MondrianKernelRegressor

X, y = make_friedman1(n_samples=3000, n_features=10, noise=1.0, random_state=0)
X, X_test, y, y_test = X[:1000], X[1000:], y[:1000], y[1000:]


def report(name, model):
    """Print the error of a fitted model on the test rows."""
    error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    print(f"{name:<17} root mean squared error {error:.2f} (the noise alone: 1)")


equal = MondrianKernelRegressor(relevance="equal", n_estimators=500, random_state=0).fit(X, y)
learnt = MondrianKernelRegressor(n_estimators=500, random_state=0).fit(X, y)
report("equal relevances", equal)
report("learnt relevances", learnt)

# %%
# The relevances
# --------------
# They are 1 on average. A relevance says how *fast* y changes along a column, not by how much: a
# linear function needs a smaller relevance than a sine.

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
paint = np.where(np.arange(10) < 5, "#1f4e9c", "#bbbbbb")
ax.bar(np.arange(10), learnt.relevance_, color=paint)
ax.axhline(1.0, color="k", lw=0.8)
ax.set(xticks=np.arange(10), xlabel="column (grey: noise)", ylabel="relevance")
plt.show()

# %%
# If the lifetime is given as a number, all relevances are 1, and the kernel is exactly the one that
# was asked for.

plain = MondrianKernelRegressor(lifetime=0.3, n_estimators=100, random_state=0).fit(X, y)
print(plain.relevance_)
