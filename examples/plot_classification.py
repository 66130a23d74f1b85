"""
Classification
==============

The classifier uses the same features with the logistic, hinge or squared loss. It chooses the width
by the loss on rows held out.
"""

# %%
# A chessboard
# ------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mondrian_kernel import MondrianKernelClassifier
from mondrian_kernel.plotting import LifetimePathDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(500, 2))
board = np.sin(4 * X[:, 0]) * np.sin(4 * X[:, 1])
y = np.where(board + 0.2 * rng.normal(size=500) > 0, "black", "white")
model = MondrianKernelClassifier("path", random_state=0).fit(X, y)
print(f"lifetime {model.lifetime_:.3g}, alpha {model.alpha_:.3g}")

# %%
# The left figure shows the loss on rows held out at every width. The right figure shows the
# probabilities. Away from the data all features go to 0, so the probabilities return to the shares
# of the classes. They do not become more certain with the distance.

x = np.linspace(-2, 2, 160)
grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
probability = model.predict_proba(grid)[:, 1].reshape(160, 160)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
LifetimePathDisplay.from_estimator(model, ax=left)
shown = right.contourf(x, x, probability, levels=np.linspace(0, 1, 21), cmap="RdBu_r")
right.scatter(*X.T, c=y == "white", s=10, cmap="RdBu_r", edgecolors="black", linewidths=0.4)
figure.colorbar(shown, label="probability of white")
plt.show()

# %%
# Digits
# ------
# There are ten classes and 64 columns. ``class_weight``, ``sample_weight`` and ``classes_`` have
# their usual meaning.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
digits = MondrianKernelClassifier(n_estimators=200, scale=None, random_state=0)
digits.fit(X_train, y_train)
print(f"share of right answers: {digits.score(X_test, y_test):.3f}")
