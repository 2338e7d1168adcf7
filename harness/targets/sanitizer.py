"""Libraries built with a sanitizer: their runtime has to come first in the process that loads them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_RUNTIME = re.compile(rb"lib(?:a|t|ub)san\.so\.\d+")
_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",  # the interpreter itself is not leak-free
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


def runtimes(library: Path) -> list[str]:
    """Sanitizer runtimes that a library names, e.g. ``["libasan.so.8"]``; empty for an ordinary one."""
    try:
        names = {found.group(0).decode() for found in _RUNTIME.finditer(library.read_bytes())}
    except OSError:
        return []
    return sorted(names)  # libasan before libubsan


def environment(library: Path) -> dict[str, str]:
    """What a worker's environment needs for this library. A finding ends the worker: the case is a CRASH."""
    names = runtimes(library)
    if not names:
        return {}
    preload = [*names, *filter(None, [os.environ.get("LD_PRELOAD")])]
    options = {name: ":".join(filter(None, [text, os.environ.get(name)])) for name, text in _OPTIONS.items()}
    return {"LD_PRELOAD": " ".join(preload), **options}
