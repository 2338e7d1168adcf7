"""A suite becomes a fixture set: plan every family, make the cases in processes, pack, publish.

Workers make cases in small chunks and write their bytes to scratch files; the parent packs those in the order
of the plan. So memory holds a case per worker, and the set is the same for any number of jobs.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cases.base import SUITES, Family, Params, make_cases
from harness.contract import KERNELS
from harness.errors import EnvironmentProblem, HarnessError, UsageProblem
from harness.generate.processes import map_in_processes
from harness.store import pack_set
from harness.store.manifest import MANIFEST_NAME, SCHEMA, Manifest, SetInfo
from harness.store.publish import published_folder
from harness.store.spool import Spool, SpooledBatch

Progress = Callable[[int, int], None]  # cases done, cases planned
_CHUNK = 8  # cases that a process takes at a time
_SMALL = {"tree_build": 128, "tree_accept": 128}  # .. where a case takes well below a millisecond


@dataclass(frozen=True)
class _Chunk:
    """Neighbouring cases of one family; ``family`` is its position in the catalogue."""

    family: int
    params: tuple[Params, ...]


def generate(
    suite: str,
    out: Path,
    kernels: Sequence[str] | None = None,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
    catalogue: str = "harness.cases",
) -> Manifest:
    """Write the set of ``suite`` to the folder ``out``, replacing a set that lies there.

    ``catalogue`` is the module whose ``FAMILIES`` are planned, ``jobs`` the number of processes (default: one
    per core). Raises UsageProblem for an unknown suite or kernel, an empty selection, or an ``out`` that
    holds something else; EnvironmentProblem where the disk refuses; HarnessError where a family fails.
    ``out`` is then as it was.
    """
    if suite not in SUITES:
        raise UsageProblem(f"unknown suite {suite!r}; there are {', '.join(SUITES)}")
    if not 0 <= seed < 2**63:
        raise UsageProblem(f"seed {seed} is not in 0..2^63-1")
    check_replaceable(out)
    chunks = _plan(suite, kernels, _families(catalogue))
    try:
        with published_folder(out) as fresh:
            batches = _make_all(chunks, jobs, progress, (fresh, catalogue, seed))
            _check_ids(batches)
            manifest = pack_set(batches, fresh, SetInfo.here(suite, seed))
            for scratch in fresh.glob("*.spool"):
                scratch.unlink()
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {out}: {error.strerror or error}") from error
    return manifest


def check_replaceable(out: Path) -> None:
    """UsageProblem unless ``out`` is absent, an empty folder or a fixture set and nothing else."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageProblem(f"{out} is a file; give the folder of a fixture set as --out")
    names = {path.name for path in out.iterdir()}
    ours = {f"{kernel}.h5" for kernel in KERNELS}
    foreign = sorted(names - ours - {MANIFEST_NAME})
    if foreign:
        raise UsageProblem(f"{out} holds {foreign[0]!r}, so it is not a fixture set; give another --out")
    if names == {MANIFEST_NAME} and SCHEMA.encode() not in (out / MANIFEST_NAME).read_bytes():
        raise UsageProblem(f"{out} holds a foreign {MANIFEST_NAME}; give another --out")


def _families(catalogue: str) -> tuple[Family, ...]:
    families: tuple[Family, ...] = importlib.import_module(catalogue).FAMILIES
    return families


def _plan(suite: str, kernels: Sequence[str] | None, families: Sequence[Family]) -> list[_Chunk]:
    for name in kernels or ():
        if name not in KERNELS:
            raise UsageProblem(f"unknown kernel {name!r}; there are {', '.join(KERNELS)}")
    chunks = []
    for kernel in KERNELS:
        for position, family in enumerate(families):
            if family.kernel == kernel and (not kernels or kernel in kernels):
                params, size = list(family.plan(suite)), _SMALL.get(kernel, _CHUNK)
                chunks += [_Chunk(position, tuple(params[i : i + size])) for i in range(0, len(params), size)]
    if not chunks:
        raise UsageProblem(f"suite {suite} has no cases of {', '.join(kernels or KERNELS)}")
    return chunks


def _check_ids(batches: Sequence[SpooledBatch]) -> None:
    ids = Counter(case_id for batch in batches for case_id in batch.text["case_id"])
    case_id, count = ids.most_common(1)[0]
    if count > 1:
        raise HarnessError(f"{count} cases have the id {case_id}; make the family's params tell them apart")


def _make_all(
    chunks: Sequence[_Chunk], jobs: int | None, progress: Progress | None, arguments: tuple[Path, str, int]
) -> list[SpooledBatch]:
    done, total, batches = 0, sum(len(chunk.params) for chunk in chunks), list[SpooledBatch]()
    for made in map_in_processes(_make_chunk, chunks, jobs, _start_worker, arguments):
        batches += made
        done += sum(len(batch.seeds) for batch in made)
        if progress is not None:
            progress(done, total)
    return batches


@dataclass(frozen=True)
class _Worker:
    """The state of a working process."""

    spool: Spool
    families: tuple[Family, ...]
    seed: int


_worker: _Worker


def _start_worker(folder: Path, catalogue: str, seed: int) -> None:
    global _worker
    _worker = _Worker(Spool(folder / f"{os.getpid()}.spool"), _families(catalogue), seed)


def _make_chunk(chunk: _Chunk) -> list[SpooledBatch]:
    family = _worker.families[chunk.family]
    return _worker.spool.add(family.kernel, make_cases(family, chunk.params, _worker.seed))
