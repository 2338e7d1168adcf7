// The switch between right and wrong: one build holds every mutant, `selected` names the one that acts.
//
// With no mutant selected the library is conformant. A kernel gets the switch as an argument and asks it
// where a mutant differs:  `mutant(build_mask_causal) ? causal : ancestors`.
#pragma once

#include "common.h"
#include "names.h"

namespace mutants {

enum Mutant : int {
    nothing,  // the right kernels
#define NAME(name) name,
    DDTREE_MUTANTS(NAME)
#undef NAME
};

struct Switch {
    int selected;

    __host__ __device__ __forceinline__ bool operator()(Mutant asked) const { return selected == asked; }
};

// The switch as it is now: what mutant_select() said last, else what the variable DDTREE_MUTANT names.
Switch current();

}  // namespace mutants
