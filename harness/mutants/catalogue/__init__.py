"""Every mutant: wrong kernels of ``cuda/mutants``, wrong targets in Python, and what only a GPU shows."""

from __future__ import annotations

from harness.mutants.catalogue.accept import ACCEPT
from harness.mutants.catalogue.attn import ATTN
from harness.mutants.catalogue.build import BUILD
from harness.mutants.catalogue.commit import COMMIT
from harness.mutants.catalogue.device import DEVICE
from harness.mutants.catalogue.step import STEP
from harness.mutants.catalogue.targets import ABI, TARGETS
from harness.mutants.model import Mutant

MUTANTS: tuple[Mutant, ...] = (*BUILD, *ATTN, *ACCEPT, *COMMIT, *STEP, *ABI, *TARGETS, *DEVICE)
