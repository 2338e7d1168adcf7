"""The end of a verb that has results: exit code, reports, what is printed."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from harness.cli import EXIT_CONFORMANCE, EXIT_HARNESS, EXIT_PASS
from harness.cli.files import write_files
from harness.cli.verdict import print_verdict
from harness.errors import EnvironmentProblem, UsageProblem
from harness.results import Outcome, Results


def finish(results: Results, folder: Path) -> int:
    """Write the reports to ``folder``, print the verdict; the exit code."""
    code = _exit_code(results)
    results = replace(results, exit_code=code)
    try:
        report = _write(results, folder)
    except OSError as error:
        print_verdict(results, None)  # what was found is not lost with the folder
        raise EnvironmentProblem(f"{folder}: the reports cannot be written ({error.strerror})") from error
    print_verdict(results, report)
    return code


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


def _write(results: Results, folder: Path) -> Path:
    def write() -> tuple[Path, ...]:
        from harness.report import write_reports

        return write_reports(results, folder)

    return write_files(folder, "results.json", results.to_json(), write)
