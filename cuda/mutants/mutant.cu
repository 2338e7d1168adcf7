// Which mutant acts, and what this library says about itself.
#include "mutant.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mutants {
namespace {

constexpr const char* kNames[] = {
    "nothing",
#define NAME(name) #name,
    DDTREE_MUTANTS(NAME)
#undef NAME
};
constexpr int kCount = sizeof(kNames) / sizeof(kNames[0]);

constexpr int kUnknown = -1;

int number_of(const char* name) {
    for (int i = 0; i < kCount; ++i) {
        if (std::strcmp(kNames[i], name) == 0) {
            return i;
        }
    }
    return kUnknown;
}

// DDTREE_MUTANT is a name, or @ and the path of a file that holds one and may change between calls.
int from_environment() {
    const char* name = std::getenv("DDTREE_MUTANT");
    if (name == nullptr || *name == '\0') {
        return nothing;
    }
    if (*name != '@') {
        return number_of(name);
    }
    char line[128] = {};
    std::FILE* file = std::fopen(name + 1, "r");
    if (file == nullptr) {
        return kUnknown;
    }
    const size_t read = std::fread(line, 1, sizeof(line) - 1, file);
    std::fclose(file);
    line[read] = '\0';
    line[std::strcspn(line, "\n")] = '\0';
    return number_of(line);
}

int selected = kUnknown;  // by mutant_select(); kUnknown: what the environment says

}  // namespace

Switch current() { return {selected != kUnknown ? selected : from_environment()}; }

uint64_t attention_workspace(const ddtree_verify_attn_args& args);

}  // namespace mutants

extern "C" {

// Makes one mutant act, by its name; 0, or 1 where there is none of this name.
DDTREE_API int32_t mutant_select(const char* name) {
    mutants::selected = mutants::number_of(name);
    return mutants::selected == mutants::kUnknown;
}

// The name of the mutant with this number, from 1; null past the last. 0 is "nothing".
DDTREE_API const char* mutant_name(int32_t number) {
    return number >= 0 && number < mutants::kCount ? mutants::kNames[number] : nullptr;
}

int32_t ddtree_query(ddtree_info* info) {
    using namespace mutants;
    const int mutant = current().selected;
    if (!readable(info) || mutant == kUnknown) {
        return DDTREE_INVALID_ARGUMENT;  // DDTREE_MUTANT names no mutant
    }
    info->abi_version = DDTREE_ABI_VERSION;
    info->contract_major = DDTREE_CONTRACT_MAJOR;
    info->contract_minor = DDTREE_CONTRACT_MINOR;
#ifdef __CUDACC__
    info->memory_space = DDTREE_MEMORY_DEVICE;
#else
    info->memory_space = DDTREE_MEMORY_HOST;
#endif
    info->lse_base = DDTREE_LSE_NATURAL;
    info->capabilities = DDTREE_CAP_TREE_BUILD | DDTREE_CAP_ATTN_MLA | DDTREE_CAP_ATTN_GQA | DDTREE_CAP_ATTN_LSE |
                         DDTREE_CAP_TREE_ACCEPT | DDTREE_CAP_STOP_AND_LIMIT | DDTREE_CAP_KV_COMMIT |
                         DDTREE_CAP_GREEDY_STEP;
    info->max_B = 65535;
    info->max_L = kMaxDepth;
    info->max_K = 1024;
    info->max_N = kMaxNodes;
    info->max_S = 256;
    info->max_Hq = info->max_T = info->max_Y = INT_MAX;
    info->description = mutant == nothing ? "plain kernels, nothing wrong" : kNames[mutant];
    return DDTREE_OK;
}

int32_t ddtree_workspace_bytes(int32_t kernel, const void* args, uint64_t* bytes) {
    using namespace mutants;
    *bytes = 0;
    if (kernel == DDTREE_VERIFY_ATTN) {
        *bytes = attention_workspace(*static_cast<const ddtree_verify_attn_args*>(args));
    } else if (kernel == DDTREE_GREEDY_STEP) {
        *bytes = attention_workspace(*static_cast<const ddtree_greedy_step_args*>(args)->attn);
    }
    return DDTREE_OK;
}

}  // extern "C"
