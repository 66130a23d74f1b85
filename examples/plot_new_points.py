"""
New points and the conditional Mondrian
=======================================

A tree that has been grown on rows knows the cuts between them, but not those outside their boxes.
A new row may be parted from its leaf by such a cut. To give it the leaf it falls into, as decision
trees do, makes it too similar to the rows there; features of this library take the mean over the
cuts that are not known, in closed form.
"""

# %%
# A partition, extended
# ---------------------
# The conditional Mondrian continues a partition of a box into a larger one. What was there stays;
# what is new comes as if the large box had been cut from the beginning.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.pairwise import laplacian_kernel

from mondrian_kernel import MondrianFeatures, MondrianPartition
from mondrian_kernel.plotting import PartitionDisplay

small = MondrianPartition.sample([0, 0], [1, 1], lifetime=2.0, random_state=3)
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for ax, seed in zip(axes, (None, 0, 1), strict=True):
    large = small if seed is None else small.extend([-1, -1], [2, 2], random_state=seed)
    PartitionDisplay.from_partition(large, ax=ax)
    ax.add_patch(plt.Rectangle((0, 0), 1, 1, fill=False, color="#f08c00", linewidth=3))
    ax.set(xlim=(-1.05, 2.05), ylim=(-1.05, 2.05))
    ax.set_title("a partition" if seed is None else "continued one way, or another")
plt.show()

# %%
# What it does to the kernel
# --------------------------
# Rows of one dim with a gap between them, and the kernel between the row at its left edge and all
# places. By leaf look-up everything in a part of the gap is as similar as the row nearest to it,
# and what lies beyond the data as similar as the last row. By the mean over the cuts it is right.

rng = np.random.default_rng(0)
X = np.r_[rng.uniform(0, 0.4, 25), 0.4, rng.uniform(0.8, 1.0, 14)][:, None]
places = np.linspace(-0.4, 1.4, 400)[:, None]
edge = np.array([[0.4]])
features = MondrianFeatures(lifetime=4.0, n_estimators=1000, random_state=0).fit(X)
truth = laplacian_kernel(places, edge, gamma=4.0)[:, 0]
by_mean = features.kernel(places, edge)[:, 0]
by_leaf = np.mean(features.apply(places) == features.apply(edge), axis=1)

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(places, truth, color="black", linewidth=3, alpha=0.35, label="Laplace kernel")
ax.plot(places, by_leaf, color="#d21f1b", label="leaf look-up")
ax.plot(places, by_mean, color="#1f4e9c", label="mean over the cuts")
ax.plot(X, np.zeros_like(X), "|", color="black", markersize=12, label="fitted rows")
ax.set(xlabel="x", ylabel="kernel to x = 0.4")
ax.legend()
plt.show()
print(f"largest error by leaf look-up {np.abs(by_leaf - truth).max():.3f}")
print(f"largest error by the mean over the cuts {np.abs(by_mean - truth).max():.3f}")

# %%
# Far from all data the features fade to 0, hence predictions to the mean of y and error bars to
# their full width.

for place in ([1.0], [1.5], [2.0], [3.0]):
    row = features.transform([place])
    print(f"at {place[0]}: sum of squared features {row.multiply(row).sum():.5f}")
