"""The rules of docs/architecture.md: who may import whom."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

from harness.contract import KERNELS

ROOT = Path(__file__).resolve().parents[1]

# package or module -> what it may import besides the standard library
GPU_MACHINE = {"numpy", "h5py", "click", "torch"}
ALLOWED = {
    "references": {"numpy", "references"},
    "harness/report": {
        "jinja2",
        "markupsafe",
        "harness.results",
        "harness.bench_results",
        "harness.compare_results",
        "harness.report",
        "harness.errors",
        "harness.writing",
    },
    "harness/contract.py": {"numpy"},
    "harness/memory": GPU_MACHINE | {"harness", "references"},
    "harness/peers": {"numpy", "harness", "references"},
    "harness/targets": GPU_MACHINE | {"harness", "references"},
    "harness/runner": GPU_MACHINE | {"harness"},
    "harness/bench": GPU_MACHINE | {"harness"},
    "harness/store": GPU_MACHINE | {"harness", "references"},
    "harness/judge": GPU_MACHINE | {"harness"},
    "harness/replay.py": GPU_MACHINE | {"harness"},
}
# A lower layer never reaches up to a higher one: each line names the package and what lies above it.
ABOVE = {
    "references": "",
    "harness/cases": "store lint judge runner targets generate report",
    "harness/store": "cases lint runner targets generate report",
    "harness/memory": "targets runner store cases lint report",
    "harness/peers": "runner judge store cases lint report generate",
    "harness/targets": "runner judge store cases lint report",
    "harness/judge": "runner targets cases lint report",
}
NEVER = {
    place: [f"harness.{name}" for name in names.split()] or ["harness"] for place, names in ABOVE.items()
}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def modules(place: str) -> list[Path]:
    path = ROOT / place
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert found, f"{place} has no modules; this test is out of date"
    return found


def starts(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


@pytest.mark.parametrize("place", ALLOWED)
def test_a_layer_imports_only_what_it_may(place: str) -> None:
    for path in modules(place):
        for name in imports(path):
            outside = name.split(".")[0] not in sys.stdlib_module_names
            assert not outside or any(starts(name, a) for a in ALLOWED[place]), f"{path} imports {name}"


@pytest.mark.parametrize("place", NEVER)
def test_a_layer_never_reaches_up(place: str) -> None:
    for path in modules(place):
        for name in imports(path):
            assert not any(starts(name, n) for n in NEVER[place]), f"{path} imports {name}"


def test_a_building_block_of_cases_imports_no_family() -> None:
    for path in modules("harness/cases/blocks"):
        for name in imports(path):
            family = any(starts(name, f"harness.cases.{kernel}") for kernel in KERNELS)
            assert not family and name != "harness.cases.FAMILIES", f"{path} imports {name}"


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_family_imports_none_of_another_kernel(kernel: str) -> None:
    others = [f"harness.cases.{other}" for other in KERNELS if other != kernel]
    for path in modules(f"harness/cases/{kernel}"):
        for name in imports(path):
            assert not any(starts(name, other) for other in others), f"{path} imports {name}"


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_file_of_a_kernel_holds_a_listed_family_of_it(kernel: str) -> None:
    package = f"harness.cases.{kernel}"
    listed = importlib.import_module(package).FAMILIES
    assert all(family.kernel == kernel for family in listed)
    for path in modules(f"harness/cases/{kernel}"):
        if path.stem != "__init__":
            held = vars(importlib.import_module(f"{package}.{path.stem}")).values()
            assert any(family is one for one in held for family in listed), f"{path} holds no family"


def test_nothing_below_the_command_line_prints_or_exits() -> None:
    for path in modules("harness"):
        if path.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name, where = ast.unparse(node.func), f"{path}:{node.lineno}"
                assert name not in ("print", "sys.exit", "click.echo"), f"{where} calls {name}"


def test_torch_is_never_imported_at_the_start() -> None:
    for path in modules("harness") + modules("references"):
        for node in ast.parse(path.read_text()).body:  # top level only
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "torch" not in ast.unparse(node), f"{path} imports torch when it is imported"
