"""The manifest of a fixture set: what lies in the folder, from which versions, and the hashes that prove it.

Hashes, each with one job: ``content_sha256`` (per file) and ``set_sha256`` cover what is equal on every
machine (inputs, expected integers, scalars, flags, policies); ``file_sha256`` covers the bytes of a file and
is checked before anything in it is used; ``manifest_sha256`` covers this manifest, so that an edit shows.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import references
from harness.contract import CONTRACT_VERSION, KERNELS
from harness.errors import FixtureError

SCHEMA = "ddtree-fixtures"
SCHEMA_VERSION = (1, 1)  # 1.1: sampled values
GENERATOR_VERSION = "1.0"  # rises when the same suite and seed give other cases
MANIFEST_NAME = "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 20


def version_text(version: tuple[int, int]) -> str:
    """``(1, 0)`` -> ``"1.0"``."""
    return f"{version[0]}.{version[1]}"


def damaged(place: Path, what: str, folder: Path, suite: str | None = None) -> FixtureError:
    """The one-line error for ``place`` (a file, or ``file:dataset``) of the set in ``folder``."""
    suite = suite or (folder.name if folder.name in ("smoke", "standard", "full") else "standard")
    out = "" if folder.parts[-2:] == ("fixtures", suite) else f" --out {folder}"
    return FixtureError(f"{place}: {what}; regenerate with `harness gen-refs --suite {suite}{out}`")


@dataclass(frozen=True)
class SetInfo:
    """What a set was made from."""

    suite: str
    root_seed: int
    generator_version: str
    reference_sha256: str
    numpy_version: str
    python_version: str

    @classmethod
    def here(cls, suite: str, root_seed: int) -> SetInfo:
        """The info of a set that this process writes."""
        return cls(
            suite=suite,
            root_seed=root_seed,
            generator_version=GENERATOR_VERSION,
            reference_sha256=reference_sha256(),
            numpy_version=np.__version__,
            python_version=platform.python_version(),
        )


@dataclass(frozen=True)
class FileEntry:
    """One file of a set."""

    cases: int
    bytes: int
    file_sha256: str
    content_sha256: str


@dataclass(frozen=True)
class Manifest:
    """``files`` is keyed by kernel, in the contract's order."""

    info: SetInfo
    files: Mapping[str, FileEntry]

    @property
    def set_sha256(self) -> str:
        """One hash for the reproducible content of the whole set."""
        lines = [f"{kernel} {entry.cases} {entry.content_sha256}" for kernel, entry in self.files.items()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of ``manifest.json``: fixed key order, no times, no host."""
        body: dict[str, Any] = {
            "schema": SCHEMA,
            "schema_version": version_text(SCHEMA_VERSION),
            "contract_version": version_text(CONTRACT_VERSION),
            **asdict(self.info),
            "set_sha256": self.set_sha256,
            "files": {kernel: asdict(entry) for kernel, entry in self.files.items()},
        }
        body["manifest_sha256"] = _body_sha256(body)
        return json.dumps(body, indent=1) + "\n"


def _body_sha256(body: Mapping[str, Any]) -> str:
    bare = {key: value for key, value in body.items() if key != "manifest_sha256"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()


def reference_sha256() -> str:
    """A hash over the source text of the references, by file name."""
    digest = hashlib.sha256()
    for path in sorted(Path(references.__path__[0]).glob("*.py")):
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def check_version(
    place: Path, what: str, found: object, ours: tuple[int, int], folder: Path, suite: str | None = None
) -> None:
    """FixtureError unless ``found`` ("major.minor") has our major."""
    major = found.split(".")[0] if isinstance(found, str) else None
    if major != str(ours[0]):
        text = f"{what} version {found!r} is unknown, this harness reads {ours[0]}.x"
        raise damaged(place, text, folder, suite)


def load_manifest(folder: Path) -> Manifest:
    """Read and check ``folder/manifest.json``. FixtureError where it is absent, foreign or edited."""
    path = folder / MANIFEST_NAME
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MAX_MANIFEST_BYTES + 1)
        body = json.loads(raw.decode("utf-8"))
    except FileNotFoundError:
        raise damaged(folder, f"no fixture set here (no {MANIFEST_NAME})", folder) from None
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, f"not a readable manifest ({error})", folder) from error
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        raise damaged(path, f"not a {SCHEMA} manifest", folder)
    check_version(path, "schema", body.get("schema_version"), SCHEMA_VERSION, folder)
    check_version(path, "contract", body.get("contract_version"), CONTRACT_VERSION, folder)
    if body.get("manifest_sha256") != _body_sha256(body):
        raise damaged(path, "does not match its own hash (edited by hand?)", folder)
    try:
        return _from_body(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, f"incomplete manifest ({error!r})", folder) from error


def _from_body(body: Mapping[str, Any]) -> Manifest:
    info = SetInfo(**{name: body[name] for name in SetInfo.__dataclass_fields__})
    files = {kernel: FileEntry(**entry) for kernel, entry in body["files"].items()}
    manifest = Manifest(info, {kernel: files[kernel] for kernel in KERNELS if kernel in files})
    if len(manifest.files) != len(files):
        raise ValueError(f"unknown kernel among {sorted(files)}")
    if body["set_sha256"] != manifest.set_sha256:
        raise ValueError("set_sha256 does not match the files")
    return manifest
