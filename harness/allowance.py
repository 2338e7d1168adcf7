"""How far a right attention kernel may be from the float64 reference, element by element.

Derived, not fitted: the allowance of ``out`` covers rounding of the output and of unnormalised probabilities
to bf16 (half an ulp is 2^-8 relative) and the error of the scores; that of ``lse`` asks that the denominator
sums unrounded probabilities. d is the score error that the reference returns, 2^-20 (1 + scale * max over
visible keys of sum |q k|); m is sum p |v|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def allowed_out(ref: Floats, m: Floats, d: Floats) -> Floats:
    """Allowance of out [.., Dv]: 2^-8 (|ref| + m) + 2 d m, with ``d`` [..]."""
    return 2.0**-8 * (np.abs(ref) + m) + 2.0 * d[..., None] * m


def allowed_lse(lse: Floats, d: Floats, visible: npt.NDArray[Any]) -> Floats:
    """Allowance of lse [.., Hq]: d + n 2^-28 + 2^-23 |lse| with ``visible`` [..] = n keys.

    0 where lse is -inf: nothing is seen there, which only -inf answers.
    """
    finite = np.isfinite(lse)
    size = np.abs(np.where(finite, lse, 0.0))
    return np.where(finite, d + visible[..., None] * 2.0**-28 + 2.0**-23 * size, 0.0)
