"""Memory that targets work in: guards around every array, and device memory kept for the next case."""

from __future__ import annotations

import numpy as np
import pytest

from harness.memory.buffers import GUARD, Arena
from harness.memory.cuda_driver import DriverError
from harness.memory.cuda_memory import LARGEST_KEPT, SMALLEST_KEPT, Allocations, DeviceBlock, kept_size
from harness.memory.host import HostMemory


def arena(**sizes: int) -> Arena:
    return Arena(HostMemory(), sizes, 0)


def test_guards_surround_every_array() -> None:
    made = arena(a=5, empty=0, b=300)
    made.fill("a", 1)
    made.fill("b", 2)
    made.seal()
    made.fetch()
    assert (made.guard_hits(), made.changed("a")) == ((), False)
    assert made.address("empty") == made.address("absent") == 0
    assert made.address("a") % 256 == made.address("b") % 256 == 0
    hits = [
        ("a", 5, "a: 1 bytes changed from 0 bytes past its end"),
        ("a", -1, "a: 1 bytes changed up to 1 bytes before its start"),
        ("b", -1, "b: 1 bytes changed up to 1 bytes before its start"),
        ("a", 5 + GUARD - 1, "past its end"),
        ("b", -GUARD, "before its start"),
        ("b", 300 + GUARD - 1, f"b: 1 bytes changed from {GUARD - 1} bytes past its end"),
    ]
    for name, offset, words in hits:
        made.seal()
        HostMemory().upload(made.address(name) + offset, np.array([123], np.uint8))
        made.fetch()
        [hit] = made.guard_hits()
        assert hit.endswith(words)
        assert not made.changed("a")


def test_an_arena_without_payload_takes_no_memory() -> None:
    made = Arena(None, {"a": 0, "b": 0}, 1)  # type: ignore[arg-type]
    made.fill("a", 1)
    made.seal()
    made.fetch()
    assert (made.address("a"), made.guard_hits(), made.changed("b"), made.has("b")) == (0, (), False, True)


class CountingDriver:
    def __init__(self) -> None:
        self.made, self.freed, self.waits = [], [], 0

    def allocate(self, nbytes: int) -> int:
        self.made.append(nbytes)
        return 4096 * len(self.made)

    def free(self, address: int) -> None:
        self.freed.append(address)

    def synchronize(self) -> None:
        self.waits += 1


class SmallDriver(CountingDriver):
    """A device with room for `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.sizes = room, {}

    def allocate(self, nbytes: int) -> int:
        if sum(self.sizes.values()) + nbytes > self.room:
            raise DriverError("cuMemAlloc_v2", 2, "CUDA_ERROR_OUT_OF_MEMORY")
        address = super().allocate(nbytes)
        self.sizes[address] = nbytes
        return address

    def free(self, address: int) -> None:
        super().free(address)
        del self.sizes[address]


def test_device_memory_is_used_again_once_it_is_dropped() -> None:
    driver = CountingDriver()
    allocations = Allocations(driver)  # type: ignore[arg-type]
    held = [DeviceBlock(allocations, 1000), DeviceBlock(allocations, SMALLEST_KEPT)]
    first = held[0].address
    assert first != held[1].address
    held.pop(0)
    held.append(DeviceBlock(allocations, 5))
    assert (held[-1].address, driver.waits) == (first, 1)  # nothing under way may still write there
    assert driver.made == [SMALLEST_KEPT] * 2
    large = DeviceBlock(allocations, LARGEST_KEPT + 1)
    gone = large.address
    del large
    assert driver.freed == [gone]
    assert driver.made[-1] == LARGEST_KEPT + 1
    assert DeviceBlock(allocations, SMALLEST_KEPT + 1).address not in {block.address for block in held}
    assert driver.made[-1] == 2 * SMALLEST_KEPT


def test_kept_memory_makes_room_for_other_sizes() -> None:
    mib = 1 << 20
    driver = SmallDriver(1000 * mib)
    allocations = Allocations(driver)  # type: ignore[arg-type]
    held = [DeviceBlock(allocations, 33 * mib) for _ in range(29)]
    held.clear()
    held = [DeviceBlock(allocations, 17 * mib) for _ in range(55)]
    assert len({block.address for block in held}) == 55
    with pytest.raises(DriverError, match="OUT_OF_MEMORY"):
        DeviceBlock(allocations, 200 * mib)


@pytest.mark.parametrize("nbytes", [1, 5000, SMALLEST_KEPT, SMALLEST_KEPT + 1, 3 << 20, LARGEST_KEPT])
def test_sizes_of_kept_memory_are_few_and_close(nbytes: int) -> None:
    size = kept_size(nbytes)
    assert nbytes <= size <= max(SMALLEST_KEPT, 2 * nbytes) and size - nbytes < 2 << 20
    assert kept_size(size) == size


def test_runs_have_other_addresses() -> None:
    memory = HostMemory()
    first = Arena(memory, {"a": 64}, 0)
    assert first.address("a") != Arena(memory, {"a": 64}, 1).address("a")
