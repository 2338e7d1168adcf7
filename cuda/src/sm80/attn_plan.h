// How the tensor-core attention cuts its work: pure integer arithmetic, the same on host and device.
//
// A tile is a block of query rows of one request; row = node * Hq + head, so heads and nodes fold into one
// dimension. A tile's keys are cut into units: first the prefix, then the tail. Units of all tiles of all
// requests stand on one line, and every worker (thread block) takes an equal share of it. A share may begin
// and end inside a tile; what a worker does of one tile is a piece. The true lengths live on the device, so
// the device draws the line; the host only knows how many workers there are.
//
// No CUDA in here: tests compile it with a host compiler.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define DDTREE_PLAN __host__ __device__ inline
#define DDTREE_PLAN_RARE __host__ __device__ __noinline__ inline  // its code is fetched only if it is called
#else
#define DDTREE_PLAN inline
#define DDTREE_PLAN_RARE inline
#endif

namespace ddtree {
namespace plan {

// What starting another tile costs a worker (its query is loaded, an output is written), in units.
constexpr int kTileCost = 2;

constexpr int kRowStep = 16;     // rows of a tile are a multiple of it
constexpr int kFewestRows = 32;  // and no fewer than these, unless the tile has fewer

DDTREE_PLAN int64_t ceil_div(int64_t value, int64_t step) { return (value + step - 1) / step; }

// 1 / x, to the last bit or nearly so.
DDTREE_PLAN float reciprocal(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / x;
#endif
}

DDTREE_PLAN_RARE int64_t divided(int64_t a, int64_t b) { return a / b; }

// a / b for a >= 0, b > 0. Every block draws the line before it does anything else, and a division of 64-bit
// integers takes a tenth of a microsecond. Below 2^21 the product is off by less than 1, so its integer by at most 1.
DDTREE_PLAN int64_t quotient(int64_t a, int64_t b) {
    constexpr int64_t kSmall = 1 << 21;
    if ((a | b) < kSmall) {
        const int whole = static_cast<int>(a);
        const int part = static_cast<int>(b);
        const int times = static_cast<int>(static_cast<float>(whole) * reciprocal(static_cast<float>(part)));
        const int rest = whole - times * part;
        return times + (rest >= part) - (rest < 0);
    }
    return divided(a, b);
}

DDTREE_PLAN int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
DDTREE_PLAN int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// The work of one request.
struct Request {
    int rows;  // of a tile
    int64_t tiles;
    int64_t prefix_units;
    int64_t tail_units;  // an estimate: how many visible tail keys a tile has is known only to its worker

    DDTREE_PLAN int64_t units() const { return prefix_units + tail_units; }
};

DDTREE_PLAN Request request(int64_t prefix, int64_t live, int64_t heads, int rows, int keys) {
    if (live <= 0) {
        return {rows, 0, 0, 0};
    }
    // A tile of many nodes sees more of the tail.
    const int64_t most_tail = live <= keys ? 1 : 1 + quotient(rows + heads - 1, heads) / 8;
    return {rows, ceil_div(live * heads, rows), ceil_div(prefix, keys), smaller(ceil_div(live, keys), most_tail)};
}

// The line. Tile t of a request that starts at position s begins at s + t * pitch; `lead` positions without
// work stand before its units. They make a worker that starts a second tile do less otherwise. `gap` more stand
// before its tail.
struct Line {
    int64_t share;  // positions of each worker
    int32_t lead;
    int32_t gap;
    int64_t fixed_pitch;  // 0: lead + units of the request

    DDTREE_PLAN int64_t pitch(const Request& request) const {
        return fixed_pitch > 0 ? fixed_pitch : lead + request.units();
    }

