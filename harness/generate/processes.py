"""Work spread over fresh processes, results in order.

Processes are spawned, not forked, run BLAS on one thread (as fast here, and sums keep their order whatever
the number of processes), leave Ctrl-C to their parent and end with it even if it was killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from harness.errors import HarnessError

Item = TypeVar("Item")
Result = TypeVar("Result")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def map_in_processes(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int | None,
    start: Callable[..., None],
    arguments: tuple[Any, ...],
) -> Iterator[Result]:
    """``function`` of every item, in the order of the items, by ``jobs`` processes (default: one per core).

    Each process calls ``start(*arguments)`` first. What ``function`` raises is raised here; HarnessError
    where a process died.
    """
    executor = ProcessPoolExecutor(
        max_workers=max(1, min(jobs or os.cpu_count() or 1, len(items))),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(start, arguments),
    )
    try:
        with _one_thread_each(), _deaf_to_interrupts():
            futures = [executor.submit(function, item) for item in items]
        for future in futures:
            yield future.result()
    except BrokenProcessPool as error:
        raise HarnessError("a worker process died (out of memory?); try fewer --jobs") from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started in this block find the variables of BLAS set to one thread."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes started in this block never see Ctrl-C, because they inherit that it is blocked.

    Here it waits for the end of the block: half a start would leave a process without its orders.
    """
    came: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    here = threading.current_thread() is threading.main_thread()
    # Another thread (of BLAS, say) may take the signal, and Python would raise it here in spite of the mask.
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if here else None
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if here:
            signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


def _start(start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_follow_parent, daemon=True).start()
    start(*arguments)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
