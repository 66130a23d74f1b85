"""The same models on Dask, for rows that outgrow a machine: collections in, collections out."""

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError(
        "mondrian_kernel.dask needs Dask. Install the extra: pip install 'mondrian-kernel[dask]'."
    ) from error

from mondrian_kernel.dask.classifier import DaskMondrianKernelClassifier
from mondrian_kernel.dask.features import DaskMondrianFeatures
from mondrian_kernel.dask.path import lifetime_path
from mondrian_kernel.dask.regressor import DaskMondrianKernelRegressor

__all__ = [
    "DaskMondrianFeatures",
    "DaskMondrianKernelClassifier",
    "DaskMondrianKernelRegressor",
    "lifetime_path",
]
