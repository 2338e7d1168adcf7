"""The command line: one verb per file, loaded when it is called. Exit codes are made here alone."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click

from harness.errors import EnvironmentProblem, FixtureError, HarnessError, UsageProblem

EXIT_PASS, EXIT_CONFORMANCE, EXIT_USAGE, EXIT_FIXTURE, EXIT_ENVIRONMENT = 0, 1, 2, 3, 4
EXIT_REGRESSION, EXIT_HARNESS = 5, 6

# verb -> (module of the same name in this package, one line for --help)
VERBS = {
    "gen-refs": ("gen_refs", "Write a fixture set with the NumPy references."),
    "verify": ("verify", "Replay a fixture set against a target and report."),
    "bench": ("bench", "Time a target's kernels next to what they must take at least."),
    "compare": ("compare", "Say whether one target is faster or slower than another."),
    "lint": ("lint", "Check that a fixture set is whole and that its cases can fail."),
    "mutants": ("mutants", "Run wrong kernels on purpose, and say which cases catch them."),
    "list": ("list", "List cases, families or flags."),
    "show": ("show", "Print one case with its tree."),
    "report": ("report", "Render the JSON file of a run again."),
    "merge": ("merge", "Join the results of all shards of a run."),
    "repro": ("repro", "Write one case as a small C++/CUDA program for debuggers and profilers."),
}


class _Verbs(click.Group):
    """A group that imports a verb's module only when that verb runs, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"harness.cli.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="ddtree-harness", prog_name="harness")
def cli() -> None:
    """Prove draft-tree CUDA kernels right, and time them, without the model.

    \b
    harness gen-refs                              write fixtures/standard
    harness verify fixtures/smoke --target cpu    replay them, write reports/
    harness show fixtures/smoke --case ID         look at one case

    Exit codes: 0 all pass, 1 conformance failure, 2 usage, 3 fixture damaged or of an unknown schema,
    4 environment unusable (no GPU, no compiler, no library), 5 performance regression, 6 harness error,
    130 interrupted.
    """  # noqa: D301 - the escape is meant: click keeps the lines of the paragraph that it marks


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the CLI and exit with the documented code; one line on stderr for every failure."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both leave through the same clean-up
    try:
        code = cli.main(args=arguments, prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("harness: interrupted", err=True)
        sys.exit(130)
    except UsageProblem as error:
        _fail(error, EXIT_USAGE)
    except FixtureError as error:
        _fail(error, EXIT_FIXTURE)
    except EnvironmentProblem as error:
        _fail(error, EXIT_ENVIRONMENT)
    except HarnessError as error:
        _fail(error, EXIT_HARNESS)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PASS)
    except OSError as error:
        _fail(error, EXIT_ENVIRONMENT)
    except Exception as error:
        _fail(f"internal error, please report it: {type(error).__name__}: {error}", EXIT_HARNESS)
    sys.exit(code if isinstance(code, int) else EXIT_PASS)


def _fail(error: Exception | str, code: int) -> None:
    click.echo(f"harness: {error}", err=True)
    sys.exit(code)
