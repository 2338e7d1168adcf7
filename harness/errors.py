"""The harness's exceptions, one per documented exit code. The CLI alone turns them into exit codes.

Every message is one line that names the thing and the remedy.
"""


class HarnessError(Exception):
    """The harness itself failed (exit code 6)."""


class UsageProblem(HarnessError):
    """The request makes no sense: unknown name, empty selection, wrong shape (exit code 2)."""


class FixtureError(HarnessError):
    """A fixture set is damaged, foreign or of an unknown schema (exit code 3)."""


class EnvironmentProblem(HarnessError):
    """The machine cannot serve the request: no GPU, no compiler, no library (exit code 4)."""
