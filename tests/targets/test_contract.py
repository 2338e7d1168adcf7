"""``contract.py`` is the truth; ``ddtree.h`` and ``docs/contract.md`` say the same."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
from made import tree_inputs

from harness import contract
from harness.contract import KERNELS, Struct
from harness.errors import UsageProblem
from harness.shapes import bind
from harness.targets.abi import ARGS, structure

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "cuda" / "include" / "ddtree.h"
TEXT = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")

STRUCTS = (
    contract.INFO_STRUCT,
    contract.HINTS_STRUCT,
    *(kernel.struct for kernel in KERNELS.values()),
    contract.PLANTED_EMBED_STRUCT,
    contract.PLANTED_HEAD_STRUCT,
)
CONSTANTS = {
    "DDTREE_ABI_VERSION": contract.ABI_VERSION,
    "DDTREE_CONTRACT_MAJOR": contract.CONTRACT_VERSION[0],
    "DDTREE_CONTRACT_MINOR": contract.CONTRACT_VERSION[1],
    **{f"DDTREE_{name}": code for code, name in contract.STATUS_CODES.items()},
    **{f"DDTREE_{kernel.name.upper()}": kernel.kernel_id for kernel in KERNELS.values()},
    **{f"DDTREE_MEMORY_{name}": code for code, name in contract.MEMORY_SPACES.items()},
    **{f"DDTREE_LSE_{name}": code for code, name in contract.LSE_BASES.items()},
    **{f"DDTREE_CAP_{name}": bit for name, bit in contract.CAPABILITIES.items()},
}
C_TYPES = {  # ctype -> what _Generic names the member, pointers aside
    "u64": "u64",
    "i64": "i64",
    "i32": "i32",
    "u32": "u32",
    "f32": "f32",
    "text": "text",
    "pointer": "pointer",
    "hook": "pointer",
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a C program says about the header: offsets, sizes, types, constants, by name."""
    folder = tmp_path_factory.mktemp("header")
    lines = [f'say("{name}", (unsigned long long)({name}));' for name in CONSTANTS]
    for struct in STRUCTS:
        lines.append(f'say("{struct.name}", sizeof({struct.name}));')
        for f in struct.fields:
            member = f"(({struct.name}*)0)->{f.name}"
            lines.append(f'say("{struct.name}.{f.name}", offsetof({struct.name}, {f.name}));')
            lines.append(f'printf("{struct.name}.{f.name}:type %s\\n", TYPE({member}));')
    source = folder / "header.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <ddtree.h>\n"
        '#define TYPE(x) _Generic((x), uint64_t: "u64", int64_t: "i64", int32_t: "i32", '
        'uint32_t: "u32", float: "f32", const char*: "text", default: "pointer")\n'
        "static void say(const char* name, unsigned long long value) "
        '{ printf("%s %llu\\n", name, value); }\n'
        f"int main(void) {{ {' '.join(lines)} return 0; }}\n"
    )
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{HEADER.parent}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(folder / "header")], check=True)
    out = subprocess.run([str(folder / "header")], check=True, capture_output=True, text=True).stdout
    return dict(line.rsplit(" ", 1) for line in out.splitlines())


def test_constants(printed: dict[str, str]) -> None:
    assert {name: int(printed[name]) for name in CONSTANTS} == CONSTANTS
    defined = set(re.findall(r"#define (DDTREE_\w+) [\d(]", HEADER.read_text()))
    assert defined == set(CONSTANTS)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.name)
def test_struct_layout(struct: Struct, printed: dict[str, str]) -> None:
    made = structure(struct)
    assert struct.fields[0].name == "struct_bytes"
    assert int(printed[struct.name]) == ctypes.sizeof(made)
    for f in struct.fields:
        assert int(printed[f"{struct.name}.{f.name}"]) == getattr(made, f.name).offset
        assert printed[f"{struct.name}.{f.name}:type"] == C_TYPES[f.ctype]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.name)
def test_header_has_no_other_members(struct: Struct) -> None:
    body = re.search(rf"typedef struct {struct.name} {{(.*?)}} {struct.name};", HEADER.read_text(), re.S)
    assert body is not None
    code = re.sub(r"/\*.*?\*/", "", body[1], flags=re.S)
    assert re.findall(r"(\w+);", code) == [f.name for f in struct.fields]


