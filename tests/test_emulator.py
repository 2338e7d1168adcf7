"""The emulator under its own bug zoo, checks and sanitizers (docs/emulator.md)."""

import ctypes
import fcntl
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
CUDA = REPO / "cuda"
SOURCES = Path(__file__).resolve().parent / "emulator"

EMULATOR = sorted((CUDA / "compat" / "cpu").glob("*.cpp"))
CHECK_SOURCES = sorted((SOURCES / "checks").glob("*.cu"))
KERNELS = [SOURCES / "zoo.cu", SOURCES / "semantics.cu", *CHECK_SOURCES]
FLAGS = ["-std=c++17", "-g1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread", f"-I{CUDA}"]
FLAGS += ["-DEMU_SPIN_LIMIT_MS=150"]  # CPU time; the tests of the watchdog need not wait for seconds
VARIANTS = {
    "plain": ["-O2"],
    "ucontext": ["-O0", "-DEMU_UCONTEXT"],
    "asan": ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "tsan": ["-O1", "-fsanitize=thread"],
}

# Which detectors speak on which case: the scheduler, outputs that differ between thread orders or
# between fills of shared memory, the sanitizers. tsan2 means: only with two workers.
ZOO = {
    1: "order fill tsan",
    2: "sched",
    3: "sched",
    4: "sched",
    5: "sched",
    6: "asan",
    7: "fill",
    8: "asan",
    9: "order tsan",
    10: "order tsan",
    11: "tsan",
    12: "sched",
    13: "",  # correct
    14: "tsan",
    15: "tsan2",
    16: "",  # correct
    17: "tsan2",
    18: "asan",
    19: "",  # correct
    20: "tsan",
    21: "fill",
}

CHECKS = [
    name for path in CHECK_SOURCES for name in re.findall(r"^CHECK\((\w+)\)", path.read_text(), re.MULTILINE)
]
WITHOUT_TSAN = {
    "random_order_lets_warps_drift_apart",
    "a_forked_child_launches_and_ends_too",
    "a_spinning_thread_is_stopped",
    "sleeping_lets_the_others_run",
}
SLOW_UNDER_TSAN = {"launch_limits", "a_thread_has_48_KiB_of_stack", "failed_launches_leak_nothing"}


def compiler() -> str:
    return os.environ.get("CXX", "g++")


def build(target: Path, command: list[str | Path]) -> None:
    """Run the command that makes `target`, unless another test process did."""
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            result = subprocess.run([*map(str, command), "-o", str(target)], capture_output=True, text=True)
            assert result.returncode == 0, result.stderr


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory) -> Path:
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "emulator"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def drivers(build_dir) -> dict[str, Path]:
    def build_variant(variant: str) -> Path:
        target = build_dir / f"driver-{variant}"
        sources = [*EMULATOR, SOURCES / "driver.cpp", SOURCES / "checks/check.cpp", "-x", "c++", *KERNELS]
        build(target, [compiler(), *FLAGS, *VARIANTS[variant], *sources])
        return target

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(VARIANTS, pool.map(build_variant, VARIANTS), strict=True))


def run(driver: Path, *words: object) -> subprocess.CompletedProcess:
    command = [str(driver), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("case", ZOO)
def test_zoo_case_has_its_verdict(drivers, case):
    plain = run(drivers["plain"], "verdict", case)
    assert plain.returncode == 0, plain.stderr
    spoke = plain.stdout.splitlines()[0].split()

    asan = run(drivers["asan"], "run", case, 1)
    if asan.returncode:
        assert "ERROR: AddressSanitizer" in asan.stderr or "runtime error" in asan.stderr, asan.stderr
        spoke.append("asan")

    tsan = [run(drivers["tsan"], "run", case, workers) for workers in (1, 2)]
    for result in tsan:
        assert result.returncode == 0 or "WARNING: ThreadSanitizer: data race" in result.stderr, result.stderr
    codes = tuple(result.returncode != 0 for result in tsan)
    spoke += {(False, False): [], (True, True): ["tsan"], (False, True): ["tsan2"]}.get(codes, ["tsan1"])

    assert " ".join(spoke) == ZOO[case], plain.stdout + asan.stderr + tsan[1].stderr


def test_zoo_is_complete(drivers):
    assert run(drivers["plain"], "verdict", max(ZOO) + 1).returncode == 2


def checks_by_variant():
    for variant in VARIANTS:
        for check in CHECKS:
            if variant == "tsan" and check in WITHOUT_TSAN:
                continue
            slow = variant == "tsan" and check in SLOW_UNDER_TSAN
            yield pytest.param(variant, check, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("variant", "check"), list(checks_by_variant()))
def test_check(drivers, variant, check):
    result = run(drivers[variant], "check", check)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("variant", ["plain", "ucontext", "asan"])
def test_operations_compute_what_a_gpu_computes(drivers, variant):
    result = run(drivers[variant], "semantics")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == (SOURCES / "semantics.golden").read_text()


def test_libraries_load_and_stay_apart(build_dir):
    target = build_dir / "library.so"
    flags = [*FLAGS, "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    build(target, [compiler(), *flags, *EMULATOR, "-x", "c++", SOURCES / "library.cu"])
    shutil.copy(target, build_dir / "copy.so")
    first, second = ctypes.CDLL(str(target)), ctypes.CDLL(str(build_dir / "copy.so"))

    values = (ctypes.c_float * 64)(*range(64))
    assert first.run_reverse(values) == 0
    assert list(values) == [63 - i for i in range(64)]

    for library, fill in ((first, 1), (second, 2)):
        assert library.emu_configure(b"forward", ctypes.c_uint64(0), fill, 1) == 0
    assert (first.fill_seen(), second.fill_seen()) == (1, 2)
    assert (first.spin(), second.spin()) == (719, 719)  # each has its watchdog, though they share the signal


@pytest.mark.slow
def test_nvcc_compiles_the_same_sources(tmp_path):
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc")
    for source in ("semantics.cu", "zoo.cu"):
        command = ["nvcc", "-std=c++17", "-arch=sm_90", "-c", f"-I{CUDA}", str(SOURCES / source)]
        result = subprocess.run([*command, "-o", str(tmp_path / "out.o")], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def toolkit_headers() -> Path:
    places = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    if nvcc := shutil.which("nvcc"):
        places.append(Path(nvcc).resolve().parent.parent / "include")
    for place in places:
        if (place / "cuda_bf16.h").exists():
            return place
    pytest.skip("no cuda_bf16.h")


@pytest.mark.parametrize("stride", [4093, pytest.param(1, marks=pytest.mark.slow)])
def test_bf16_equals_the_toolkit(build_dir, stride):
    target = build_dir / "bf16"
    sources = [SOURCES / "bf16_emulator.cpp", SOURCES / "bf16_toolkit.cpp"]
    build(target, [compiler(), "-std=c++17", "-O2", f"-I{CUDA}", f"-isystem{toolkit_headers()}", *sources])
    result = run(target, stride)
    assert result.returncode == 0, result.stdout
