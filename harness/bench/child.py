"""One bench worker as its supervisor sees it: requests with a deadline; answers, or a reason why not."""

from __future__ import annotations

from typing import Any

from harness.bench_results import Arrangement, DeviceSpan
from harness.case import Case
from harness.observation import Job, Observation
from harness.results import Outcome
from harness.runner import wire
from harness.runner.child import Child, Death
from harness.targets.base import Options
from harness.typed_json import build

_OUTCOMES = {"failed": Outcome.WRONG_VALUES, "device": Outcome.CRASH}


class Ended(Exception):
    """A case came to an end without times. ``replace``: the worker is gone, another is needed."""

    def __init__(self, outcome: Outcome, message: str, replace: bool = False) -> None:
        super().__init__(f"{outcome}: {message}")
        self.outcome, self.message, self.replace = outcome, message, replace


class BenchChild(Child):
    """A bench worker with its target open. Raises as `Child` where the target cannot be opened."""

    module = "harness.bench.worker"

    def __init__(self, target: str, options: Options, seconds: float) -> None:
        self._seconds = seconds  # for one request
        super().__init__(target, options, seconds)

    def device(self) -> tuple[float | None, str]:
        """Measured copy bandwidth (bytes a second, read and written) and bus id of the device."""
        answer, _ = self._ask({"do": "device"})
        return answer["bandwidth"], answer["bus_id"]

    def load(self, case: Case) -> None:
        """Hand over a case. Ended where the target does not serve it."""
        packer = wire.Packer()
        job = wire.job_message(Job(case.kernel, case.inputs, case.scalars), 1, packer)
        answer, _ = self._ask({"do": "load", **job}, packer)
        if answer["refused"] is not None:
            raise Ended(Outcome.UNSUPPORTED, answer["refused"])

    def arrange(self, cache: str, touched: int, calls: int = 0) -> Arrangement:
        """Set up the buffers of the loaded case."""
        answer, _ = self._ask({"do": "arrange", "cache": cache, "touched": touched, "calls": calls})
        made: Arrangement = build(Arrangement, answer["arrangement"])
        return made

    def check(self) -> Observation:
        """Outputs of one untimed sample on buffers written anew."""
        return self._observation("check")

    def left(self) -> Observation:
        """Outputs as the timed calls left them."""
        return self._observation("left")

    def sample(self, count: int, discard: int = 1, fresh: bool = True) -> list[float]:
        """Seconds of one call, sample by sample."""
        answer, _ = self._ask({"do": "sample", "count": count, "discard": discard, "fresh": fresh})
        seconds = [float(s) for s in answer["seconds"]]
        if any(s <= 0 for s in seconds):
            raise Ended(Outcome.HARNESS_ERROR, "a sample took no time: the clock is too coarse for it")
        return seconds

    def stages(self, count: int) -> dict[str, list[float]]:
        """Samples of the kernels of a composed step, each alone."""
        answer, _ = self._ask({"do": "stages", "count": count})
        return {str(k): [float(s) for s in samples] for k, samples in answer["stages"].items()}

    def spans(self, cache: str, calls: int) -> tuple[DeviceSpan, ...]:
        """What a profiler sees of the kernels of ``calls`` single calls; Ended where it sees none."""
        answer, _ = self._ask({"do": "spans", "cache": cache, "calls": calls})
        found: tuple[DeviceSpan, ...] = build(tuple[DeviceSpan, ...], answer["spans"])
        if not found:
            raise Ended(Outcome.HARNESS_ERROR, "the profiler saw no kernel")
        return found

    def _observation(self, verb: str) -> Observation:
        return wire.read_observation(*self._ask({"do": verb}))

    def _ask(
        self, message: dict[str, Any], packer: wire.Packer | None = None
    ) -> tuple[wire.Message, memoryview]:
        self.post(wire.framed(message, packer.parts if packer else ()), self._seconds)
        frame = self.frame(self._seconds)
        if isinstance(frame, Death):
            raise Ended(frame.outcome, frame.message, replace=True)
        answer, payload = frame
        if "error" not in answer:
            return answer, payload
        kind, text = answer["error"], str(answer["message"])
        raise Ended(
            _OUTCOMES.get(kind, Outcome.HARNESS_ERROR),
            f"device fault: {text}" if kind == "device" else text,
            replace=kind == "device",
        )
