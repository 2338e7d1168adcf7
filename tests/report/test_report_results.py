"""results.json: the schema, the round trip, and what a damaged file does."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import sample

from harness.errors import UsageProblem
from harness.results import Outcome, Results, load_results

RUNS = [sample.failing(), sample.passing("cuda"), sample.passing("cpu"), sample.results([])]


def schema() -> dict[str, object]:
    loaded: dict[str, object] = json.loads((resources.files("harness") / "results.schema.json").read_text())
    return loaded


@pytest.mark.parametrize("run", RUNS)
def test_schema_accepts_generated_results(run: Results) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(json.loads(run.to_json()), schema())


def test_schema_and_code_agree_on_names() -> None:
    definitions = schema()["$defs"]
    assert isinstance(definitions, dict)
    body = json.loads(sample.failing().to_json())
    assert definitions["outcome"]["enum"] == [str(outcome) for outcome in Outcome]
    assert definitions["case"]["required"] == list(body["cases"][0])
    assert definitions["run"]["required"] == list(body["run"])
    assert definitions["target"]["required"] == list(body["target"])
    assert schema()["required"] == list(body)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["cases"][0].pop("share"),
        lambda body: body["cases"][0].update(colour="red"),
        lambda body: body["cases"][0].update(outcome="FINE"),
        lambda body: body.update(planned=-1),
        lambda body: body["totals"].pop("PASS"),
        lambda body: body.update(cases_per_second=0),
    ],
)
def test_schema_refuses(change: object) -> None:
    body = json.loads(sample.failing().to_json())
    change(body)  # type: ignore[operator]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, schema())


def test_a_file_from_before_the_rate_is_read(tmp_path: Path) -> None:
    body = json.loads(sample.failing().to_json())
    assert body.pop("cases_per_second") is None
    (tmp_path / "results.json").write_text(json.dumps(body))
    assert load_results(tmp_path / "results.json") == sample.failing()


@pytest.mark.parametrize("run", RUNS)
def test_round_trip(run: Results, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(run.to_json(), encoding="utf-8")
    again = load_results(path)
    assert again == run
    assert again.to_json() == run.to_json()


def damaged(**changes: object) -> str:
    body = json.loads(sample.failing().to_json())
    return json.dumps({**body, **changes})


def with_case(**changes: object) -> str:
    body = json.loads(sample.failing().to_json())
    body["cases"][0].update(changes)
    return json.dumps(body)


DAMAGED = {
    "empty": "",
    "text": "all fine",
    "list": "[]",
    "foreign": '{"schema": "junit"}',
    "deep": "[" * 100_000,
    "future": damaged(schema_version=2),
    "no run": damaged(run={}),
    "cases a text": damaged(cases="none"),
    "cases null": damaged(cases=None),
    "environment list": damaged(environment=[]),
    "totals wrong": damaged(totals={}),
    "planned text": damaged(planned="many"),
    "planned bool": damaged(planned=True),
    "success with a reason to fail": damaged(exit_code=0, exit_reason="1 CRASH"),
    "unknown key": damaged(mood="good"),
    "unknown outcome": with_case(outcome="FINE"),
    "unknown case key": with_case(colour="red"),
    "share text": with_case(share="0.5"),
    "share NaN": with_case(share=float("nan")),
    "share infinite": with_case(share=float("inf")),
    "share beyond every float": with_case(share=10**400),
    "share too large": with_case(share=1).replace('"share": 1,', '"share": 1e999,'),
    "flags text": with_case(flags="mla"),
    "tree list": with_case(tree=[1]),
    "dims text": with_case(dims={"B": "2"}),
    "truncated": sample.failing().to_json()[:5000],
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_a_usage_problem_that_names_the_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageProblem, match=r"results\.json"):
        load_results(path)


def test_no_file_or_bytes(tmp_path: Path) -> None:
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{")
    for name in (".", "absent.json", "bytes.json"):
        with pytest.raises(UsageProblem):
            load_results(tmp_path / name)
