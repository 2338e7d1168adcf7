"""A summary for a pull request comment or a job page: failures first, small."""

from __future__ import annotations

import re

from harness.report import digest
from harness.report.text import one_line, place, seconds, share
from harness.results import CaseResult, Results

MAX_BYTES = 20_000
_MAX_FAILURES = 20
_ROOM_FOR_TABLES = 7_000


def render(results: Results) -> str:
    """The Markdown text, under `MAX_BYTES`."""
    found = digest.verdict(results)
    head = [
        f"## {_text(found.headline)}",
        f"{found.tally} · exit {found.exit_code}, {_text(found.exit_meaning)} · "
        f"target {_code(results.target.name, 80)} · suite {_code(results.run.suite, 40)} · "
        f"contract {_code(results.run.contract_version, 20)}",
        *(f"> {_text(note)}" for note in results.notes[:3]),
    ]
    tail = [_table(results), *_shares(results), _timing(results)]
    room = MAX_BYTES - _ROOM_FOR_TABLES - _size(head)
    blocks = [*head, *_failures(results, room), *tail]
    while _size(blocks) >= MAX_BYTES:
        blocks.pop()
    return "\n\n".join(blocks) + "\n"


def _failures(results: Results, room: int) -> list[str]:
    wrong = digest.failing(results)
    if not wrong:
        return []
    blocks = ["### What is wrong"]
    for case in wrong[:_MAX_FAILURES]:
        block = _failure(case)
        room -= _size([block])
        if room < 0:
            break
        blocks.append(block)
    if left := len(wrong) - (len(blocks) - 1):
        blocks.append(f"… and {left:,} more, all of them in `index.html` and `results.json`.")
    return blocks


def _failure(case: CaseResult) -> str:
    lines = [f"**{case.outcome}** {_code(case.case_id, 200)}"]
    if case.message:
        lines.append(_text(case.message))
    if (found := case.mismatch) is not None:
        lines.append(
            f"{_code(place(found.array, found.index), 80)}: expected {_code(found.expected, 80)}, "
            f"got {_code(found.got, 80)} ({found.wrong:,} of {found.total:,} wrong)"
        )
    text = "  \n".join(lines)
    command = one_line(case.reproduce, 600)
    return f"{text}\n\n{_fence(command)}" if command else text


def _table(results: Results) -> str:
    kernels = digest.kernels(results)[:12]
    rows = [
        f"| outcome | {' | '.join(_cell(kernel.name) for kernel in kernels)} | all |",
        "|---|" + "---:|" * (len(kernels) + 1),
    ]
    for outcome, total in results.totals.items():
        counts = [sum(case.outcome == outcome for case in kernel.cases) for kernel in kernels]
        if total:
            rows.append(f"| {outcome} | {' | '.join(str(n or '·') for n in counts)} | {total} |")
    return "### Kernels\n\n" + "\n".join(rows)


def _shares(results: Results) -> list[str]:
    rows = []
    for kernel in digest.kernels(results)[:12]:
        measured = [case for case in kernel.cases if case.share is not None]
        if measured:
            worst = max(measured, key=lambda case: case.share or 0.0)
            rows.append(f"| {_cell(kernel.name)} | {share(worst.share)} | {_cell(worst.case_id)} |")
    if not rows:
        return []
    return [
        "### Worst share of the allowance\n\n| kernel | share | case |\n|---|---:|---|\n" + "\n".join(rows)
    ]


def _timing(results: Results) -> str:
    label = digest.TIMING_LABELS.get(results.target.timing, results.target.timing)
    rows = [
        f"| {_cell(k.name)} | {seconds(k.times[0])} | {seconds(k.median)} | {seconds(k.times[-1])} |"
        for k in digest.kernels(results)[:12]
        if k.times
    ]
    if not rows:
        return f"### Time of a call\n\n{_text(label)} No passing case was timed."
    table = "\n".join(["| kernel | min | median | max |", "|---|---:|---:|---:|", *rows])
    return f"### Time of a call\n\n{_text(label)}\n\n{table}"


def _size(blocks: list[str]) -> int:
    return sum(len(block.encode()) + 2 for block in blocks)


def _text(text: str) -> str:
    """Foreign text that shows as it is: no mark-up, no tag, no mention."""
    plain = re.sub(r"([\\`*_{}\[\]<>|~#])", r"\\\1", one_line(text))
    return plain.replace("&", "&amp;").replace("@", "&#64;")


def _code(text: str, limit: int) -> str:
    """A code span around any text."""
    text = one_line(text, limit) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _cell(text: str) -> str:
    """A code span in a table cell, where a bar would end the cell."""
    return _code(text, 120).replace("|", "\\|")


def _fence(text: str) -> str:
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}sh\n{text}\n{ticks}"
