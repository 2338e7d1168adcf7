"""What a flag is; the flags themselves are in `harness.flags`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """``probes`` names the class of bug, ``effect`` what a user of such a kernel would see.

    ``links`` are public threads about kernels that had it (owner/name#number).
    """

    probes: str
    effect: str
    links: tuple[str, ...] = ()
