"""The command line in this process."""

from __future__ import annotations

import pytest

from harness.cli import main


def exit_code(*arguments: object) -> int:
    """The exit code of ``harness`` with these arguments."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)
