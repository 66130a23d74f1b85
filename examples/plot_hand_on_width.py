"""
Using the width in other models
===============================

The paper ends with a suggestion: the path is a quick way to find a first width for another kernel
or another approximation. Here the width is used in exact kernel ridge regression, with Fourier
features and in Gaussian processes.
"""

# %%
# Find the width
# --------------

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.pipeline import make_pipeline

from mondrian_kernel import LaplaceFourierFeatures, lifetime_path
from mondrian_kernel.datasets import make_laplace_gp

X, y = make_laplace_gp(1000, 2, lifetime=5.0, noise=0.3, random_state=0)
X_test, y_test, X, y = X[500:], y[500:], X[:500], y[:500]
level = y.mean()
path = lifetime_path(X, y, n_estimators=500, criterion="evidence", random_state=0)
lifetime, alpha = path.best_lifetime, path.best_alpha
print(f"lifetime {lifetime:.3g} (true: 5), alpha {alpha:.3g} (true: 0.09)")


errors = {}


def report(name, prediction):
    """Keep and print the error on new rows."""
    errors[name] = np.sqrt(np.mean((prediction - y_test) ** 2))
    print(f"{name:<45} error {errors[name]:.4f}")


report("the path itself", path.predict(X_test))

# %%
# The same kernel, exact and approximate
# --------------------------------------
# ``lifetime`` is ``gamma`` of scikit-learn's Laplacian kernel, and ``alpha`` is that of
# ``KernelRidge``.

ridge = KernelRidge(alpha=alpha, kernel="laplacian", gamma=lifetime).fit(X, y - level)
report("KernelRidge", ridge.predict(X_test) + level)

fourier = make_pipeline(
    LaplaceFourierFeatures(lifetime, n_components=2000, random_state=0), Ridge(alpha)
)
report("2000 LaplaceFourierFeatures", fourier.fit(X, y).predict(X_test))

# %%
# A Gaussian process
# ------------------
# ``Matern(length_scale, nu=0.5)`` is :math:`\exp(-\lVert x - x' \rVert_2 / \ell)`. For one column
# it is the Laplace kernel with :math:`\ell = 1/\lambda`. For several columns it is not. The Laplace
# kernel is the *product* over columns of such kernels. It depends on the sum of the distances in
# the columns and not on the Euclidean distance.

one_column, several = X[:, :1], X
matern = Matern(length_scale=1 / lifetime, nu=0.5)
same = np.abs(matern(one_column) - laplacian_kernel(one_column, gamma=lifetime)).max()
other = np.abs(matern(several) - laplacian_kernel(several, gamma=lifetime)).max()
print(f"largest difference with one column {same:.1e}, with two {other:.2f}")

# %%
# With D columns, the sum of the distances is larger than the Euclidean distance by a factor between
# 1 and √D. So 1/λ is too long for the Matérn kernel. Divided by the mean factor it is a good start.

longer = np.mean(cdist(X, X, "cityblock")) / np.mean(cdist(X, X))
start = 1 / (lifetime * longer)
print(f"factor {longer:.2f}, length scale to begin with {start:.3f}")


def process(length_scale, optimizer):
    """Return a Gaussian process with a Matérn-1/2 kernel, fitted."""
    kernel = ConstantKernel(np.var(y)) * Matern(length_scale, nu=0.5) + WhiteKernel(
        alpha * np.var(y)
    )
    return GaussianProcessRegressor(kernel, optimizer=optimizer).fit(X, y - level)


for name, length in ("1/λ", 1 / lifetime), ("1/λ over the factor", start), ("1", 1.0):
    as_given = process(length, None)
    report(f"Gaussian process, length {name}", as_given.predict(X_test) + level)

# %%
# From there the length can be optimised, by the marginal likelihood.

optimised = process(start, "fmin_l_bfgs_b")
report("Gaussian process, length optimised", optimised.predict(X_test) + level)
print(optimised.kernel_)

# %%
# The kernel that the data were drawn with has the lowest errors. The Matérn process comes next, if
# its length comes from the path. Fourier features are dense, and 2000 of them are too few.

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
bars = ax.barh(list(errors), list(errors.values()), color="#1f4e9c")
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.axvline(0.3, color="#d21f1b", linestyle="--", label="noise")
ax.set(xlabel="root mean squared error on new rows", xlim=(0, 0.75))
ax.invert_yaxis()
ax.legend(loc="center right")
plt.show()
