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
    there: on failure nothing has changed. It keeps the permissions, the owner and the group of the
    file it replaces, as far as the system lets it; if not the group, the group may not read it.
    What is neither (a device, a pipe) is opened and written to.

    Parameters
    ----------
    path : str or path-like
        The file. A link is followed.
    parts : iterable of bytes
        The contents, in order.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as device:
            device.writelines(parts)
        return
    target = os.path.realpath(path)
    # A name of its own: that of the file may already be as long as the system allows.
    temporary = os.path.join(os.path.dirname(target), f".mondrian-{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        # Nobody may read the new file who may not read the old one, not even for a moment.
        descriptor = os.open(temporary, flags, 0o666 if old is None else 0o600)
        with open(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            os.chmod(temporary, _keep_owner(temporary, old))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _keep_owner(file: str, old: os.stat_result) -> int:
    """Give a file the owner and the group of another; return the permissions it may then have."""
    mode, new = stat.S_IMODE(old.st_mode), os.stat(file)
    for owner in (old.st_uid, -1):
        try:
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                os.chown(file, owner, old.st_gid)
            return mode
        except PermissionError:
            continue
    return mode & ~stat.S_IRWXG
