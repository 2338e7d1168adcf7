"""What a device can do at most, and the floor of a case that follows from it.

Bandwidth is measured in the same run. Arithmetic is a stated constant of the vendor per device name: dense
bf16 with sparsity off; a device that is not in the table has no such ceiling.
"""

from __future__ import annotations

from harness.bench.work import Work
from harness.bench_results import Ceilings, Floor

# (part of the device name, dense bf16 operations a second), first match wins.
DENSE_BF16 = (
    ("GH200", 989.4e12),
    ("H200 NVL", 835.5e12),
    ("H200", 989.4e12),
    ("H100 NVL", 835.5e12),
    ("H100 PCIe", 756.5e12),
    ("H100", 989.4e12),
    ("A100", 311.9e12),
    ("L40S", 362.1e12),
    ("B200", 2250e12),
)
# Reading alone may be a little faster than the copy that was measured.
SLACK = 0.85


def ceilings_of(device: str, bandwidth: float | None) -> Ceilings:
    """Ceilings of the device called ``device``; ``bandwidth`` in bytes a second, None where not measured."""
    peak = next((rate for part, rate in DENSE_BF16 if part in device), None)
    return Ceilings(
        bytes_per_second=bandwidth,
        bytes_source="device-to-device copy in this run, read and written" if bandwidth else "not measured",
        flops_per_second=peak,
        flops_source="vendor's dense bf16 figure for this device name"
        if peak
        else "no figure for this device",
    )


def floor_of(work: Work, ceilings: Ceilings) -> Floor:
    """The larger of the time for the bytes and the time for the operations."""
    peak, bandwidth = ceilings.flops_per_second, ceilings.bytes_per_second
    compute = work.flops / peak if peak and work.flops else None
    memory = work.touched / bandwidth if bandwidth and work.touched else None
    known = [t for t in (compute, memory) if t is not None]
    return Floor(
        work.read_bytes, work.written_bytes, work.flops, work.live_nodes, max(known, default=None), compute
    )


def impossible(seconds: float, cache: str, work: Work, ceilings: Ceilings) -> str:
    """Why a time cannot be true; empty where it can.

    A cold call has to fetch what it reads; what it writes may still be in the cache when it ends.
    """
    peak, bandwidth = ceilings.flops_per_second, ceilings.bytes_per_second
    if peak and seconds < work.flops / peak:
        return f"{seconds:.3g} s for {work.flops:.3g} operations is more than {peak:.3g} a second"
    if cache == "cold" and bandwidth and seconds < SLACK * work.read_bytes / bandwidth:
        return (
            f"{seconds:.3g} s for {work.read_bytes} bytes from memory is more than {bandwidth:.3g} a second"
        )
    return ""
