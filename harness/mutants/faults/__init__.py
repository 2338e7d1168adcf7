"""Every class of fault that the project knows, by a name of its own: what claims it, or why nothing can."""

from __future__ import annotations

from harness.mutants.faults.accepting import ACCEPTING
from harness.mutants.faults.attention import ATTENTION
from harness.mutants.faults.building import BUILDING
from harness.mutants.faults.checking import CHECKING
from harness.mutants.faults.masks import MASKS
from harness.mutants.faults.stepping import STEPPING
from harness.mutants.faults.storing import STORING
from harness.mutants.model import Fault

FAULTS: dict[str, Fault] = {
    **BUILDING,
    **MASKS,
    **ATTENTION,
    **ACCEPTING,
    **STEPPING,
    **CHECKING,
    **STORING,
}
