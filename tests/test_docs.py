"""Every `harness` command that README and docs show runs, in the order shown, and ends as the page says."""

import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Commands that show a failure, by page and target. Everything else ends with 0.
SHOWN_TO_FAIL: dict[str, dict[str, int]] = defaultdict(dict)
SHOWN_TO_FAIL["README.md"] = {"mine:Mine": 1}
SHOWN_TO_FAIL["targets.md"] = {"./my.so": 1}  # its example library is a stub here


def commands(page: Path) -> list[str]:
    """The indented lines of a page that start with `harness`, without the words that explain them."""
    lines = re.findall(r"^ {4}(harness .*)$", page.read_text(encoding="utf-8"), re.M)
    shown = [re.split(r" {2,}", line.split(" # ")[0].strip())[0] for line in lines]
    return [line[:-1] if line.count("'") % 2 else line for line in shown]  # the end of a quoted script


def first_case(fixtures: Path) -> str:
    listed = run(["list", str(fixtures), "--kernel", "tree_accept", "--json"], fixtures.parent.parent)
    found = re.search(r'"case_id": "([^"]+)"', listed.stdout)
    assert found, listed.stdout[:200]
    return found.group(1)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a checkout after `make demo`."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "fixtures").mkdir()
    for name in ("fixtures/smoke", "cuda"):
        (folder / name).symlink_to(ROOT / name)
    small = "gen-refs --suite smoke --out fixtures/standard"  # a page may name it before it makes it
    assert run(small.split(), folder).returncode == 0
    demo = "verify fixtures/smoke --target cpu --report reports/cpu-smoke"
    assert run(demo.split(), folder).returncode == 0
    return folder


def prepare(page: Path, folder: Path) -> None:
    """The files that a page asks its reader to write."""
    text = page.read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(# mine\.py\n.*?)```", text, re.S):
        (folder / "mine.py").write_text(code)
    for code in re.findall(r"```c\n(.*?)```", text, re.S):
        stub = "static int32_t my_tree_accept(const ddtree_tree_accept_args* a, void* s) { return 0; }\n"
        (folder / "my.c").write_text(code.replace('#include "ddtree.h"\n', f'#include "ddtree.h"\n{stub}'))
        line = "cc -shared -fPIC -I cuda/include my.c -o my.so"
        assert line in text, f"{page.name} does not say how to build its example"
        subprocess.run(shlex.split(line), cwd=folder, check=True)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: p.name)
def test_the_commands_of_a_page_run(page: Path, checkout: Path) -> None:
    prepare(page, checkout)
    for command in commands(page):
        words = shlex.split(command.replace("[", "").replace("]", ""))[1:]
        known = {"ID": first_case(checkout / "fixtures/smoke"), "DIR": "out", "N": "0"}
        words = [known.get(word, word) for word in words]
        target = words[words.index("--target") + 1] if "--target" in words else ""
        ended = run(words, checkout)
        wanted = {SHOWN_TO_FAIL[page.name].get(target, 0)}
        if "cuda" in command or "harness.peers" in command:  # one line says what is not here
            wanted |= {2, 4}
        assert ended.returncode in wanted, f"{command}\n{ended.stdout[-800:]}{ended.stderr[-800:]}"
