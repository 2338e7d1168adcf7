"""What the compiler says about the tensor-core kernels: registers, spills, shared memory. Needs no GPU."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
SOURCE = REPO / "cuda" / "src"
NVCC = shutil.which("nvcc")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NVCC is None, reason="no nvcc")]

BUILDS = {  # architecture: source
    "sm_90a": "sm90/attn_hopper.cu",
    "sm_80": "sm80/attn_mma.cu",
    "sm_90": "sm80/attn_mma.cu",
    "sm_100": "sm80/attn_mma.cu",
    "sm_120": "sm80/attn_mma.cu",
}
THREADS = 256
REGISTERS = 65536  # of a multiprocessor, on all of them
# Bytes. The 64-row mma.sync kernel lacks up to four registers there; sm_120 has no room to run it.
ALLOWED_SPILLS = {"sm_100": 16, "sm_120": 16}


def report(architecture: str) -> tuple[str, list[tuple[str, int, int, int]]]:
    """The compiler's words, and (kernel, registers, spilled bytes, static shared memory) of each kernel."""
    number = architecture.removeprefix("sm_")
    command = [
        str(NVCC), "-std=c++17", "-O2", f"-gencode=arch=compute_{number},code={architecture}",
        "-Xptxas", "-v", "-DDDTREE_WGMMA", f"-I{REPO / 'cuda'}", f"-I{REPO / 'cuda' / 'include'}",
        f"-I{SOURCE}",
        "-c", str(SOURCE / BUILDS[architecture]), "-o", "/dev/null",
    ]  # fmt: skip
    text = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    text = subprocess.run(["c++filt"], input=text, check=True, capture_output=True, text=True).stdout
    kernels = []
    for part in text.split("Compiling entry function '")[1:]:
        name = part.split("'")[0]
        spills = re.search(r"(\d+) bytes spill stores", part)
        used = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        assert spills and used, part
        kernels.append((name, int(used[1]), int(spills[1]), int(shared[1]) if shared else 0))
    return text, kernels


@pytest.fixture(scope="module")
def reports() -> dict[str, tuple[str, list[tuple[str, int, int, int]]]]:
    """Reports of all architectures."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(BUILDS, pool.map(report, BUILDS), strict=True))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("architecture", BUILDS)
def test_kernels_fit(
    reports: dict[str, tuple[str, list[tuple[str, int, int, int]]]], architecture: str
) -> None:
    """No spills but those, a block per multiprocessor at least, static shared memory below the limit."""
    _, kernels = reports[architecture]
    attention = [kernel for kernel in kernels if "merge_kernel" not in kernel[0]]
    assert len(attention) == (1 if architecture == "sm_90a" else 2)
    assert len(kernels) > len(attention)
    for name, registers, spilled, shared in kernels:
        wide = "attention" in name and "Tile<64" in name
        allowed = ALLOWED_SPILLS.get(architecture, 0) if wide else 0
        assert spilled <= allowed, f"{name} spills {spilled} bytes"
        assert registers * THREADS <= REGISTERS
        assert shared <= 48 * 1024


@pytest.mark.timeout(600)
def test_products_are_not_serialized(reports: dict[str, tuple[str, list[tuple[str, int, int, int]]]]) -> None:
    """The compiler says so (C7510 and its like) when wgmma cannot run beside other instructions."""
    text, _ = reports["sm_90a"]
    assert "C75" not in text and "serializ" not in text
