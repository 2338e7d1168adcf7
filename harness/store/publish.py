"""A folder appears whole or not at all.

The new folder is filled beside its target, forced to disk and swapped in with one rename. Until then the old
one stays; after a kill the next run removes the leftovers. Two writers at once each publish a whole folder
and the later one wins.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@contextmanager
def published_folder(target: Path) -> Iterator[Path]:
    """An empty folder that becomes ``target`` when the block ends without an exception.

    Raises OSError where the disk refuses; the target is then as it was.
    """
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    folder, lock = _locked_folder(target)
    try:
        yield folder
        _sync(folder)
        folder.chmod(0o777 & ~_umask())
        _swap(folder, target)
        _sync(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _prefix(target: Path) -> str:
    return f".{target.name}.part-"


def _remove_leftovers(target: Path) -> None:
    """Remove folders of writers that no longer live: nobody holds their lock."""
    for path in target.parent.glob(f"{_prefix(target)}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(descriptor)


def _locked_folder(target: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
        with contextlib.suppress(FileNotFoundError):  # taken for a leftover before it was locked
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)


def _swap(folder: Path, target: Path) -> None:
    """Put ``folder`` at ``target``; what stood there ends at ``folder``."""
    while True:
        try:
            folder.rename(target)
            return
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        if _exchange(folder, target):
            return


def _exchange(folder: Path, target: Path) -> bool:
    """Exchange two folders at once; False where the target went away meanwhile."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        code = errno.ENOSYS
    else:
        if not renameat2(_AT_FDCWD, bytes(folder), _AT_FDCWD, bytes(target), _RENAME_EXCHANGE):
            return True
        code = ctypes.get_errno()
    if code == errno.ENOENT:
        return False
    if code not in (errno.ENOSYS, errno.EINVAL, errno.EXDEV):
        raise OSError(code, os.strerror(code), str(target))
    shutil.rmtree(target)  # this file system cannot exchange folders: the one case with a gap
    return False


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
