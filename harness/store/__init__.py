"""Fixture sets on disk: `write_set` publishes a folder of cases, `open_set` reads one.

A set is a folder with one packed HDF5 file per kernel and a manifest (docs/fixtures.md). Opening reads the
manifest alone; a kernel's file is hashed and indexed when its first case is asked for; values are read case
by case. Nothing is used before it has been proved whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType

from harness.case import Case
from harness.contract import KERNELS
from harness.errors import UsageProblem
from harness.store.index import CaseSummary, KernelIndex
from harness.store.manifest import MANIFEST_NAME, Manifest, SetInfo, damaged, load_manifest
from harness.store.pack import pack_file
from harness.store.publish import published_folder
from harness.store.spool import Spool, SpooledBatch


def write_set(cases: Iterable[Case], folder: Path, info: SetInfo) -> Manifest:
    """Write ``cases`` (any kernels, any order) as the set ``folder``, atomically.

    Cases keep their order within a kernel. Memory holds one large case at a time. Raises HarnessError where
    cases cannot share a pool, OSError where the disk refuses; the old set then stays.
    """
    with published_folder(folder) as fresh:
        scratch = fresh / "spool"
        with Spool(scratch) as spool:
            runs = groupby(cases, key=lambda case: case.kernel)
            batches = [batch for kernel, run in runs for batch in spool.add(kernel, run)]
        manifest = pack_set(batches, fresh, info)
        scratch.unlink()
    return manifest


def pack_set(batches: Sequence[SpooledBatch], folder: Path, info: SetInfo) -> Manifest:
    """Write the files and the manifest of a set from spooled cases into an existing folder."""
    by_kernel: dict[str, list[SpooledBatch]] = {kernel: [] for kernel in KERNELS}
    for batch in batches:
        by_kernel[batch.kernel].append(batch)
    files = {
        kernel: pack_file(folder / f"{kernel}.h5", kernel, mine, info)
        for kernel, mine in by_kernel.items()
        if mine
    }
    manifest = Manifest(info, files)
    (folder / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def open_set(folder: Path) -> FixtureSet:
    """Open the set in ``folder``. FixtureError where it is absent, damaged, foreign or of another major."""
    return FixtureSet(folder, load_manifest(folder))


class FixtureSet:
    """A set opened for reading. Also a context manager; a forked child may go on using it.

    Every method may raise FixtureError when it meets damage.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._indexes: dict[str, KernelIndex] = {}
        for kernel in manifest.files:
            if not (folder / f"{kernel}.h5").is_file():
                raise damaged(
                    folder / f"{kernel}.h5", "named by the manifest but missing", folder, self.suite
                )
        for path in sorted(folder.glob("*.h5")):
            if path.stem not in manifest.files:
                raise damaged(path, "is not named by the manifest", folder, self.suite)

    @property
    def suite(self) -> str:
        """The suite that the set was made for."""
        return self.manifest.info.suite

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that have cases, in the contract's order."""
        return tuple(self.manifest.files)

    def summaries(self, kernel: str | None = None) -> list[CaseSummary]:
        """What is known of every case without reading its values, in the order of the set."""
        return [summary for name in self._selected(kernel) for summary in self._index(name).summaries]

    def case(self, case_id: str) -> Case:
        """One case by its id; its arrays belong to the caller. UsageProblem where there is none."""
        kernel = case_id.split("/", 1)[0]
        position = self._index(kernel).positions.get(case_id) if kernel in self.manifest.files else None
        if position is None:
            raise UsageProblem(
                f"no case {case_id!r} in {self.folder}; `harness list {self.folder}` names them"
            )
        return self._index(kernel).case(position)

    def cases(self, kernel: str | None = None) -> Iterator[Case]:
        """All cases in the order of the set, read one at a time."""
        for name in self._selected(kernel):
            index = self._index(name)
            for position in range(len(index.summaries)):
                yield index.case(position)

    def close(self) -> None:
        """Give the files back. Cases already read stay valid."""
        while self._indexes:
            self._indexes.popitem()[1].close()

    def __enter__(self) -> FixtureSet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        self.close()

    def _selected(self, kernel: str | None) -> tuple[str, ...]:
        if kernel is None:
            return self.kernels
        if kernel not in self.manifest.files:
            raise UsageProblem(f"no cases of {kernel!r} in {self.folder}; it has {', '.join(self.kernels)}")
        return (kernel,)

    def _index(self, kernel: str) -> KernelIndex:
        if kernel not in self._indexes:
            self._indexes[kernel] = KernelIndex(self.folder, kernel, self.manifest)
        return self._indexes[kernel]
