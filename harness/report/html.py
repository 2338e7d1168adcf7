"""The report page: one file, offline, without scripts, within a size budget."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from harness.report import charts, digest, text, tree_svg
from harness.results import CaseResult, Results

# Bytes. Together with the rest of the page they stay under 1.5 MB.
BUDGET_EXPANDED, BUDGET_LISTED, BUDGET_SKIPPED, BUDGET_PASSES = 400_000, 400_000, 80_000, 450_000
_KERNELS, _MANY = 10, 40  # kernels; families of one, notes or facts: more than a sane run has


@cache
def _environment() -> Environment:
    files = resources.files("harness.report") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (files / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else text.clean(str(value)),
    )
    environment.filters.update(
        clip=text.clip,
        seconds=text.seconds,
        share=text.share,
        percent=text.percent,
        count=text.count,
        standing=digest.standing,
    )
    environment.globals.update(place=text.place, share_level=_share_level)
    return environment


def render(results: Results) -> str:
    """The page."""
    kernels = digest.kernels(results)
    wrong = digest.failing(results)
    skipped = [c for c in results.cases if digest.standing(c.outcome, bool(results.left)) == "skip"]
    expanded, listed, unlisted = _failures(results, wrong)
    skip_rows, skip_left = _within(_lines(skipped), len(skipped), BUDGET_SKIPPED)
    context: dict[str, Any] = {
        "results": results,
        "verdict": digest.verdict(results),
        "counts": digest.whole(results).counts,
        "bar": Markup(charts.outcome_bar(_standings(results))),
        "facts": digest.facts(results),
        "kernels": kernels,
        "lost": digest.lost(results),
        "meanings": digest.MEANINGS,
        "wrong": wrong,
        "expanded": expanded,
        "listed": listed,
        "unlisted": unlisted,
        "skipped": skipped,
        "skip_rows": skip_rows,
        "skip_left": skip_left,
        "timing": _timing(results, kernels),
        "shares": _shares(kernels),
        "passes": _passes(kernels),
        "environment": _machine(results),
        "style": Markup((resources.files("harness.report") / "templates" / "style.css").read_text("utf-8")),
        "most": _KERNELS,
        "many": _MANY,
    }
    return _environment().get_template("index.html.j2").render(context)


def _within(fragments: Iterable[str], total: int, budget: int) -> tuple[list[Markup], int]:
    """The first of ``total`` fragments that fit into ``budget`` bytes, and how many do not."""
    kept: list[Markup] = []
    for fragment in fragments:
        budget -= len(fragment.encode())
        if budget < 0:
            break
        kept.append(Markup(fragment))
    return kept, total - len(kept)


def _failures(results: Results, wrong: Sequence[CaseResult]) -> tuple[list[Markup], list[Markup], int]:
    """Failures in full, those in one line each, and the number of the rest."""
    template = _environment().get_template("failure.html.j2")

    def article(number: int, case: CaseResult) -> str:
        tree = case.tree
        return template.render(
            number=number,
            case=case,
            meaning=results.flags,
            picture=Markup(tree_svg.render(tree)) if tree else "",
            caption=f"{tree_svg.describe(tree)} {tree_svg.hidden_note(tree)}" if tree else "",
        )

    full = [case for case in wrong if case.outcome != "NOT_RUN"]
    articles = (article(number, case) for number, case in enumerate(full, 1))
    expanded, _ = _within(articles, len(full), BUDGET_EXPANDED)
    rest = [*full[len(expanded) :], *(case for case in wrong if case.outcome == "NOT_RUN")]
    listed, unlisted = _within(_lines(rest), len(rest), BUDGET_LISTED)
    return expanded, listed, unlisted


def _lines(cases: Iterable[CaseResult]) -> Iterable[str]:
    row = _environment().get_template("line.html.j2")
    return (row.render(case=case, wrong=digest.standing(case.outcome) != "skip") for case in cases)


def _passes(kernels: Sequence[digest.Group]) -> list[dict[str, Any]]:
    row = _environment().from_string(
        '<tr><td><code>{{ c.case_id|clip }}</code></td><td class="n">{{ c.share|share(c.policy) }}</td>'
        '<td class="n">{{ c.seconds|seconds }}</td></tr>\n'
    )
    budget = BUDGET_PASSES
    found = []
    for kernel in kernels:
        if kernel.passes:
            lines = (row.render(c=case) for case in kernel.passes)
            rows, left = _within(lines, len(kernel.passes), budget)
            budget = 0 if left else budget - sum(len(line.encode()) for line in rows)
            found.append({"kernel": kernel, "rows": rows, "left": left})
    return found


def _standings(results: Results) -> dict[str, int]:
    counts: dict[str, int] = dict(digest.whole(results).counts.items())
    counts["error"] += digest.lost(results)
    return counts


def _timing(results: Results, kernels: Sequence[digest.Group]) -> dict[str, Any]:
    timed = [kernel for kernel in kernels if kernel.times]
    axis = charts.time_axis([t for kernel in timed for t in (kernel.times[0], kernel.times[-1])])
    rows = [(k, Markup(charts.time_chart(k.times, axis, k.name))) for k in timed]
    label = digest.TIMING_LABELS.get(results.target.timing, results.target.timing)
    return {"label": label, "rows": rows, "axis": Markup(charts.scale(axis))}


def _shares(kernels: Sequence[digest.Group]) -> dict[str, Any]:
    measured = {k.name: [c.share for c in k.cases if c.share is not None] for k in kernels}
    axis = charts.share_axis(max((max(values) for values in measured.values() if values), default=0.0))
    rows = [
        (name, len(values), max(values), Markup(charts.share_chart(values, axis, name)))
        for name, values in measured.items()
        if values
    ]
    return {"rows": rows, "axis": Markup(charts.scale(axis))}


def _machine(results: Results) -> list[tuple[str, str]]:
    target = results.target
    rows = [
        ("target kind", target.kind),
        ("memory", target.memory),
        ("timing", target.timing),
        ("capabilities", ", ".join(target.capabilities) or "none declared"),
        ("library SHA-256", target.library_sha256 or ""),
        ("fixture hash", results.run.fixture_hash),
        *results.environment.facts.items(),
        *((f"option {name}", _plain(value)) for name, value in results.run.options.items()),
    ]
    return [(name, value) for name, value in rows if value]


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _share_level(value: float | None) -> str:
    """How much of the allowance is gone, as a name for a colour."""
    if value is None:
        return "exact"
    return "over" if value > 1 else "high" if value > 0.8 else "some" if value > 0.4 else "low"
