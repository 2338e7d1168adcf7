"""Timing: what a target's kernels take, next to what they must take at least, and whether they got slower.

A supervisor process holds the expected values and decides; a worker process holds the target, its buffers and
the clock (`harness.bench.worker`). Nothing is recorded for a buffer that did not hold right outputs before
and after it was timed.
"""
