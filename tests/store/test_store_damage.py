"""Damage is noticed before a value is used, and the message names the place and the remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py._objects import phil
from store_cases import accept_file, edit_manifest, write_small

from harness.case import hash_words
from harness.errors import FixtureError
from harness.store import open_set

REMEDY = r"; regenerate with `harness gen-refs --suite smoke --out .*`$"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "smoke"
    write_small(path)
    return path


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "smoke"))


def read_all(folder: Path, kernel: str | None = None) -> None:
    with open_set(folder) as fixtures:
        list(fixtures.cases(kernel))


def free_for_others() -> bool:
    """Whether a thread other than this one may use h5py now; it has one lock for all of them."""

    def take() -> bool:
        free = bool(phil.acquire(blocking=False))
        if free:
            phil.release()
        return free

    with ThreadPoolExecutor(1) as other:
        return other.submit(take).result()


def refused(folder: Path, pattern: str, kernel: str | None = None) -> str:
    with pytest.raises(FixtureError, match=pattern) as caught:
        read_all(folder, kernel)
    assert free_for_others()  # while the error, and with it every frame it went through, is still there
    text = str(caught.value)
    assert "\n" not in text
    return text


def stored_at(dataset: h5py.Dataset) -> int | None:
    """The file offset of a byte in the middle of a dataset, or None for an empty one."""
    if dataset.size == 0:
        return None
    if dataset.chunks is None:
        return int(dataset.id.get_offset() + dataset.nbytes // 2)
    chunk = dataset.id.get_chunk_info(0)
    return int(chunk.byte_offset + chunk.size // 2)


def test_a_flipped_bit_in_any_dataset(whole: Path, tmp_path: Path) -> None:
    flipped, folder = 0, Path(shutil.copytree(whole, tmp_path / "smoke"))
    for source in sorted(whole.glob("*.h5")):
        places: dict[str, int | None] = {}
        with h5py.File(source) as file:
            file.visititems(
                lambda name, item, places=places: (
                    places.update({name: stored_at(item)}) if isinstance(item, h5py.Dataset) else None
                )
            )
        for name, at in places.items():
            if at is None:
                continue
            raw = bytearray(source.read_bytes())
            raw[at] ^= 0x10
            (folder / source.name).write_bytes(raw)
            text = refused(folder, "does not match the manifest's hash" + REMEDY, source.stem)
            assert f"{source.name}:{name}: " in text
            flipped += 1
        (folder / source.name).write_bytes(source.read_bytes())
    assert flipped > 60


def test_random_damage_never_passes_or_crashes(whole: Path, tmp_path: Path) -> None:
    """Headers included: h5py only ever opens such a file to say where the damage is."""
    folder = Path(shutil.copytree(whole, tmp_path / "smoke"))
    source = whole / "verify_attn.h5"
    raw = source.read_bytes()
    for word in hash_words(1, 100).tolist():
        broken = bytearray(raw)
        broken[word % len(raw)] ^= 1 + (word >> 32) % 255
        (folder / source.name).write_bytes(broken)
        refused(folder, "does not match")


@pytest.mark.parametrize("keep", [lambda n: n - 1, lambda n: n // 2, lambda n: 100, lambda n: 0])
def test_truncation(folder: Path, keep: Callable[[int], int]) -> None:
    path = folder / "kv_commit.h5"
    raw = path.read_bytes()
    path.write_bytes(raw[: keep(len(raw))])
    refused(folder, r"kv_commit\.h5: has \d+ bytes where the manifest says \d+" + REMEDY)


def test_trailing_bytes(folder: Path) -> None:
    with (folder / "kv_commit.h5").open("ab") as stream:
        stream.write(b"\0")
    refused(folder, "has .* bytes where the manifest says")


def test_only_the_damaged_kernel_is_lost(folder: Path) -> None:
    (folder / "kv_commit.h5").write_bytes(b"")
    with open_set(folder) as fixtures:
        assert len(list(fixtures.cases("verify_attn"))) == 3
        with pytest.raises(FixtureError):
            fixtures.case("kv_commit/small/c0")


@pytest.mark.parametrize("foreign", [b"not hdf5 at all" * 50, None])
def test_a_foreign_file_that_the_manifest_accepts(folder: Path, foreign: bytes | None) -> None:
    path = folder / "kv_commit.h5"
    path.unlink()
    if foreign is None:
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(5)
    else:
        path.write_bytes(foreign)
    accept_file(folder, "kv_commit")
    refused(folder, r"kv_commit\.h5: (not a ddtree-fixtures file|cannot be read .*)" + REMEDY)


def test_missing_and_extra_files(folder: Path) -> None:
    shutil.copy(folder / "kv_commit.h5", folder / "tree_build.h5")
    refused(folder, r"tree_build\.h5: is not named by the manifest" + REMEDY)
    (folder / "tree_build.h5").unlink()
    (folder / "kv_commit.h5").unlink()
    refused(folder, r"kv_commit\.h5: named by the manifest but missing" + REMEDY)


def test_a_file_under_another_kernels_name(folder: Path) -> None:
    shutil.copy(folder / "kv_commit.h5", folder / "tree_accept.h5")
    accept_file(folder, "tree_accept")
    refused(folder, r"tree_accept\.h5: attribute kernel is not")


def test_a_file_of_another_set(folder: Path, tmp_path: Path) -> None:
    with h5py.File(folder / "kv_commit.h5", "r+") as file:
        file.attrs["root_seed"] = 8
    accept_file(folder, "kv_commit")
    refused(folder, r"attribute root_seed is not the manifest's 7" + REMEDY)


def test_no_set_at_all(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent", tmp_path / "standard"):
        with pytest.raises(FixtureError, match=r"no fixture set here .*--suite standard"):
            open_set(path)
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(FixtureError, match="not a readable manifest"):
        open_set(tmp_path)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff\xfe\x00", b"[]", b'{"schema": "other"}', b"[" * 100_000, b" " * (2 << 20)]
)
def test_a_foreign_manifest(folder: Path, text: bytes) -> None:
    (folder / "manifest.json").write_bytes(text)
    refused(folder, r"manifest\.json: not a (readable|ddtree-fixtures) manifest.*" + REMEDY)


def _set(*keys: str, value: object) -> Callable[[dict[str, Any]], None]:
    def edit(body: dict[str, Any]) -> None:
        for key in keys[:-1]:
            body = body[key]
        body[keys[-1]] = value

    return edit


@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize(
    ("edit", "signed_message"),
    [
        (_set("files", "kv_commit", "cases", value=5), "set_sha256 does not match"),
        (_set("files", "kv_commit", "file_sha256", value="0" * 64), "does not match the manifest's hash"),
        (_set("files", "kv_commit", "content_sha256", value="0" * 64), "set_sha256 does not match"),
        (_set("files", "kv_commit", "bytes", value=3), "has .* bytes where"),
        (_set("suite", value="standard"), "attribute suite is not"),
        (_set("root_seed", value=0), "attribute root_seed is not"),
        (_set("reference_sha256", value="0"), "attribute reference_sha256 is not"),
        (_set("files", "../evil", value={}), "incomplete manifest"),
        (_set("files", value=None), "incomplete manifest"),
        (_set("files", "kv_commit", value={"cases": 4}), "incomplete manifest"),
    ],
)  # fmt: skip
def test_an_edited_manifest(
    folder: Path, edit: Callable[[dict[str, Any]], None], signed_message: str, sign: bool
) -> None:
    edit_manifest(folder, edit, sign)
    refused(folder, signed_message if sign else "does not match its own hash")


@pytest.mark.parametrize("version", ["2.0", "0.9", "", 1, None])
@pytest.mark.parametrize("what", ["schema", "contract"])
def test_an_unknown_major_version(folder: Path, what: str, version: object) -> None:
    edit_manifest(folder, _set(f"{what}_version", value=version), sign=True)
    refused(folder, rf"{what} version {version!r} is unknown, this harness reads 1\.x" + REMEDY)


def test_a_later_minor_version_is_read(folder: Path) -> None:
    edit_manifest(folder, _set("schema_version", value="1.7"), sign=True)
    read_all(folder)


def test_an_unknown_major_version_of_a_file(folder: Path) -> None:
    with h5py.File(folder / "kv_commit.h5", "r+") as file:
        file.attrs["schema_version"] = "2.0"
    accept_file(folder, "kv_commit")
    refused(folder, r"kv_commit\.h5: schema version '2\.0' is unknown")


def _replace(file: h5py.File, name: str, **new: object) -> None:
    attributes = dict(file[name].attrs)
    del file[name]
    file.create_dataset(name, **new).attrs.update(attributes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "name", "new", "message"),
    [
        ("verify_attn", "input/q/offsets", {"data": [0, 64, 32, 192]}, "not rising"),
        ("verify_attn", "input/q/offsets", {"data": [0, 32, 96, 999]}, "not rising"),
        ("verify_attn", "input/q/offsets", {"data": [1, 32, 96, 192]}, "not rising"),
        ("verify_attn", "input/q/offsets", {"data": [0, 192]}, "where 4 rows belong"),
        ("verify_attn", "input/q/shapes", {"data": [[1, 1, 2, 16]] * 3}, "does not fit its shape"),
        ("verify_attn", "input/q/shapes", {"data": [[1, 1, 2, -16]] * 3}, "out of bounds"),
        ("verify_attn", "input/q/shapes", {"data": [[2**40, 2**40, 2, 16]] * 3}, "out of bounds"),
        ("verify_attn", "input/kv/shapes", {"data": [[2**40, 2**40, 2]] * 3}, "out of bounds"),
        ("verify_attn", "input/kv/encoding", {"data": np.full(3, 9, np.uint8)}, "does not fit"),
        ("verify_attn", "input/kv/recipe_kind", {"data": np.full(3, 9, np.uint8)}, "does not fit"),
        ("kv_commit", "expected/kv/row_offsets", {"data": [0, 0, 9, 9, 4]}, "not rising"),
        ("verify_attn", "input/q/values", {"shape": 2**40, "dtype": "u2"}, "not rising"),
        ("verify_attn", "input/q/shapes", {"shape": (3, 2**40), "dtype": "i8"}, "claims .* bytes"),
        ("verify_attn", "input/q/values", {"data": np.zeros((3, 3))}, "has 2 axes"),
        ("verify_attn", "cases/seed", {"data": [1, 2, 3]}, "do not match content_sha256"),
        ("verify_attn", "cases/flags", {"data": np.array([b"{"] * 3)}, "cannot be read"),
        ("verify_attn", "cases/policy", {"data": np.array([b"loose"] * 3)}, "has policy 'loose'"),
        ("verify_attn", "cases/notes", {"data": np.array([b"[1"] * 3)}, "cannot be read"),
        ("verify_attn", "cases/case_id", {"data": np.array([b"\xff"] * 3)}, "cannot be read"),
        ("verify_attn", "cases/case_id", {"data": np.arange(3)}, "cannot be read|do not match"),
        ("verify_attn", "cases/payload_sha256", {"data": np.array([b"0"] * 3)}, "do not match"),
    ],
)  # fmt: skip
def test_a_forged_file(folder: Path, kernel: str, name: str, new: dict[str, object], message: str) -> None:
    """Consistent hashes around nonsense: still one FixtureError, and no memory is set aside for it."""
    with h5py.File(folder / f"{kernel}.h5", "r+") as file:
        _replace(file, name, **new)
    accept_file(folder, kernel)
    refused(folder, f"({message}).*{REMEDY}")


@pytest.mark.parametrize(
    "name", ["cases", "cases/seed", "input/q/values", "input/q/offsets", "input/kv/recipe_seed"]
)
def test_a_forged_file_without_a_part(folder: Path, name: str) -> None:
    with h5py.File(folder / "verify_attn.h5", "r+") as file:
        del file[name]
    accept_file(folder, "verify_attn")
    refused(folder, r"verify_attn\.h5", "verify_attn")
