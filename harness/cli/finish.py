"""The end of a verb that has results: exit code, reports, what is printed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.cli import EXIT_CONFORMANCE, EXIT_HARNESS, EXIT_PASS
from harness.cli.verdict import print_verdict
from harness.errors import EnvironmentProblem, UsageProblem
from harness.results import Outcome, Results
from harness.writing import write_whole


def finish(results: Results, folder: Path) -> int:
    """Write the reports to ``folder``, print the verdict; the exit code."""
    code = _exit_code(results)
    results = replace(results, exit_code=code)
    try:
        report = written(folder / "results.json", results.to_json(), lambda: _reports(results, folder))
    except EnvironmentProblem:
        print_verdict(results, None)  # what was found is not lost with the folder
        raise
    print_verdict(results, report)
    return code


def written(truth: Path, text: str, reports: Callable[[], tuple[Path, ...]]) -> Path:
    """Write what ``reports`` writes, or ``truth`` alone where the template library is not installed.

    The last path, which is the one to show. EnvironmentProblem where the disk refuses.
    """
    try:
        try:
            paths = reports()
        except ImportError:
            paths = ()
        return paths[-1] if paths else write_whole(truth, text)
    except OSError as error:
        raise EnvironmentProblem(
            f"{truth.parent}: the reports cannot be written ({error.strerror})"
        ) from error


def check_folder(folder: Path) -> None:
    """Raise before a long run where its reports could not be written after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageProblem(f"--report {folder}: {error.filename} is no folder; name another") from error
    except OSError as error:
        raise EnvironmentProblem(
            f"--report {folder}: cannot be written to ({error.strerror}); name another"
        ) from error


def program() -> str:
    """How this process was started, for commands that people run again."""
    started = Path(sys.argv[0])
    from_source = started.name == "__main__.py" and started.parent.name == "harness"
    return "python3 -m harness" if from_source else "harness"


def _exit_code(results: Results) -> int:
    """A verdict of the harness about itself comes before one about the target."""
    if results.totals[Outcome.HARNESS_ERROR]:
        return EXIT_HARNESS
    return EXIT_CONFORMANCE if results.exit_reason else EXIT_PASS


def _reports(results: Results, folder: Path) -> tuple[Path, ...]:
    from harness.report import write_reports

    return write_reports(results, folder)
