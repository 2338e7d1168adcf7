"""JSON bodies as frozen dataclasses, checked field by field: every file that the harness reads back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from harness.errors import UsageProblem

Made = TypeVar("Made")


def load(
    path: Path, schema: str, version: int, verb: str, what: str, make: Callable[[dict[str, Any]], Made]
) -> Made:
    """What ``make`` makes of the body of a file; UsageProblem where it is no such file, or a damaged one.

    ``what`` names the kind of file, ``verb`` the command that writes such files. ``make`` may raise KeyError,
    TypeError and ValueError.
    """
    body = _read_body(path, schema, version, verb)
    try:
        return make(body)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageProblem(f"{path}: damaged {what} ({error!r}); run `{verb}` again") from error


def _read_body(path: Path, schema: str, version: int, verb: str) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageProblem(f"{path}: not a readable results file ({error}); run `{verb}`") from error
    if not isinstance(body, dict) or body.get("schema") != schema:
        raise UsageProblem(f"{path}: not a {schema} file; give one that `{verb}` wrote")
    if body.get("schema_version") != version:
        raise UsageProblem(
            f"{path}: schema version {body.get('schema_version')}, this harness reads {version}"
        )
    return body


def build(kind: Any, value: Any) -> Any:
    """``value``, as JSON gives it, as an object of the annotation ``kind``; raises where it is not one."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or (origin is UnionType and value is None):
        return value
    if origin is UnionType:
        return build(inner[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(build(inner[0], item) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {name: build(inner[1], item) for name, item in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        made: Any = kind
        hints = _hints(made)
        if unknown := value.keys() - hints.keys():
            raise ValueError(f"unknown {', '.join(sorted(unknown))}")
        return made(**{name: build(hint, value[name]) for name, hint in hints.items()})
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    if type(value) is kind or (kind is float and type(value) is int):
        if kind is float and not _is_finite(value):
            raise ValueError(f"{str(value)[:40]} is not a finite number")
        return value
    raise TypeError(f"{str(value)[:40]!r} where a {getattr(kind, '__name__', kind)} belongs")


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