    // Units of a tile before the position that is `offset` behind its lead.
    DDTREE_PLAN int64_t units_before(const Request& request, int64_t offset) const {
        const int64_t prefix = smaller(offset, request.prefix_units);
        return smaller(larger(prefix, offset - gap), request.units());
    }
};

// Several requests; `total` is the sum of length() over them.
DDTREE_PLAN int64_t length(const Request& request) { return request.tiles * (kTileCost + request.units()); }

DDTREE_PLAN Line line_of_many(int64_t total, int workers) {
    return {larger(quotient(total + workers - 1, workers), 1), kTileCost, 0, 0};
}

// A request that has all workers for itself, and its line.
struct Lone {
    Request request;
    Line line;
};

// Shares are aligned with tiles where that costs next to nothing: workers of different tiles then walk over the same
// keys at the same time and find them in L2, and tiles that fit whole need no merge. A tile has the fewest rows that
// leave nobody more units to do: what a worker loads and writes besides is in proportion to them. A tail takes
// longer to start with than anything else, so it gets a worker of its own where one would be idle. Every block waits
// for this: few of the quotients depend on each other.
DDTREE_PLAN Lone lone(int64_t prefix, int64_t live, int64_t heads, int rows, int keys, int workers) {
    Request work = request(prefix, live, heads, rows, keys);
    if (work.tiles == 0 || work.tiles > workers) {
        const Line even = line_of_many(length(work), workers);
        const int64_t whole = quotient(work.tiles + workers - 1, workers) * even.pitch(work);
        return {work, whole * 16 > even.share * 17 ? even : Line{whole, kTileCost, 0, 0}};
    }
    int64_t splits = quotient(workers, work.tiles);
    const int64_t share = quotient(work.units() + splits - 1, splits);
    for (int fewer = rows - kRowStep; fewer >= kFewestRows; fewer -= kRowStep) {
        const int64_t tiles = (static_cast<int>(live * heads) + fewer - 1) / fewer;
        const int64_t most = larger(quotient(workers, tiles), 1);
        if (tiles <= workers && quotient(work.units() + most - 1, most) <= share) {
            work.rows = fewer;
            work.tiles = tiles;
            splits = most;
        }
    }
    const Line even = line_of_many(length(work), workers);
    if (share * 32 > even.share * 33) {
        return {work, even};
    }
    const int64_t idle = splits * share - work.units();
    const int32_t gap = static_cast<int32_t>(smaller(idle, share - 1));  // nobody's share is all gap
    return {work, {share, 0, gap, splits * share}};
}

// What one worker does of one tile: units [first, last) of it.
struct Piece {
    int64_t tile;
    int64_t first;
    int64_t last;  // no unit: last <= first
    bool whole;    // all units of the tile: the output is final
    bool opens;    // has the first unit of the tile
    int64_t next;  // position of the next tile
};

// The piece at `position`, of a request that starts at `start`; start <= position < start + tiles * pitch.
DDTREE_PLAN Piece piece_at(const Line& line, const Request& request, int64_t start, int64_t position,
                           int64_t end) {
    const int64_t pitch = line.pitch(request);
    const int64_t tile = quotient(position - start, pitch);
    const int64_t origin = start + tile * pitch + line.lead;
    const int64_t first = line.units_before(request, larger(position - origin, 0));
    const int64_t last = line.units_before(request, end - origin);
    return {tile, first, last, first == 0 && last == request.units(), first == 0, start + (tile + 1) * pitch};
}

// How many workers share a tile that `worker` opens; each has the units after those of the one before.
DDTREE_PLAN int64_t sharers(const Line& line, const Request& request, int64_t start, int64_t tile, int64_t worker) {
    const int64_t end = start + tile * line.pitch(request) + line.lead + request.units() + line.gap;
    return quotient(end - 1, line.share) - worker + 1;
}

// A worker has at most two pieces that are not whole: the rest of a tile that an earlier worker opened, and
// a tile that it opens and leaves unfinished. Each has a slot for its partial result.
DDTREE_PLAN int64_t slot(int64_t worker, bool opens) { return 2 * worker + (opens ? 1 : 0); }

// Tail units are an estimate of `estimated`; of the `actual` ones a piece does those from
// tail_unit(first) up to tail_unit(last).
DDTREE_PLAN int64_t tail_unit(int64_t unit, int64_t estimated, int64_t actual) {
    return unit == estimated ? actual : quotient(unit * actual, estimated);
}

// Work that leaves a third of the processors idle when it is cut into tiles of 64 rows and units of 64 keys does
// better in small ones.
DDTREE_PLAN bool prefers_small_tiles(int64_t batch, int64_t nodes, int64_t heads, int64_t slots, int processors) {
    return batch * ceil_div(nodes * heads, 64) * ceil_div(slots, 64) * 3 <= static_cast<int64_t>(processors) * 2;
}

// Workers that can possibly find work, for the sizes that the host knows.
DDTREE_PLAN int useful_workers(int64_t batch, int64_t nodes, int64_t heads, int64_t slots, int rows, int keys,
                               int most) {
    const int fewest = rows < kFewestRows ? rows : kFewestRows;
    const Request largest = request(slots, nodes, heads, fewest, keys);
    return static_cast<int>(smaller(batch * largest.tiles * (largest.units() + kTileCost), most));
}

}  // namespace plan
}  // namespace ddtree
