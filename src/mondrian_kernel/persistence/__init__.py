"""Save fitted models to one file of numpy arrays and JSON; loading executes nothing."""

from mondrian_kernel.persistence.container import ModelFileError
from mondrian_kernel.persistence.model_file import load, save

__all__ = ["ModelFileError", "load", "save"]
