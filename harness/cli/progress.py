"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Say = Callable[[int, int], None]  # done, planned
_QUIET_SECONDS = 10.0


@contextmanager
def progress_bar(title: str) -> Iterator[Say]:
    """A function of (done, total) that moves the bar, or prints a line at most every ten seconds."""
    if not sys.stderr.isatty():
        click.echo(f"{title} ...", err=True)
        yield _lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(title: str) -> Say:
    started = said = time.monotonic()

    def say(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= _QUIET_SECONDS and done < total:
            said = now
            click.echo(f"{title}: {done} of {total}, {now - started:.0f} s", err=True)

    return say
