"""Save fitted models to one file of numpy arrays and JSON; loading executes nothing."""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mondrian_kernel import __version__
from mondrian_kernel.persistence.container import (
    ModelFileError,
    PathLike,
    pack,
    read_bytes,
    store,
    unpack,
    write_file,
)
from mondrian_kernel.persistence.encoding import Decoder, Encoder, cannot_save

__all__ = ["ModelFileError", "load", "save"]

# Errors that a header may cause which `save` did not write.
_CONTRADICTIONS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)


def save(model: Any, path: PathLike) -> None:
    """Save a fitted model of this library to one file.

    The file holds numpy arrays and JSON, compressed, with a format number and a checksum. It is
    written beside its place and then moved there, so that a failure leaves an older file as it
    was. What can be made again is left out; what a model shares is stored once.

    Parameters
    ----------
    model : estimator or LifetimePath
        The fitted model. Parameters must be plain Python, numpy arrays or a ``RandomState``, whose
        state is kept.
    path : str or path-like
        Where to save it. Any name will do; ``.mondrian`` is the custom.

    Raises
    ------
    NotFittedError
        If the model has not been fitted.
    TypeError
        If it holds what is neither plain Python, a numpy array nor an object of this library.

    See Also
    --------
    load : Read the model back.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianFeatures
    >>> from mondrian_kernel.persistence import load, save
    >>> X = np.random.default_rng(0).uniform(size=(50, 3))
    >>> features = MondrianFeatures(lifetime=2.0, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "features.mondrian")
    ...     save(features, path)
    ...     loaded = load(path)
    >>> (loaded.transform(X) != features.transform(X)).nnz
    0
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    encoder = Encoder()
    code = encoder.encode(model, "the model")
    if not isinstance(code, dict) or "object" not in code:
        raise cannot_save("the model", f"a value of type {type(model).__name__}")
    arrays, chunks = store(encoder.arrays)
    header = {
        "version": __version__,
        "arrays": arrays,
        "objects": encoder.objects,
        "model": code,
    }
    write_file(path, pack(header, chunks))


def load(path: PathLike) -> Any:
    """Load a model that :func:`save` has written.

    Nothing in the file is executed: it names classes of this library, whose attributes it holds.
    All of it is checked first, so that a damaged file is never a different model.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : estimator or LifetimePath
        The model, which predicts bit for bit as the saved one.

    Raises
    ------
    ModelFileError
        If the file is foreign, damaged, of a newer format or inconsistent. A ``ValueError``.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> from mondrian_kernel.persistence import ModelFileError, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "notes.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("not a model")
    ...     try:
    ...         load(path)
    ...     except ModelFileError as error:
    ...         print(str(error).replace(path, "notes.txt"))
    Cannot load 'notes.txt'. It is not a file of mondrian_kernel.
    """
    data = read_bytes(path)
    try:
        header, body = unpack(data)
        with np.errstate(all="ignore"):  # impossible numbers are refused, without a warning
            return Decoder(header["arrays"], header["objects"], body).model(header["model"])
    except ModelFileError as error:
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}. {error}") from error
    except _CONTRADICTIONS as error:
        raise ModelFileError(
            f"Cannot load {os.fspath(path)!r}. Its header contradicts itself: {error}"
        ) from error
