// The finished tree of tree_build, by node number.
#pragma once

#include "tree_candidates.cuh"

namespace ddtree {

struct Nodes {
    uint32_t* place;  // packed: parent, rank, depth
    Small* child;     // first child
    Small* sibling;   // next child of the same parent

    __host__ __device__ static int bytes(int nodes) {
        return nodes * static_cast<int>(sizeof(uint32_t) + 2 * sizeof(Small));
    }
    __device__ Nodes(unsigned char* memory, int nodes)
        : place(reinterpret_cast<uint32_t*>(memory)),
          child(reinterpret_cast<Small*>(place + nodes)),
          sibling(child + nodes) {}

    // The root alone; no node has links.
    __device__ void clear(int nodes) const {
        for (int i = threadIdx.x; i < nodes; i += blockDim.x) {
            child[i] = kNone;
            sibling[i] = kNone;
        }
        if (threadIdx.x == 0) {
            place[0] = pack(kNone, 0, 0);
        }
    }
};

// What a thread needs of a candidate to make it a node, but for its number.
struct Item {
    int item;
    uint32_t place = 0;
    int younger = kNone;

    __device__ Item(const Candidates& found, int its_item, int count) : item(its_item) {
        if (item < count) {
            place = found.place[item];
            younger = found.younger_of(item, count);
        }
    }

    // A node, if its number is up to `budget`. All numbers are seen.
    __device__ void make_node(const int32_t* numbers, const Nodes& nodes, int budget) const {
        const int number = numbers[item];
        const int parent = parent_of(place);
        const int parent_number = parent == kNone ? 0 : numbers[parent];
        const int next = younger == kNone ? budget + 1 : numbers[younger];
        if (number <= budget) {
            nodes.place[number] = pack(parent_number, rank_of(place), depth_of(place));
            nodes.sibling[number] = static_cast<Small>(next <= budget ? next : kNone);
            if (rank_of(place) == 0) {
                nodes.child[parent_number] = static_cast<Small>(number);
            }
        }
    }
};

}  // namespace ddtree
