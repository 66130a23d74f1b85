"""Mondrian forests: the trees of the kernel, each fitted apart from the others."""

from mondrian_kernel.forest.classifier import MondrianForestClassifier
from mondrian_kernel.forest.regressor import MondrianForestRegressor

__all__ = ["MondrianForestClassifier", "MondrianForestRegressor"]
