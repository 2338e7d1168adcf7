#!/usr/bin/env python3
"""Launch verify_attn a few times on one shape, for a profiler. Needs a GPU, torch and a built library.

    ncu --set full python3 cuda/tools/profile_attention.py build/libddtree_cuda.so 64x65x8192

The first launches set things up: look at a later one (``--launch-skip 3 --launch-count 1``).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from attention_inputs import Library, Problem, Shape
from bench_attention import CONFIGS

LAUNCHES = 5


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", type=Path, help="libddtree_cuda.so")
    parser.add_argument("shape", help="HEADSxNODESxPREFIX, one request")
    parser.add_argument("--config", choices=CONFIGS, default="auto", help="[default: %(default)s]")
    options = parser.parse_args()
    heads, nodes, prefix = map(int, options.shape.split("x"))
    problem = Problem(Shape(1, heads, nodes, prefix))
    call = Library(options.library).bind(problem.args(), CONFIGS[options.config], 0)
    for _ in range(LAUNCHES):
        call()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
