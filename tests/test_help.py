"""What `--help` shows, of the program and of every verb."""

from click.testing import CliRunner

from harness.cli import VERBS, cli


def shown(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--help"])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_program_shows_how_to_begin_line_by_line() -> None:
    lines = shown().splitlines()
    for verb in ("gen-refs", "verify", "show"):
        assert [line for line in lines if line.startswith(f"  harness {verb} ")]
    assert all(f"  {verb} " in shown() for verb in VERBS)


def test_no_help_holds_what_only_click_should_read() -> None:
    for words in ((), *((verb,) for verb in VERBS)):
        assert "\\b" not in shown(*words)
