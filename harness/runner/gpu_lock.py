"""One run at a time on a GPU, by a file lock, so that two runs do not time each other's work."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import EnvironmentProblem


def lock_path() -> Path:
    """The lock file of the GPU that targets use: the first visible one."""
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"
    return Path(tempfile.gettempdir()) / f"ddtree-harness-gpu-{re.sub(r'[^A-Za-z0-9-]', '-', device)}.lock"


@contextmanager
def alone_on_gpu(notify: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock; ``notify`` gets one line where it has to be waited for.

    The system lets it go when the process ends, however it ends.
    """
    path = lock_path()
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise EnvironmentProblem(f"cannot open the lock {path.name}: {error.strerror}; set TMPDIR") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notify(f"another run uses this GPU ({path.name}); waiting for it to end ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
