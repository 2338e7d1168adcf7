"""Where in a batch the special request stands."""

from __future__ import annotations

PLACES = ("first", "middle", "last")


def place(name: str, count: int) -> int:
    """Index of the ``first``, ``middle`` or ``last`` of ``count``."""
    return {"first": 0, "middle": count // 2, "last": count - 1}[name]
