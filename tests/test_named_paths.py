"""What pages and comments name is there: files, links, targets of the Makefile, the example of a family."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.cases.base import make_case

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("harness", "references", "cuda", "tests", "docs")
# Named on a page and not in a checkout: what an install makes.
MADE = {"harness/lib", "harness/include"}


def named_paths(text: str) -> set[str]:
    """Paths from the root of the project, as pages and comments write them; patterns left out."""
    found = re.findall(rf"(?<![\w/.<>-])((?:{'|'.join(FOLDERS)})/[\w./*<>-]*\w)(?![*<\w])", text)
    return {path for path in found if not re.search(r"[*<>]", path)}


def texts() -> list[Path]:
    kinds = {".md", ".py", ".cu", ".cuh", ".h", ".cpp", ".c", ".cmake", ".txt"}
    files = [path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.suffix in kinds]
    return [*PAGES, ROOT / "Makefile", *(path for path in files if path != Path(__file__))]


def test_pages_and_comments_name_only_paths_that_exist() -> None:
    stale = [
        f"{path.relative_to(ROOT)} names {name}"
        for path in texts()
        for name in named_paths(path.read_text(encoding="utf-8")) - MADE
        if not (ROOT / name).exists()
    ]
    assert stale == []


def test_paths_are_found_in_text() -> None:
    text = "(`harness/a.py`), tests/b_c.cu:4, cuda/x/*.cu, docs/<kernel>.md, /tmp/harness/d, references/."
    assert named_paths(text) == {"harness/a.py", "tests/b_c.cu"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
        linked = page.parent / link if link else page
        assert linked.exists(), f"links to {link}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.M)
            slugs = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert anchor in slugs, f"links to #{anchor} of {linked.name}"


def test_the_example_of_a_family_makes_a_case() -> None:
    page = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.S)[0], names)
    family = names["MINE"]
    case = make_case(family, next(iter(family.plan("smoke"))), 0)
    assert case.case_id.startswith("tree_build/mine/L3-") and case.flags == ("my_flag",)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_name_targets_of_the_makefile(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for name in re.findall(r"(?:^ {4}|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.M):
        assert name in targets or (page.name == "debugging.md" and name in ("asan", "gpu")), f"make {name}"
