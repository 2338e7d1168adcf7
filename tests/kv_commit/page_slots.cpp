// The pages of slots as commit.cuh finds them, without a division.
#include "commit.cuh"

// Slots of a page of `size` among `count` of `slots` whose page is found wrong.
extern "C" int wrong_pages(int size, const int32_t* slots, int count) {
    ddtree_kv_commit_args args = {};
    args.S = size;
    const ddtree::PageSlots pages = ddtree::slots_of(args);
    int wrong = 0;
    for (int i = 0; i < count; ++i) {
        wrong += pages.page_of(slots[i]) != slots[i] / size;
    }
    return wrong;
}
