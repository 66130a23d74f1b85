"""Files are written whole or not at all, and keep their permissions; pipes are written to."""

import os
import stat
import threading

import pytest

from mondrian_kernel.persistence.container import write_file


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_permissions_of_an_existing_file_stay(mode, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(mode)
    write_file(file, [b"new", b"er"])
    assert file.read_bytes() == b"newer"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    write_file(tmp_path / "new", [b""])
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert len(modes) == 1


def test_nobody_else_can_read_a_private_file_while_it_is_written(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o600)
    seen = []

    def parts():
        seen.extend(stat.S_IMODE(other.stat().st_mode) for other in tmp_path.iterdir())
        yield b"new"

    write_file(file, parts())
    assert seen == [0o600, 0o600]


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root gives files away")
def test_owner_and_group_of_an_existing_file_stay(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o640)
    os.chown(file, 12345, 23456)
    write_file(file, [b"new"])
    status = file.stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)
    assert stat.S_IMODE(status.st_mode) == 0o640


@pytest.mark.parametrize(("refused", "mode"), [("owner", 0o664), ("both", 0o604)])
def test_another_group_gets_no_permissions(refused, mode, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o664)
    old, groups = os.stat(file), []

    def chown(path, owner, group):
        if owner != -1 or refused == "both":
            raise PermissionError
        groups.append(group)

    def other_owner(path, **options):
        status = list(real(path, **options))
        if path == file:
            status[4] = status[5] = 999_999  # not ours
        return os.stat_result(status)

    real = os.stat
    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(os, "stat", other_owner)
    write_file(file, [b"new"])
    monkeypatch.undo()
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.stat().st_uid == old.st_uid
    assert groups == ([999_999] if refused == "owner" else [])


def test_a_pipe_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, [b"con", b"tents"])
    reader.join()
    assert read == [b"contents"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_device_stays_a_device():
    write_file("/dev/null", [b"contents"])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("file")
    write_file(tmp_path / "link", [b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("length", [240, 255])
def test_long_names(length, tmp_path):
    file = tmp_path / ("n" * length)
    write_file(file, [b"new"])
    assert file.read_bytes() == b"new"


def test_a_failure_leaves_nothing(tmp_path):
    def parts():
        yield b"new"
        raise KeyboardInterrupt

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "file", parts())
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
def test_a_full_disk_is_named():
    with pytest.raises(OSError, match="No space left") as told:
        write_file("/dev/full", [b"contents"])
    assert told.value.filename == "/dev/full"
