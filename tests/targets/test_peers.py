"""Attention of public packages as targets: right where they serve, refusing where they do not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.case import Case
from harness.cases.base import make_case
from harness.cases.verify_attn.pairs import PAIRS
from harness.errors import EnvironmentProblem
from harness.judge import judge
from harness.observation import Job
from harness.peers import packages
from harness.replay import replay
from harness.results import Outcome
from harness.store import open_set
from harness.targets import open_target

SMOKE = Path(__file__).resolve().parents[2] / "fixtures" / "smoke"


@cache
def cases() -> tuple[Case, ...]:
    with open_set(SMOKE) as fixtures:
        return tuple(fixtures.cases("verify_attn"))


def outcome(target: Any, case: Case) -> tuple[Outcome, str]:
    found = judge(case, replay(target, Job(case.kernel, case.inputs, case.scalars)))
    return found.outcome, found.message


class Wrapper:
    """What the targets use of FlashInfer's wrapper, in torch: prefix or causal attention over pages."""

    def __init__(self, workspace: Any, backend: str) -> None:
        assert backend in ("fa2", "fa3")

    def plan(self, tokens: Any, pages: Any, indices: Any, lengths: Any, heads: int, latent: int, rope: int,
             page_slots: int, causal: bool, scale: float, q_type: Any, kv_type: Any) -> None:  # fmt: skip
        assert {x.dtype for x in (tokens, pages, indices, lengths)} == {torch.int32}
        assert (latent, rope, q_type, kv_type) == (512, 64, torch.bfloat16, torch.bfloat16)
        self._plan = tokens, pages, indices, lengths, causal, scale

    def run(self, q_latent: Any, q_rope: Any, latent: Any, rope: Any, return_lse: bool) -> tuple[Any, Any]:
        tokens, pages, indices, lengths, causal, scale = self._plan
        q = torch.cat([q_latent, q_rope], -1).double()
        pool = torch.cat([latent, rope], -1).double()
        out, lse = [], []
        for b, length in enumerate(lengths.tolist()):
            mine, n = q[tokens[b] : tokens[b + 1]], int(tokens[b + 1] - tokens[b])
            keys = pool[indices[pages[b] : pages[b + 1]].long()].reshape(-1, 576)[:length]
            scores = scale * torch.einsum("nhd,kd->nhk", mine, keys)
            if causal:
                seen = torch.ones(n, length, dtype=torch.bool).tril(length - n)
                scores = scores.masked_fill(~seen[:, None], float("-inf"))
            lse.append(torch.logsumexp(scores, -1) / 0.6931471805599453)
            out.append(torch.softmax(scores, -1) @ keys[:, :512])
        return torch.cat(out).bfloat16(), torch.cat(lse).float()


@pytest.fixture
def flashinfer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fake = SimpleNamespace(mla=SimpleNamespace(BatchMLAPagedAttentionWrapper=Wrapper), __version__="0")
    monkeypatch.setitem(sys.modules, "flashinfer", fake)
    monkeypatch.setattr("harness.peers.flashinfer_mla.gpu_of", lambda torch: "cpu")
    yield


def test_torch_serves_every_smoke_case() -> None:
    target = open_target("harness.peers:Sdpa")
    assert target.identity.absent == ("lse",)
    assert "ATTN_LSE" not in target.identity.info.capabilities
    assert {outcome(target, case)[0] for case in cases()} == {Outcome.PASS}


def test_torch_refuses_scores_that_it_would_have_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.peers.sdpa.MAX_SCORES", 3)
    found, message = outcome(open_target("harness.peers:Sdpa"), cases()[0])
    assert found == Outcome.UNSUPPORTED and "scores in request 0" in message


def chain(batch: int) -> Case:
    return make_case(PAIRS, {"H": 4, "N": 17, "P": 65, "B": batch, "S": 7, "tree": "chain"}, 0)


@pytest.mark.usefixtures("flashinfer")
@pytest.mark.parametrize("name", ["FlashInferFa2", "FlashInferFa3", "Cascade"])
@pytest.mark.parametrize("batch", [1, 32])
def test_chains_of_mla_rows_are_served(name: str, batch: int) -> None:
    found, message = outcome(open_target(f"harness.peers:{name}"), chain(batch))
    assert found == Outcome.PASS, message


@pytest.mark.usefixtures("flashinfer")
def test_the_causal_flag_serves_no_tree() -> None:
    target = open_target("harness.peers:FlashInferFa2")
    for case in cases():
        if not {"root_only", "empty"} & set(case.flags):
            found, message = outcome(target, case)
            assert found == Outcome.UNSUPPORTED
            assert "mla rows alone" in message or "chains alone" in message


@pytest.mark.usefixtures("flashinfer")
def test_the_cascade_serves_trees_of_mla_rows() -> None:
    target = open_target("harness.peers:Cascade")
    found = {case.case_id: outcome(target, case) for case in cases()}
    trees = [case.case_id for case in cases() if "mla" in case.flags]
    assert {found[case_id] for case_id in trees} == {(Outcome.PASS, "")}
    assert {found[c.case_id][0] for c in cases() if "mla" not in c.flags} == {Outcome.UNSUPPORTED}


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)  # as if it were not installed
    with pytest.raises(EnvironmentProblem, match=r"needs the Python package flashinfer: .*; .*pip install"):
        open_target("harness.peers:FlashInferFa2")


def test_without_a_gpu_the_error_says_so() -> None:
    blind = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    with pytest.raises(EnvironmentProblem, match="needs a GPU"):
        packages.gpu_of(blind)
