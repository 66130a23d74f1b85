"""
New rows and the conditional Mondrian process
=============================================

A tree has cuts between the rows that it was grown on, but none outside their boxes. If it had been
grown on a new row as well, further cuts might separate the new row from its leaf. Decision trees
ignore this and give the row the leaf it falls into, which makes it too similar to the rows there.
The features of this library are the mean over the unknown cuts, in closed form.
"""

# %%
# Extending a partition
# ---------------------
# The conditional Mondrian process extends a partition to a larger box. The old cuts stay. The new
# partition has the distribution of one that was sampled on the large box.

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
    ax.set_title("a partition" if seed is None else f"extended with seed {seed}")
plt.show()

# %%
# The effect on the kernel
# ------------------------
# The rows have one column, with a gap. The figure shows the kernel between the row at the left edge
# of the gap, x = 0.4, and every other place. With leaf look-up, a place in the gap is as similar as
# the row nearest to it, and a place beyond the data is as similar as the last row. With the mean
# over the cuts, the kernel is right.

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
# Far from the data the features go to 0. Predictions therefore go to the mean of y, and error bars
# to their largest width.

for place in ([1.0], [1.5], [2.0], [3.0]):
    row = features.transform([place])
    print(f"at {place[0]}: sum of squared features {row.multiply(row).sum():.5f}")
