"""Plots for notebooks and papers, in scikit-learn's Display pattern; needs matplotlib."""

from mondrian_kernel.plotting.interval import IntervalDisplay
from mondrian_kernel.plotting.lifetime_path import LifetimePathDisplay
from mondrian_kernel.plotting.partition import PartitionDisplay

__all__ = ["IntervalDisplay", "LifetimePathDisplay", "PartitionDisplay"]
