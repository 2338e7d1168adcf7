"""Fault classes that a checker or timer lets through: wrong targets, and weak comparisons."""

from __future__ import annotations

from functools import partial

from harness.mutants.faults.part import fault
from harness.mutants.model import EVERYWHERE, Fault

_OUTCOMES = "tests/targets/test_target_outcomes.py"
_COMPARE = "tests/targets/test_compare.py"

_fault = partial(fault, "Checker and timer")

CHECKING: dict[str, Fault] = {
    "none-from-argmax": _fault(
        "-1 from an argmax is read as the end of the text",
        "no_prediction",
        tests=f"{_COMPARE}::test_every_single_integer_counts",
        links="Luce-Org/lucebox#301",
    ),
    "blind-tolerance": _fault(
        "A tolerance above the signal: zeros, constants and copies of an input pass",
        EVERYWHERE,
        tests=f"{_COMPARE}::test_constant_outputs_are_wrong {_COMPARE}::test_a_zero_reference_has_no_slack "
        "tests/test_discriminate.py::test_every_case_discriminates",
        links="ScalingIntelligence/KernelBench#165 AI-Hypercomputer/accelerator-agents#50",
    ),
    "nothing-done": _fault(
        "A target that does nothing passes on old memory, or by changing its inputs",
        EVERYWHERE,
        tests=f"{_OUTCOMES}::test_python_target {_OUTCOMES}::test_library",
        links="ScalingIntelligence/KernelBench#82 pytorch/helion#1672",
    ),
    "cached-answer": _fault(
        "An answer remembered by object, pointer, shape or a light fingerprint",
        f"{EVERYWHERE} best_first",
        tests="tests/targets/test_second_run.py::test_a_kernel_that_keeps_what_it_saw_first "
        "tests/targets/test_memory.py::test_runs_have_other_addresses",
        links="gpu-mode/reference-kernels#102 gpu-mode/reference-kernels#104 gpu-mode/reference-kernels#148 "
        "flashinfer-ai/flashinfer-bench#228 flashinfer-ai/flashinfer-bench#413",
    ),
    "other-inputs": _fault(
        "Inputs are altered by the target, or captured on one stream and timed on another",
        EVERYWHERE,
        tests=f"{_OUTCOMES}::test_python_target "
        "tests/targets/test_target_device.py::test_a_graph_that_replays_nothing_is_found_out",
        links="flashinfer-ai/flashinfer-bench#427 flashinfer-ai/flashinfer-bench#196",
    ),
    "answers-in-reach": _fault(
        "Expected values or results that the target can read or write",
        tests="tests/targets/test_wire.py::test_the_wire_has_no_pickle "
        "tests/targets/test_worker.py::test_the_worker_gets_no_expected_values_and_no_surplus_descriptors",
        links="gpu-mode/pygpubench#7 gpu-mode/pygpubench#15 gpu-mode/pygpubench#23",
    ),
    "infinities-compared": _fault(
        "Infinities compared by a relative error",
        tests=f"{_COMPARE}::test_minus_infinity_is_answered_by_minus_infinity_alone "
        f"{_COMPARE}::test_a_single_non_finite_lse_is_wrong",
        links="flashinfer-ai/flashinfer-bench#429",
    ),
    "partial-coverage": _fault(
        "A few rows compared, one size run, one dispatch path of several",
        EVERYWHERE,
        tests=f"{_COMPARE}::test_every_single_integer_counts "
        "tests/cases/test_family_rules.py::test_every_flag_is_used_and_defined_once",
        links="carlushuang/gcnasm#21 kryptic-sh/infr#17 sgl-project/sgl-kernel-xpu#451 "
        "Infatoshi/kernelbench.com#7 triton-lang/triton#10760",
    ),
    "nan-passes": _fault(
        "All-NaN outputs pass: what is not finite is filtered out, or lost in a maximum",
        EVERYWHERE,
        tests=f"{_COMPARE}::test_both_all_nan_is_wrong_even_against_a_reference_of_nan "
        f"{_COMPARE}::test_nothing_compared_is_not_right",
        links="flashinfer-ai/flashinfer#4365 ooples/AiDotNet.Tensors#883",
    ),
    "wrong-shape": _fault(
        "Another dtype, shape or kind of output is converted instead of refused",
        EVERYWHERE,
        tests=f"{_COMPARE}::test_another_dtype_or_shape_is_no_comparison",
    ),
    "outside-its-arrays": _fault(
        "Bytes before or behind an array change",
        f"{EVERYWHERE} mla gqa walk",
        tests="tests/targets/test_memory.py::test_guards_surround_every_array",
    ),
    "dead-target": _fault(
        "A target that hangs, dies, exits or raises takes the run with it, or is skipped",
        "walk",
        tests="tests/targets/test_worker.py::test_a_child_answers_dies_and_is_replaced "
        "tests/targets/test_worker.py::test_after_many_deaths_the_rest_is_left",
    ),
    "silent-refusal": _fault(
        "A case that the target refuses is counted as passed",
        "walk",
        tests=f"{_OUTCOMES}::test_a_refusal_of_what_is_declared_fails_the_run",
    ),
}
