"""Realistic results without a run: a passing one, a failing one with every outcome, and large ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from harness.results import (
    CaseResult,
    Environment,
    Mismatch,
    Outcome,
    Results,
    RunInfo,
    TargetInfo,
    TreePicture,
)

FAMILIES = {
    "tree_build": ("grid", "ties", "peaked", "short_rows", "invalid_rows", "batch"),
    "verify_attn": ("mla_tails", "gqa_tails", "mask_bits", "lengths", "extremes"),
    "tree_accept": ("walks", "limits", "stops", "malformed"),
    "kv_commit": ("moves", "pages", "overlap"),
    "greedy_step": ("synthesized", "planted"),
}
FLAGS = {
    "equal-scores": {
        "probes": "the order of nodes with equal scores",
        "effect": "two builds of one tree differ, and a later step accepts other tokens",
    },
    "duplicate-token": {
        "probes": "two children of one node with the same token",
        "effect": "the last child wins instead of the first, and the bonus comes from the wrong row",
    },
    "page-crossing": {
        "probes": "a tail that crosses a page border",
        "effect": "rows of another request are read or overwritten",
    },
    "inactive-request": {
        "probes": "a padded request inside a captured batch",
        "effect": "stale lengths move rows of a request that has left",
    },
    "long-prefix": {
        "probes": "many keys before the tail",
        "effect": "a wrong mask hides behind the prefix",
    },
}
_SECONDS = {
    "tree_build": 9e-4,
    "verify_attn": 6e-3,
    "tree_accept": 4e-5,
    "kv_commit": 7e-5,
    "greedy_step": 3e-2,
}
_OUTPUT = {
    "tree_build": "node_parent",
    "verify_attn": "out",
    "tree_accept": "accept_index",
    "kv_commit": "kv",
    "greedy_step": "bonus_token",
}


def words(seed: int) -> Iterator[int]:
    """Numbers below 2^31 that are the same everywhere."""
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def tree(seed: int, nodes: int, request: int) -> TreePicture:
    """A plausible draft tree; the actual path leaves the expected one where it can."""
    draw = words(seed)
    parents = [-1]
    for node in range(1, nodes):
        parents.append(min(node - 1, next(draw) % (1 + node // 2)) if node > 3 else node // 2)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    expected = [0]
    while expected[-1] in children:
        expected.append(children[expected[-1]][0])
    actual = list(expected)
    for step in range(len(expected) - 1, 0, -1):
        others = children[expected[step - 1]][1:]
        if others and step < len(expected) - 1:
            actual = [*expected[:step], others[0]]
            while actual[-1] in children:
                actual.append(children[actual[-1]][0])
            break
    tokens = [next(draw) % 151_936 for _ in parents]
    return TreePicture(request, tuple(parents), tuple(tokens), tuple(expected), tuple(actual))


def case(kernel: str, family: str, number: int, outcome: Outcome, target: str) -> CaseResult:
    """One case of a kind, with what its outcome brings along."""
    draw = words(number * 977 + len(family) * 131 + len(kernel))
    next(draw)
    tag = hashlib.sha256(f"{kernel}/{family}/{number}".encode()).hexdigest()[:8]
    case_id = f"{kernel}/{family}/B{1 + number % 3}-N{(5, 17, 65)[number % 3]}-L{3 + number % 6}-{tag}"
    attention = kernel in ("verify_attn", "greedy_step")
    share = 0.18 + (next(draw) % 7000) / 10000 * (0.5 + (number % 5) / 8) if attention else None
    message, mismatch, picture = _story(kernel, number, outcome)
    if outcome is Outcome.WRONG_VALUES and attention:
        share = 3.482
    scale = _SECONDS[kernel]
    if target == "cuda":
        scale = 2e-6 + scale / 300
    ran = outcome not in (
        Outcome.NOT_RUN,
        Outcome.UNSUPPORTED,
        Outcome.BUILD_ERROR,
        Outcome.CRASH,
        Outcome.TIMEOUT,
    )
    flags = tuple(sorted(list(FLAGS)[i] for i in {number % 5, (number + 2) % 5} if number % 4 != 1))
    return CaseResult(
        case_id=case_id,
        kernel=kernel,
        family=family,
        flags=flags,
        outcome=outcome,
        policy="attention" if attention else "exact",
        message=message,
        share=share if ran else None,
        seconds=round(scale * (0.3 + (next(draw) % 1000) / 400 + (3.0 if number % 3 == 2 else 0.0)), 9)
        if ran
        else None,
        reproduce=f"harness verify fixtures/smoke --target {target} --case {case_id}",
        mismatch=mismatch,
        tree=picture,
        dims={"B": 1 + number % 3, "N": (5, 17, 65)[number % 3], "L": 3 + number % 6},
    )


def _story(kernel: str, number: int, outcome: Outcome) -> tuple[str, Mismatch | None, TreePicture | None]:
    array = _OUTPUT[kernel]
    if outcome is Outcome.WRONG_VALUES and kernel == "verify_attn":
        found = Mismatch(array, (0, 6, 3, 118), "-0.412109375", "-0.43359375", 1_904, 34_816)
        return "out is off by 3.48 times its allowance; lse agrees", found, None
    if outcome is Outcome.WRONG_VALUES:
        requests, nodes = 1 + number % 3, (5, 17, 65)[number % 3]
        found = Mismatch(array, (requests - 1, 2), "3", "5", 4, requests * nodes)
        picture = tree(number, nodes, requests - 1)
        return f"{array}: 4 elements of request {requests - 1} differ", found, picture
    stories = {
        Outcome.WRONG_SHAPE: f"{array}: expected int32 [2, 17], got int64 [2, 17]",
        Outcome.UNWRITTEN: f"{array}: 12 elements at or past node_count keep the poison of both runs",
        Outcome.GUARD_HIT: f"64 bytes after {array} were written, from byte 0 on",
        Outcome.INPUT_MUTATED: "block_table changed during the call",
        Outcome.NONDETERMINISTIC: f"{array}: runs 1 and 3 of 5 differ in 2 elements",
        Outcome.CRASH: "the worker died with signal 11 (SIGSEGV) during this case",
        Outcome.TIMEOUT: "no answer within 60 s; the worker was killed and replaced",
        Outcome.BUILD_ERROR: "libddtree_cpu.so: undefined symbol ddtree_greedy_step",
        Outcome.UNSUPPORTED: "the target serves at most 64 nodes (N = 65)",
        Outcome.WAIVED: "known: stop tokens are ignored (example/issue 17)",
        Outcome.XPASS: "waived by example/issue 9, but passes: remove the waiver",
        Outcome.NOT_RUN: "the run was stopped after 3 crashes in a row",
        Outcome.HARNESS_ERROR: "the worker sent a message that is not JSON",
    }
    found = None
    if outcome in (Outcome.UNWRITTEN, Outcome.NONDETERMINISTIC):
        found = Mismatch(array, (0, 5), "-1", "1515870810", 12, 34)
    return stories.get(outcome, ""), found, None


def results(cases: Sequence[CaseResult], target: str = "cpu", **changes: object) -> Results:
    """A run around ``cases``."""
    cuda = target == "cuda"
    used = sorted({flag for one in cases for flag in one.flags})
    facts = {
        "platform": "Linux x86_64",
        "cpu": "2 cores",
        "python": "3.11.7",
        "numpy": "2.4.6",
        "compiler": "nvcc 13.1" if cuda else "c++ (GCC) 12.2.0",
    }
    if cuda:
        facts |= {"device": "NVIDIA H200", "compute capability": "9.0", "driver": "590.44.01"}
    values: dict[str, object] = {
        "run": RunInfo(
            time="2026-11-29T20:14:07Z",
            command=f"harness verify fixtures/smoke --target {target}",
            suite="smoke",
            fixtures="fixtures/smoke",
            harness_version="1.0.0",
            contract_version="1.0",
            fixture_hash="sha256:6f1c2b0d94aa57c1e7d0",
            seconds=11.8,
            options={"repeat": 2, "timeout": 60.0, "order": "forward"},
        ),
        "environment": Environment(facts),
        "target": TargetInfo(
            name=target,
            kind="library",
            description="ddtree kernels, CUDA" if cuda else "ddtree kernels under the CPU emulator",
            memory="device" if cuda else "host",
            timing="event" if cuda else "emulated",
            capabilities=("TREE_BUILD", "ATTN_MLA", "ATTN_GQA", "ATTN_LSE", "TREE_ACCEPT", "KV_COMMIT"),
            library_sha256="0b6a9d3f52c84e1d8c1f0a7be6d2955a4f3b8f2a1d0c9e8b7a6f5e4d3c2b1a09",
        ),
        "planned": len(cases),
        "cases": tuple(cases),
        "flags": {flag: FLAGS[flag] for flag in used if flag in FLAGS},
    }
    return Results(**{**values, **changes})  # type: ignore[arg-type]


def passing(target: str = "cuda", each: int = 12) -> Results:
    """Every case passes."""
    cases = [
        case(kernel, family, number, Outcome.PASS, target)
        for kernel, families in FAMILIES.items()
        for family in families
        for number in range(each + len(family) % 5)
    ]
    return results(cases, target, exit_code=0)


def failing(target: str = "cpu") -> Results:
    """Mostly passes, and every other outcome at least once."""
    others = [outcome for outcome in Outcome if outcome is not Outcome.PASS]
    cases = []
    for kernel, families in FAMILIES.items():
        for place, family in enumerate(families):
            for number in range(10):
                outcome = Outcome.PASS
                if number == 8 and (kernel, place) in (
                    ("tree_build", 1),
                    ("tree_accept", 0),
                    ("verify_attn", 2),
                ):
                    outcome = Outcome.WRONG_VALUES
                elif number == 4 and place and others:
                    outcome = others.pop(0)
                cases.append(case(kernel, family, number, outcome, target))
    assert not others
    return results(cases, target, exit_code=1, notes=("1 waiver matched.",))


def small() -> Results:
    """`failing`, with one pass for each kernel: small enough for golden files."""
    run = failing()
    kept: list[CaseResult] = []
    for one in run.cases:
        first = all(other.kernel != one.kernel for other in kept)
        if one.outcome is not Outcome.PASS or first:
            kept.append(one)
    return replace(run, planned=len(kept), cases=tuple(kept))


def many(count: int, wrong: int) -> Results:
    """``count`` cases, of which the first ``wrong`` fail with a picture."""
    kinds = [(kernel, family) for kernel, families in FAMILIES.items() for family in families]

    def endless() -> Iterator[CaseResult]:
        for number in range(count):
            kernel, family = kinds[number % len(kinds)]
            bad = number < wrong
            kernel, family = ("tree_accept", "walks") if bad else (kernel, family)
            yield case(kernel, family, number, Outcome.WRONG_VALUES if bad else Outcome.PASS, "cpu")

    return results(list(islice(endless(), count)))
