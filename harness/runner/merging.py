"""The results of all shards of one run, as the results that the run would have had without shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import UsageProblem
from harness.results import CaseResult, Environment, Results, RunInfo
from harness.runner.conclusion import failures, shard_of
from harness.runner.planning import parse_shard

_OWN = ("shard", "jobs")  # options in which shards may differ


def merge(shards: Mapping[str, Results], command: str) -> Results:
    """One `Results` of the shards, which are given by the name of their file.

    UsageProblem unless every shard is there exactly once, all are of the same run, and their cases add up.
    """
    ordered = _in_order(shards)
    names = list(ordered)
    first = ordered[names[0]]
    for name in names[1:]:
        _check_alike(names[0], first, name, ordered[name])
    results = list(ordered.values())
    cases = _interleaved(ordered)
    merged = Results(
        run=_run_info(results, command),
        environment=_environment(results),
        target=first.target,
        planned=sum(r.planned for r in results),
        cases=cases,
        flags={name: meaning for r in results for name, meaning in r.flags.items()},
        notes=tuple(dict.fromkeys(note for r in results for note in r.notes)),
    )
    required = first.run.options.get("require", ())
    return replace(merged, exit_reason="; ".join(failures(merged, required)))


def _in_order(shards: Mapping[str, Results]) -> dict[str, Results]:
    placed: dict[int, str] = {}
    count = 0
    for name, results in shards.items():
        text = shard_of(results)
        if text is None:
            raise UsageProblem(f"{name}: not a shard; give the results of `harness verify --shard i/n`")
        shard = parse_shard(text)
        if count and shard.count != count:
            raise UsageProblem(f"{name}: shard {shard} among shards of {count}; merge the shards of one run")
        if shard.index in placed:
            raise UsageProblem(f"{name}: shard {shard} is in {placed[shard.index]} already; give each once")
        placed[shard.index], count = name, shard.count
    missing = [f"{i}/{count}" for i in range(1, count + 1) if i not in placed]
    if missing or not placed:
        raise UsageProblem(f"shard {', '.join(missing) or '1/1'} is missing; give the results of every shard")
    return {placed[index]: shards[placed[index]] for index in sorted(placed)}


def _check_alike(first_name: str, first: Results, name: str, other: Results) -> None:
    run, target = first.run, first.target
    pairs: list[tuple[str, Any, Any]] = [
        ("target", target.name, other.target.name),
        ("target library", target.library_sha256, other.target.library_sha256),
        ("target", target, other.target),
        ("fixture set", run.fixture_hash, other.run.fixture_hash),
        ("contract", run.contract_version, other.run.contract_version),
        ("harness", run.harness_version, other.run.harness_version),
    ]
    options, others = first.run.options, other.run.options
    pairs += [
        (f"option {key}", options.get(key), others.get(key))
        for key in sorted({*options, *others} - set(_OWN))
    ]
    for what, a, b in pairs:
        if a != b:
            raise UsageProblem(f"{first_name} and {name} differ in their {what}: {a} and {b}; merge one run")


def _interleaved(shards: Mapping[str, Results]) -> tuple[CaseResult, ...]:
    """All cases in the order of the set: shard i has every n-th from the i-th on."""
    columns: Sequence[Results] = list(shards.values())
    for name, results in shards.items():
        if len(results.cases) != results.planned:
            raise UsageProblem(
                f"{name}: {results.planned} cases planned, {len(results.cases)} there; run it again"
            )
    total = sum(len(r.cases) for r in columns)
    count = len(columns)
    expected = [len(range(i, total, count)) for i in range(count)]
    if [len(r.cases) for r in columns] != expected:
        raise UsageProblem(f"{total} cases do not part into shards like these; run every shard again")
    cases = tuple(columns[i % count].cases[i // count] for i in range(total))
    seen: set[str] = set()
    for case in cases:
        if case.case_id in seen:
            raise UsageProblem(f"case {case.case_id} is in two shards; run every shard again")
        seen.add(case.case_id)
    return cases


def _run_info(results: Sequence[Results], command: str) -> RunInfo:
    first = results[0].run
    options = {name: value for name, value in first.options.items() if name != "shard"}
    return replace(
        first,
        time=min(r.run.time for r in results),
        command=command,
        seconds=max(r.run.seconds for r in results),
        options={**options, "merged": len(results)},
    )


def _environment(results: Sequence[Results]) -> Environment:
    """Facts in which the shards differ are shown side by side."""
    values: dict[str, list[str]] = {}
    for result in results:
        for name, value in result.environment.facts.items():
            if value not in values.setdefault(name, []):
                values[name].append(value)
    return Environment({name: " | ".join(found) for name, found in values.items()})
