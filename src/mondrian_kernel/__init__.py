"""The Mondrian kernel: Laplace-kernel learning with every kernel width at once.

Names are imported when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "LaplaceFourierFeatures": "baselines",
    "LifetimePath": "paths",
    "MondrianFeatures": "features",
    "MondrianForestClassifier": "forest",
    "MondrianForestRegressor": "forest",
    "MondrianKernelClassifier": "classifier",
    "MondrianKernelRegressor": "regressor",
    "MondrianPartition": "partition",
    "RandomBinningFeatures": "baselines",
    "every_cut_path": "paths",
    "lifetime_path": "paths",
    "load": "persistence",
    "save": "persistence",
    "sgd_path": "paths",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
