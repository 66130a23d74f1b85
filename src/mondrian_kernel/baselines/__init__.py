"""Rivals of the Mondrian features: Fourier features and random binning of the Laplace kernel."""

from mondrian_kernel.baselines.binning import RandomBinningFeatures
from mondrian_kernel.baselines.fourier import LaplaceFourierFeatures

__all__ = ["LaplaceFourierFeatures", "RandomBinningFeatures"]
