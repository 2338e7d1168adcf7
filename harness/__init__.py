"""Reference-and-conformance harness for draft-tree CUDA kernels.

`run` calls one kernel of a target in this process; `verify` replays a fixture set in worker processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line imports this package: nothing here may cost it time
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from harness.case import AnyArray, Value
    from harness.results import Results
    from harness.store import FixtureSet

__all__ = ["__version__", "run", "verify"]
__version__ = "1.0.0"


def run(
    kernel: str, inputs: Mapping[str, Value], target: str = "cpu", **scalars: int | float
) -> dict[str, AnyArray]:
    """Outputs of one call of ``kernel`` on ``target``, by the contract's names.

    The target runs in this process, on guarded and poisoned memory, once. UsageProblem for inputs that are
    not the contract's; HarnessError where the target refuses, fails, leaves its arrays or changes an input.
    """
    from harness.single_run import run_once

    return run_once(kernel, inputs, target, scalars)


def verify(fixtures: FixtureSet | Path | str, target: str = "cpu", **options: Any) -> Results:
    """Replay a fixture set against a target; options as in `harness.runner.verification.VerifyOptions`.

    ``exit_reason`` of the results says why a run is no success; it is empty for one that is.
    """
    from harness.runner.verification import VerifyOptions
    from harness.runner.verification import verify as run_verify

    progress = options.pop("progress", None)
    return run_verify(fixtures, target, VerifyOptions(**options), progress=progress)
