"""Mondrian features: sparse random features of the Laplace kernel, at every lifetime."""

from mondrian_kernel.features.checks import (
    check_budget,
    check_more_ranges,
    check_ranges,
    check_rows,
    draw_seed,
)
from mondrian_kernel.features.transformer import MondrianFeatures, features_at

__all__ = [
    "MondrianFeatures",
    "check_budget",
    "check_more_ranges",
    "check_ranges",
    "check_rows",
    "draw_seed",
    "features_at",
]
