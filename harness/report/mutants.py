"""The kill matrix as pages: `mutants.html` and `mutants.md`, from the body of `mutants.json` alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.report import text
from harness.report.html import _environment
from harness.writing import write_whole

Body = Mapping[str, Any]
MARKS = {
    "WRONG_VALUES": "W",
    "UNWRITTEN": "U",
    "GUARD_HIT": "G",
    "INPUT_MUTATED": "M",
    "WRONG_SHAPE": "S",
    "NONDETERMINISTIC": "N",
    "CRASH": "C",
    "TIMEOUT": "T",
    "UNSUPPORTED": "R",
}
_ALL = "*"


def write_matrix(body: Body, folder: Path) -> tuple[Path, ...]:
    """Write ``mutants.json``, and ``mutants.md`` and ``mutants.html`` as that very text has them."""
    truth = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    loaded = json.loads(truth)
    files = {
        "mutants.json": truth, "mutants.md": render_markdown(loaded), "mutants.html": render_html(loaded),
    }  # fmt: skip
    return tuple(write_whole(folder / name, text) for name, text in files.items())


def groups(body: Body) -> list[dict[str, Any]]:
    """Mutants by kernel, with the families that any of them met: one table each."""
    kernels = list(dict.fromkeys(row["kernel"] for row in body["mutants"]))
    made = []
    for kernel in kernels:
        rows = [row for row in body["mutants"] if row["kernel"] == kernel]
        families = sorted({name for row in rows for name in row["families"]}, key=lambda n: _place(kernel, n))
        title = "every kernel" if kernel == _ALL else kernel
        made.append({"kernel": title, "rows": rows, "families": families, "tail": _short(families)})
    return made


def mark(kill: Mapping[str, Any] | None) -> str:
    """One letter for an outcome; a point where the cases tried were passed."""
    return "·" if kill is None else MARKS.get(kill["outcome"], "?")


def headline(body: Body) -> str:
    """The verdict in a few words."""
    totals = body["totals"]
    ran = sum(totals[name] for name in ("killed", "unclaimed", "survived"))
    return f"{totals['killed']} of {ran} mutants killed"


def decisive(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The kill that counts: by a case that claims the class, else any."""
    kills = [kill for kill in row["families"].values() if kill is not None]
    return min(kills, key=lambda kill: not kill["claimed"], default=None)


def render_html(body: Body) -> str:
    """The page."""
    templates = resources.files("harness.report") / "templates"
    style = "".join((templates / name).read_text("utf-8") for name in ("style.css", "mutants.css"))
    context = {
        "body": body,
        "headline": headline(body),
        "good": not body["exit_reason"],
        "groups": groups(body),
        "mark": mark,
        "decisive": decisive,
        "marks": MARKS,
        "style": Markup(style),
    }
    return _environment().get_template("mutants.html.j2").render(context)


def render_markdown(body: Body) -> str:
    """The same for a pull request: totals, survivors, one table by kernel."""
    totals = body["totals"]
    lines = [
        f"# {headline(body)}",
        "",
        f"{body['target']}, {body['suite']}, {body['cases']} cases, {text.seconds(body['seconds'])}: "
        f"{totals['survived']} survived, {totals['unclaimed']} killed by no case that claims the class, "
        f"{totals['not_run']} not run here.",
        "",
        "; ".join(f"{name}: {text.one_line(value)}" for name, value in body["environment"].items()) + ".",
        "",
        "Marks: "
        + ", ".join(f"{letter} {name}" for name, letter in MARKS.items())
        + ". Bold: the case claims the class.",
    ]
    for group in groups(body):
        lines += [
            "",
            f"## {group['kernel']}",
            "",
            "| mutant | verdict | class | killed by |",
            "|---|---|---|---|",
        ]
        lines += [_markdown_row(row) for row in group["rows"]]
    if body["not_run"]:
        lines += ["", "## Not run here", "", "| mutant | needs | what |", "|---|---|---|"]
        lines += [f"| `{m['name']}` | {m['needs']} | {m['what']} |" for m in body["not_run"]]
    return "\n".join(lines) + "\n"


def _markdown_row(row: Mapping[str, Any]) -> str:
    kills = [(name, kill) for name, kill in row["families"].items() if kill is not None]
    shown = [f"**{_tail(n)} {mark(k)}**" if k["claimed"] else f"{_tail(n)} {mark(k)}" for n, k in kills]
    what = text.one_line(row["what"]).replace("|", "\\|")
    more = f", {len(shown) - 8} more" if len(shown) > 8 else ""
    return f"| `{row['name']}`: {what} | {row['verdict']} | {row['fault']} | {', '.join(shown[:8])}{more} |"


def _tail(family: str) -> str:
    return family.split("/", 1)[-1]


def _place(kernel: str, family: str) -> tuple[bool, str]:
    return (kernel != _ALL and not family.startswith(f"{kernel}/"), family)


def _short(families: Sequence[str]) -> list[tuple[str, str]]:
    return [(name.split("/", 1)[0], _tail(name)) for name in families]
