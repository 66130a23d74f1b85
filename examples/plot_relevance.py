"""
Which inputs count
==================

The Laplace kernel of the paper adds up all dims alike, also those that say nothing of y. Where the
width is chosen, models learn a relevance for each dim as well: the kernel is then
:math:`\\exp(-\\lambda \\sum_d r_d |x_d - x'_d|)` on the scaled inputs.
"""

# %%
# Ten dims, five of which matter
# ------------------------------
# Friedman's function has a wave in the product of the first two dims, a parabola in the third, and
# slopes in the fourth and the fifth. The other five dims are noise.

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


alike = MondrianKernelRegressor(relevance="equal", n_estimators=500, random_state=0).fit(X, y)
learnt = MondrianKernelRegressor(n_estimators=500, random_state=0).fit(X, y)
report("dims alike", alike)
report("relevances learnt", learnt)

# %%
# The relevances
# --------------
# They are 1 on average. A relevance tells how *fast* y changes along a dim, and not how much: a
# slope across all of the data needs less of it than a wave.

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
paint = np.where(np.arange(10) < 5, "#1f4e9c", "#bbbbbb")
ax.bar(np.arange(10), learnt.relevance_, color=paint)
ax.axhline(1.0, color="k", lw=0.8)
ax.set(xticks=np.arange(10), xlabel="dim (grey: noise)", ylabel="relevance")
plt.show()

# %%
# Where the width is given as a number, so are the distances it refers to: relevances are all 1
# then, and the kernel is exactly the one that was asked for.

plain = MondrianKernelRegressor(lifetime=0.3, n_estimators=100, random_state=0).fit(X, y)
print(plain.relevance_)
