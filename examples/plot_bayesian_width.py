r"""
A posterior over the width
==========================

A path has the evidence, or marginal likelihood, of every width. With a prior over the lifetime this
gives a posterior. Predictions can be averaged over it:
:math:`\sum_c k_c\, p(y \mid x, \lambda_c)`.
"""

# %%
# From a path
# -----------

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from mondrian_kernel import MondrianKernelRegressor, lifetime_path
from mondrian_kernel.datasets import make_laplace_gp
from mondrian_kernel.plotting import LifetimePathDisplay

X, y = make_laplace_gp(600, 1, lifetime=20.0, noise=0.2, random_state=0)
X_test, y_test, X, y = X[120:], y[120:], X[:120], y[:120]
path = lifetime_path(X, y, n_estimators=500, criterion="evidence", random_state=0)
prior = stats.loguniform(1, 200)
posterior = path.posterior(prior)
low, high = posterior.interval(0.9)
print(f"posterior mean {posterior.mean:.3g}, 90 % interval {low:.3g} to {high:.3g} (true: 20)")

# %%
# With few rows the width remains uncertain, and the posterior shows how uncertain. The dotted line
# is the true lifetime.

display = LifetimePathDisplay.from_path(path, criterion="evidence", prior=prior)
display.ax_.axvline(20.0, color="black", linestyle=":")

# %%
# In a regressor
# --------------
# ``lifetime="average"`` averages each prediction over the posterior. The prior is uniform in the
# logarithm of λ. The joint covariance includes the uncertainty about the width.

fits = {
    "one width": MondrianKernelRegressor(
        "path", n_estimators=500, criterion="evidence", random_state=0
    ),
    "averaged": MondrianKernelRegressor("average", n_estimators=500, random_state=0),
}


def predict(model, rows):
    """Return means and standard deviations of the Gaussian process."""
    mean, cov = model.predict(rows, return_cov=True)
    return mean, np.sqrt(np.diag(cov))


for name, model in fits.items():
    mean, std = predict(model.fit(X, y), X_test)
    error = np.sqrt(np.mean((mean - y_test) ** 2))
    surprise = -stats.norm(mean, std).logpdf(y_test).mean()
    print(f"{name:<10} error {error:.3f}, negative log-likelihood of new rows {surprise:.3f}")

# %%
# Near the rows both models agree. Far from the data both return to the mean of y and to the
# variance of the process.

grid = np.linspace(-0.3, 1.3, 400)[:, None]
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for (name, model), paint in zip(fits.items(), ("#1f4e9c", "#d21f1b"), strict=True):
    mean, std = predict(model, grid)
    ax.plot(grid, mean, color=paint, label=name)
    ax.fill_between(
        grid[:, 0], mean - 2 * std, mean + 2 * std, color=paint, alpha=0.15, linewidth=0
    )
ax.scatter(X, y, s=8, color="#333333", label="rows")
ax.set(xlabel="x", ylabel="y")
ax.legend()
plt.show()
