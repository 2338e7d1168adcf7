"""The target behind every shared library, on host or device memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

from harness.case import AnyArray
from harness.contract import KERNELS
from harness.errors import EnvironmentProblem
from harness.memory.host import HostMemory
from harness.memory.space import Space
from harness.memory.timing import clock_of
from harness.observation import DECLARED, Job, Round
from harness.results import TargetInfo
from harness.shapes import is_planted
from harness.targets import sanitizer
from harness.targets.base import Identity, Options, Refusal
from harness.targets.capability import needed, over_limit
from harness.targets.emulator import controls
from harness.targets.engine import Engine
from harness.targets.library import Library
from harness.targets.locate import own_library
from harness.targets.sequence import planted_library
from harness.targets.single import run_single
from harness.targets.steps import run_steps

_COMPOSED = ("tree_build", "verify_attn", "tree_accept", "kv_commit")
_REQUIRED_SPACE = {"cpu": "HOST", "cuda": "DEVICE"}


def open_library(name: str, path: Path, options: Options) -> LibraryTarget:
    """Load the library at ``path`` as the target called ``name``."""
    library = Library(path)
    wanted = _REQUIRED_SPACE.get(name, library.memory_space)
    if library.memory_space != wanted:
        raise EnvironmentProblem(
            f"target {name}: {path.name} works on {library.memory_space} memory, not {wanted}; build it again"
        )
    # A race between blocks shows only where two of them run at a time.
    workers = 2 if any("tsan" in runtime for runtime in sanitizer.runtimes(path)) else 1
    emulator = controls(library.handle, options.order, name, workers)
    space, facts = _open_space(library)
    planted = None if "PLANTED" in library.capabilities else _own_planted(library)
    return LibraryTarget(name, Engine(library, space, emulator, planted), facts)


class LibraryTarget:
    """A library under test."""

    poisons = True

    def __init__(self, name: str, engine: Engine, facts: dict[str, str]) -> None:
        library = engine.library
        self.engine = engine
        self.identity = Identity(
            TargetInfo(
                name=name,
                kind="library",
                description=library.description,
                memory=library.memory_space.lower(),
                timing=clock_of(library.memory_space.lower(), engine.emulator is not None),
                capabilities=library.capabilities,
                library_sha256=library.sha256,
            ),
            lse_base2=library.lse_base2,
            absent=() if engine.wants_lse else ("lse",),
            facts={**facts, "library": library.description},
        )

    def refusal(self, job: Job) -> Refusal | None:
        """A missing capability, a missing symbol, or a declared limit below the case."""
        library, dims = self.engine.library, job.dims
        lacking = [name for name in needed(job, dims) if name not in library.capabilities]
        if lacking:
            return Refusal(f"the target does not declare {', '.join(lacking)}")
        names = (job.kernel,) if job.kernel != "greedy_step" else _COMPOSED
        symbols = [KERNELS[name].symbol for name in names]
        own_step = KERNELS["greedy_step"].symbol
        if job.kernel == "greedy_step" and (library.has(own_step) or "GREEDY_STEP" in library.capabilities):
            symbols = [own_step]
        missing = [symbol for symbol in symbols if not library.has(symbol)]
        if missing:
            return Refusal(f"{DECLARED}the library exports no {', '.join(missing)}")
        if is_planted(job.inputs) and planted_library(self.engine) is None:
            return Refusal("no planted utilities for this memory space: build this project's library first")
        reason = over_limit(job.kernel, dims, library.limits)
        return Refusal(reason) if reason else None

    def run_round(self, job: Job, round_index: int) -> Round:
        """One run; the inputs of ``job`` are plain arrays."""
        inputs = cast("dict[str, AnyArray]", job.inputs)
        if self.engine.emulator is not None:
            self.engine.emulator.prepare(round_index)
        if job.kernel == "greedy_step":
            run = partial(run_steps, self.engine)
        else:
            run = partial(run_single, self.engine, job.kernel)
        return self.engine.with_late_inputs(partial(run, inputs, job.scalars, job.dims, round_index))


def _open_space(library: Library) -> tuple[Space, dict[str, str]]:
    if library.memory_space == "HOST":
        return HostMemory(), {}
    from harness.memory.cuda_memory import DeviceMemory

    space = DeviceMemory()
    return space, space.facts


def _own_planted(library: Library) -> Library | None:
    """This project's library of the same memory space, for its planted utilities."""
    try:
        own = Library(own_library("cpu" if library.memory_space == "HOST" else "cuda"))
    except EnvironmentProblem:
        return None
    return own if own.memory_space == library.memory_space else None
