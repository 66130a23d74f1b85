"""The Mondrian kernel: Laplace-kernel learning with every kernel width at once.

Names are imported when they are first used, so that importing the package is fast. Type checkers
and editors read the imports below instead.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "LaplaceFourierFeatures",
    "LifetimePath",
    "MondrianFeatures",
    "MondrianForestClassifier",
    "MondrianForestRegressor",
    "MondrianKernelClassifier",
    "MondrianKernelRegressor",
    "MondrianPartition",
    "RandomBinningFeatures",
    "TableEncoder",
    "every_cut_path",
    "lifetime_path",
    "load",
    "open_table",
    "save",
    "sgd_path",
]

_HOME = {
    "Explanation": "_estimator.explainable",
    "LaplaceFourierFeatures": "baselines",
    "LifetimePath": "paths",
    "MondrianFeatures": "features",
    "MondrianForestClassifier": "forest",
    "MondrianForestRegressor": "forest",
    "MondrianKernelClassifier": "classifier",
    "MondrianKernelRegressor": "regressor",
    "MondrianPartition": "partition",
    "RandomBinningFeatures": "baselines",
    "TableEncoder": "encoder",
    "every_cut_path": "paths",
    "lifetime_path": "paths",
    "load": "persistence",
    "open_table": "on_disk",
    "save": "persistence",
    "sgd_path": "paths",
}
"""Module of each public name; the same as in the imports for type checkers."""

if TYPE_CHECKING:
    from mondrian_kernel._estimator.explainable import Explanation
    from mondrian_kernel.baselines import LaplaceFourierFeatures, RandomBinningFeatures
    from mondrian_kernel.classifier import MondrianKernelClassifier
    from mondrian_kernel.encoder import TableEncoder
    from mondrian_kernel.features import MondrianFeatures
    from mondrian_kernel.forest import MondrianForestClassifier, MondrianForestRegressor
    from mondrian_kernel.on_disk import open_table
    from mondrian_kernel.partition import MondrianPartition
    from mondrian_kernel.paths import LifetimePath, every_cut_path, lifetime_path, sgd_path
    from mondrian_kernel.persistence import load, save
    from mondrian_kernel.regressor import MondrianKernelRegressor
else:

    def __getattr__(name):
        if name in _HOME:
            return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
