"""Fault classes of stored sets and of references."""

from __future__ import annotations

from functools import partial

from harness.mutants.faults.part import fault
from harness.mutants.model import Fault

_TRIP, _WRITE = "tests/store/test_store_round_trip.py", "tests/store/test_store_writing.py"
_DAMAGE = "tests/store/test_store_damage.py"

_fault = partial(fault, "Store and reference")

STORING: dict[str, Fault] = {
    "times-in-files": _fault(
        "Creation times make equal data differ in bytes",
        tests=f"{_TRIP}::test_two_writes_a_second_apart_are_equal_bytes",
        links="h5py/h5py#225 h5py/h5py#1919 h5py/h5py#1953",
    ),
    "bool-layout": _fault(
        "Booleans stored as something another reader cannot read",
        tests=f"{_TRIP}::test_a_second_reader_understands_it "
        "tests/targets/test_contract.py::test_arrays_have_known_dtypes_and_no_name_twice",
        links="h5py/h5py#22 h5py/h5py#641 ComputationalRadiationPhysics/picongpu#682",
    ),
    "bf16-layout": _fault(
        "bf16 comes back as opaque bytes",
        tests=f"{_TRIP}::test_a_case_comes_back "
        "tests/references/test_ref_bf16.py::test_every_pattern_round_trips",
        links="h5py/h5py#1822 keras-team/keras#19091 HDFGroup/hdf5#5402",
    ),
    "file-locks": _fault(
        "A second writer damages a set, or a lock keeps readers out",
        tests=f"{_WRITE}::test_rivals_never_mix {_WRITE}::test_a_reader_keeps_the_set_it_opened",
        links="h5py/h5py#1101 h5py/h5py#1804 h5py/h5py#2506",
    ),
    "half-a-file": _fault(
        "A truncated or flipped file opens and is used",
        tests=f"{_DAMAGE}::test_truncation {_DAMAGE}::test_a_flipped_bit_in_any_dataset "
        f"{_WRITE}::test_a_killed_writer_leaves_the_old_set_and_the_next_run_cleans_up",
        links="h5py/h5py#370 h5py/h5py#1179 h5py/h5py#1807 h5py/h5py#2250",
    ),
    "forked-handle": _fault(
        "A file opened before a fork reads wrongly in the children",
        tests=f"{_WRITE}::test_forked_children_read_an_open_set",
        links="h5py/h5py#934 h5py/h5py#2372 gem/oq-engine#3440",
    ),
    "unstable-sort": _fault(
        "The order of equal values changes with the machine or the NumPy release",
        tests="tests/generate/test_gen_refs.py::test_the_command_and_its_check "
        "tests/cases/test_family_rules.py::test_one_seed_gives_the_same_bits_and_another_seed_others",
        links="numpy/numpy#24064 numpy/numpy#27725 pandas-dev/pandas#53548",
    ),
    "unstable-log": _fault(
        "log, exp and power differ by an ulp between machines, and rank something",
        tests="tests/generate/test_drift.py::test_drift_is_named "
        "tests/cases/test_family_rules.py::test_one_seed_gives_the_same_bits_and_another_seed_others",
        links="numpy/numpy#23523 numpy/numpy#22904 numpy/numpy#26117 numpy/numpy#18371 "
        "jmrplens/phonometry#656",
    ),
    "unstable-draws": _fault(
        "Draws change with the library: distribution methods are not promised",
        tests="tests/generate/test_gen_refs.py::test_another_seed_gives_other_cases "
        "tests/cases/test_family_rules.py::test_one_seed_gives_the_same_bits_and_another_seed_others",
        links="numpy/numpy#16493 onnx/onnx#715",
    ),
}
