"""Targets that are wrong whatever the kernel is: switches of ``cuda/mutants/abi.cu``, and Python classes."""

from __future__ import annotations

from harness.mutants.model import EVERYWHERE, Mutant

_FAKES = "harness.mutants.fakes"


def _abi(name: str, fault: str, flags: str, what: str) -> Mutant:
    return Mutant(f"abi_{name}", "tree_accept", fault, tuple(flags.split()), what)


def _fake(name: str, fault: str, what: str, kernel: str = EVERYWHERE, flags: str = EVERYWHERE) -> Mutant:
    made = "".join(word.capitalize() for word in name.split("_"))
    return Mutant(f"target_{name}", kernel, fault, tuple(flags.split()), what, target=f"{_FAKES}:{made}")


ABI = (
    _abi("does_nothing", "nothing-done", EVERYWHERE, "returns OK and writes nothing"),
    _abi("writes_past_the_end", "outside-its-arrays", EVERYWHERE, "one word behind an output"),
    _abi("writes_before_the_start", "outside-its-arrays", EVERYWHERE, "one word before an output"),
    _abi("edits_an_input", "other-inputs", EVERYWHERE, "the right answer, and another prediction"),
    _abi("returns_an_error", "dead-target", "walk", "returns an error for good arguments"),
    _abi("refuses_what_it_declares", "silent-refusal", "walk", "returns UNSUPPORTED for what it declares"),
    _abi("crashes", "dead-target", "walk", "aborts"),
    _abi("exits", "dead-target", "walk", "ends its process with code 0"),
    _abi("hangs", "dead-target", "walk", "waits for a word that nobody writes"),
)

TARGETS = (
    _fake("no_op", "nothing-done", "returns no output"),
    _fake("zeros", "blind-tolerance", "every output is 0"),
    _fake("ones", "blind-tolerance", "every output is 1"),
    _fake("minus_ones", "blind-tolerance", "every output is -1"),
    _fake("largest", "blind-tolerance", "every output is the largest number"),
    _fake("input_copy", "blind-tolerance", "outputs are inputs of the same kind"),
    _fake("all_nan", "nan-passes", "every output is NaN, or all bits"),
    _fake("one_wrong", "partial-coverage", "right, but for the last element of one output"),
    _fake("previous_answer", "cached-answer", "the right answer to the call before"),
    _fake(
        "answer_by_shape", "cached-answer", "the first answer to inputs of these shapes", flags="best_first"
    ),
    _fake("edits_inputs", "other-inputs", "right, and an input is not what it was"),
    _fake("wider_dtype", "wrong-shape", "right, in 64 bits"),
    _fake("flat", "wrong-shape", "right, with one axis"),
    _fake("list_of_outputs", "wrong-shape", "right, without names"),
    _fake("raises", "dead-target", "raises", "tree_accept", "walk"),
    _fake("aborts", "dead-target", "aborts", "tree_accept", "walk"),
    _fake("sleeps", "dead-target", "never returns", "tree_accept", "walk"),
)
