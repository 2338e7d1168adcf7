"""Faults of streams, graphs and launches. The emulator runs every launch at once, so these need a GPU."""

from __future__ import annotations

from harness.mutants.model import Mutant


def _m(name: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"device_{name}", "greedy_step", fault, tuple(flags.split()), what, needs="a GPU")


DEVICE = (
    _m("stream_ignored", "stream-ignored", "several_steps", "accept is launched on the default stream"),
    _m("side_stream", "stream-ignored", "several_steps",
       "commit on a stream of its own that nobody waits for"),
    _m("count_read_by_host", "value-baked", "several_steps",
       "node_count is read on the host while capturing"),
    _m("length_baked", "value-baked", "changing_accepts",
       "accept_len of the captured step is a kernel argument"),
    _m("dependent_launch_without_wait", "dependent-launch", "several_steps",
       "accept starts before attention has ended"),
)  # fmt: skip
