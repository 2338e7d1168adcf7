// Host mirror of cuda/src/sm80/attn_plan.h and attn_layout.h: the same functions behind a C ABI.
#include "attn_layout.h"
#include "attn_plan.h"

using namespace ddtree;

namespace {

// As attn_line.cuh draws it: one request, or many of which `index` is one.
plan::Lone drawn(int count, int64_t prefix, int64_t live, int64_t heads, int rows, int keys, int workers,
                 int64_t total) {
    return count == 1 ? plan::lone(prefix, live, heads, rows, keys, workers)
                      : plan::Lone{plan::request(prefix, live, heads, rows, keys), plan::line_of_many(total, workers)};
}

int64_t length_of_all(int count, const int64_t* prefix, const int64_t* live, int64_t heads, int rows, int keys) {
    int64_t total = 0;
    for (int i = 0; i < count; ++i) {
        total += plan::length(plan::request(prefix[i], live[i], heads, rows, keys));
    }
    return total;
}

}  // namespace

extern "C" {

// out: rows of a tile, tiles, prefix units, tail units of one of `count` requests
void units(int count, int64_t prefix, int64_t live, int64_t heads, int rows, int keys, int workers, int64_t* out) {
    const plan::Request request = drawn(count, prefix, live, heads, rows, keys, workers, 0).request;
    out[0] = request.rows;
    out[1] = request.tiles;
    out[2] = request.prefix_units;
    out[3] = request.tail_units;
}

// Walks the share of `worker` as the kernel does; `many` requests, or one. Each piece becomes
// (request, tile, first, last, whole, slot) in out; returns the number of pieces.
int walk(int count, const int64_t* prefix, const int64_t* live, int64_t heads, int rows, int keys, int workers,
         int64_t worker, int64_t* out) {
    const int64_t total = length_of_all(count, prefix, live, heads, rows, keys);
    const plan::Line line = drawn(count, prefix[0], live[0], heads, rows, keys, workers, total).line;
    int64_t position = worker * line.share;
    const int64_t end = position + line.share;
    int64_t start = 0;
    int pieces = 0;
    for (int i = 0; i < count && position < end;) {
        const plan::Request request = drawn(count, prefix[i], live[i], heads, rows, keys, workers, total).request;
        const int64_t next = start + request.tiles * line.pitch(request);
        if (position >= next) {
            start = next;
            ++i;
            continue;
        }
        const plan::Piece piece = plan::piece_at(line, request, start, position, end);
        position = piece.next;
        if (piece.first < piece.last) {
            const int64_t values[] = {i, piece.tile, piece.first, piece.last, piece.whole,
                                      plan::slot(worker, piece.opens)};
            for (int k = 0; k < 6; ++k) {
                *out++ = values[k];
            }
            ++pieces;
        }
    }
    return pieces;
}

// What `worker`, which opens a tile of request `index`, tells the merge: how many share it.
int64_t sharers(int count, const int64_t* prefix, const int64_t* live, int64_t heads, int rows, int keys, int workers,
                int index, int64_t tile, int64_t worker) {
    const plan::Lone own =
        drawn(count, prefix[index], live[index], heads, rows, keys, workers,
              length_of_all(count, prefix, live, heads, rows, keys));
    const int64_t start = length_of_all(index, prefix, live, heads, rows, keys);
    return plan::sharers(own.line, own.request, start, tile, worker);
}

int64_t quotient(int64_t a, int64_t b) { return plan::quotient(a, b); }

int64_t tail_unit(int64_t unit, int64_t estimated, int64_t actual) {
    return plan::tail_unit(unit, estimated, actual);
}

bool prefers_small_tiles(int64_t batch, int64_t nodes, int64_t heads, int64_t slots, int processors) {
    return plan::prefers_small_tiles(batch, nodes, heads, slots, processors);
}

int useful_workers(int64_t batch, int64_t nodes, int64_t heads, int64_t slots, int rows, int keys, int most) {
    return plan::useful_workers(batch, nodes, heads, slots, rows, keys, most);
}

int chunk_offset(int row, int chunk) { return layout::chunk_offset(row, chunk); }
int mma_fragment(int block, int group) { return layout::mma_fragment(block, group); }
int wgmma_fragment(int block, int group) { return layout::wgmma_fragment(block, group); }

int64_t page_of(int64_t slot, int S) {
    const layout::PageDivisor divisor = layout::page_divisor(S);
    const uint64_t upper = static_cast<uint64_t>(slot) * divisor.magic >> 32;
    return static_cast<uint32_t>(upper + slot) >> divisor.shift;
}
}
