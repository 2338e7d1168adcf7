// The most shared memory that tree_build asks for, over all shapes up to a budget.
#include "tree_build.cu"

extern "C" int most_bytes(int rows_shared, int whole_tile, int most_budget) {
    using namespace ddtree;
    int most = 0;
    for (int depths = 1; depths <= kMaxDepth; ++depths) {
        for (int nodes = 1; nodes <= most_budget + 1; ++nodes) {
            for (int batch = 1; batch <= 2 * kSharedBlocks; batch *= 2) {
                ddtree_tree_build_args args = {};
                args.B = batch;
                args.L = depths;
                args.N = nodes;
                args.budget = nodes - 1;
                args.K = kMaxCandidates;
                args.W = ceil_div(nodes, 32);
                const int kept = min(max(args.budget, 1), args.K);
                if (!rows_shared || depths * kept * static_cast<int>(sizeof(float)) <= kSharedRowBytes) {
                    most = max(most, layout_of(args, rows_shared != 0, whole_tile != 0).bytes);
                }
            }
        }
    }
    return most;
}
