"""A random stream for every node, derived by hashing (seed, tree, path).

Because a node's draws depend only on where it stands in its tree, a sample does not depend on the
order of growth, on threads, or on where the rows lie. The mixing function is the finaliser of
splitmix64 (Steele, Lea and Flood, 2014).
"""

import numpy as np

from mondrian_kernel._kernels.compiled import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TREE = np.uint64(0xD1342543DE82EF95)
_LEFT = np.uint64(0x2545F4914F6CDD1D)
_RIGHT = np.uint64(0xDA942042E4DD58B5)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@kernel(inline="always")
def _mix(z):
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@kernel(inline="always")
def root_key(seed, tree):
    """Key of the root of a tree; ``seed`` is uint64, ``tree`` any non-negative integer."""
    return _mix(_mix(seed + _GOLDEN) + (np.uint64(tree) + np.uint64(1)) * _TREE)


def root_keys(seed, first_tree, n_trees):
    """Keys of the roots of trees ``first_tree, ...``, uint64 (n_trees,); nothing is compiled."""
    tree = np.arange(first_tree, first_tree + n_trees, dtype=np.uint64)
    mix = getattr(_mix, "py_func", _mix)
    return mix(mix(np.full(n_trees, seed, np.uint64) + _GOLDEN) + (tree + np.uint64(1)) * _TREE)


def child_keys(key):
    """Keys of the left and right children of nodes (K,), alternating; nothing is compiled."""
    mix = getattr(_mix, "py_func", _mix)
    return np.stack([mix(key ^ _LEFT), mix(key ^ _RIGHT)], axis=1).ravel()


@kernel(inline="always")
def left_key(key):
    """Key of the left child of the node with this key."""
    return _mix(key ^ _LEFT)


@kernel(inline="always")
def right_key(key):
    """Key of the right child of the node with this key."""
    return _mix(key ^ _RIGHT)


@kernel(inline="always")
def uniform(key, draw):
    """Draw number ``draw`` (0, 1, ...) of the node's stream, uniform on [0, 1) with 53 bits."""
    z = _mix(key + (np.uint64(draw) + np.uint64(1)) * _GOLDEN)
    return np.float64(z >> _S11) * 1.1102230246251565e-16


@kernel(inline="always")
def uniform_between(key, draw, low, high):
    """Draw number ``draw`` of the node's stream, uniform on [low, high) whatever the rounding."""
    x = low + uniform(key, draw) * (high - low)
    if x < high:
        return x
    below = np.nextafter(high, low)
    return below if below > low else low