def test_header_has_exactly_these_structs_and_functions() -> None:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    assert re.findall(r"typedef struct (\w+) {", text) == [
        *("ddtree_info", "ddtree_hints"),
        *(kernel.struct.name for kernel in KERNELS.values()),
        *("ddtree_planted_embed_args", "ddtree_planted_head_args"),
    ]
    functions = re.findall(r"DDTREE_API int32_t (\w+)\(", text)
    assert functions == [
        *("ddtree_query", "ddtree_workspace_bytes", "ddtree_plan"),
        *(kernel.symbol for kernel in KERNELS.values()),
        *("ddtree_planted_embed", "ddtree_planted_head"),
    ]


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_header_comments_name_the_arrays_dims(kernel: str) -> None:
    """``/* [B,N,W] */`` behind a pointer is the contract's shape."""
    struct = KERNELS[kernel].struct
    body = re.search(rf"typedef struct {struct.name} {{(.*?)}} {struct.name};", HEADER.read_text(), re.S)
    assert body is not None
    for name, dims in re.findall(r"\*\s?(?:const\* )?(\w+);\s+/\* \[([\w,]+)\]", body[1]):
        if name != "layer_base":
            assert tuple(dims.split(",")) == KERNELS[kernel].array(name).dims


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k != "greedy_step"])
def test_struct_members_are_arrays_dims_and_scalars(kernel: str) -> None:
    """Only the layouts of a pool have members of their own."""
    found = KERNELS[kernel]
    known = {a.name for a in found.arrays} | {d for a in found.arrays for d in a.dims}
    known |= {s.name for s in found.scalars} | {"struct_bytes"}
    pools = {"key", "rope", "value", "Dr", "layer_base", "reserved", "page_bytes", "slot_bytes", "row_bytes"}
    strides = {f.name for f in found.struct.fields if f.name.endswith("_stride")}
    assert {f.name for f in found.struct.fields} - known <= pools | strides
    lost = {a.name for a in found.arrays} - {f.name for f in found.struct.fields}
    assert lost <= {"kv"}


def test_arrays_have_known_dtypes_and_no_name_twice() -> None:
    for kernel in KERNELS.values():
        names = [a.name for a in kernel.arrays]
        assert len(names) == len(set(names))
        assert all(a.dtype in contract.NUMPY_DTYPES for a in kernel.arrays)
        assert set(ARGS) == set(KERNELS)


def test_one_array_has_one_dtype_in_all_kernels() -> None:
    seen: dict[str, str] = {}
    for kernel in KERNELS.values():
        for array in kernel.arrays:
            if array.name != "kv":  # bytes for kv_commit
                assert seen.setdefault(array.name, array.dtype) == array.dtype


def rows_of(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading of the document, without its head."""
    section = TEXT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_document_tables(kernel: str) -> None:
    rows = [row for row in rows_of(kernel) if len(row) == 5]
    assert rows == [
        *([a.name, a.dtype, f"[{', '.join(a.dims)}]", a.role, a.doc] for a in KERNELS[kernel].arrays),
        *([s.name, s.dtype, "scalar", "in", s.doc] for s in KERNELS[kernel].scalars),
    ]


def test_document_codes() -> None:
    codes = {row[0]: int(row[1]) for row in rows_of("C ABI") if len(row) == 3}
    assert codes == {name: code for code, name in contract.STATUS_CODES.items()}
    for name in contract.CAPABILITIES:
        assert f"`{name}`" in TEXT
    assert f"Contract {contract.CONTRACT_VERSION[0]}.{contract.CONTRACT_VERSION[1]}" in TEXT


def test_document_limits() -> None:
    for value in (contract.MAX_DEPTH, contract.MAX_CANDIDATES, contract.MAX_NODES, contract.MAX_PAGE_SLOTS):
        assert f"1..{value}" in TEXT


def test_dims_are_bound_and_checked() -> None:
    inputs = tree_inputs()
    dims = bind(contract.TREE_BUILD, inputs, {"budget": 64})
    assert dims == {"N": 65, "B": 2, "L": 3, "K": 4, "W": 3}
    with pytest.raises(UsageProblem, match="dimension B is both 2 and 1"):
        bind(contract.TREE_BUILD, {**inputs, "root_token": inputs["root_token"][:1]}, {"budget": 64})
    with pytest.raises(UsageProblem, match=r"topk_logprob is <f8\[2, 3, 4\], want float32\[B, L, K\]"):
        wide = {**inputs, "topk_logprob": inputs["topk_logprob"].astype("<f8")}
        bind(contract.TREE_BUILD, wide, {"budget": 64})
    with pytest.raises(UsageProblem, match="prefix_len missing"):
        bind(contract.TREE_BUILD, {k: v for k, v in inputs.items() if k != "prefix_len"}, {"budget": 64})
    with pytest.raises(UsageProblem, match="scalars: scale unknown"):
        bind(contract.TREE_BUILD, inputs, {"budget": 64, "scale": 1.0})
