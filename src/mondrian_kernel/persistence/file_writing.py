"""Write a file whole or not at all; devices and pipes are written to as they are."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable

PathLike = str | os.PathLike[str]


def write_file(path: PathLike, parts: Iterable[bytes]) -> None:
    """Write a file.

    A regular file, or one that is not there yet, is written beside its place and then moved
    there: on failure nothing has changed. It keeps the permissions of the file it replaces. What
    is neither (a device, a pipe) is opened and written to.

    Parameters
    ----------
    path : str or path-like
        The file. A link is followed.
    parts : iterable of bytes
        The contents, in order.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as device:
            device.writelines(parts)
        return
    target = os.path.realpath(path)
    # A name of its own: that of the file may already be as long as the system allows.
    temporary = os.path.join(os.path.dirname(target), f".mondrian-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        # Nobody may read the new file who may not read the old one, not even for a moment.
        descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600)
        with open(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
