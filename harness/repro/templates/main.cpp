// One case of the draft-tree conformance set as a program of its own: loads the arrays, calls the library
// once (greedy_step: once a step) through its C ABI, compares. Every array is an allocation of its own, of
// exactly its size, so that compute-sanitizer or an address sanitizer sees the first byte past it.
//
//   ./repro [LIBRARY] [ORDER [SEED]]     ORDER: forward, reverse or random, for an emulated library
//
// Exit code: 0 right, 1 wrong, 2 could not run. case.h was generated and holds all that is this case's own.

#include "runtime.h"

#include "case.h"

static Library open_library(const char* path) {
    Library library = {};
    library.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library.handle) fail(dlerror());
    const auto query = library.symbol<int32_t (*)(ddtree_info*)>("ddtree_query");
    if (!query) fail("the library exports no ddtree_query");
    library.info.struct_bytes = sizeof library.info;
    if (query(&library.info) != DDTREE_OK) fail("ddtree_query failed");
    if (library.info.memory_space != kSpace)
        fail(kSpace == DDTREE_MEMORY_HOST ? "the library works on device memory; build with `make gpu`"
                                          : "the library works on host memory; build with `make`");
    library.stream = new_stream();
    library.hints = {sizeof(ddtree_hints), kLiveBatch, kMaxPrefix, kMaxNodes, 0};
    return library;
}

#ifdef GREEDY_STEP
// One step: the library's own function, else the four kernels with the planted utilities between them.
static int32_t call(const Library& library) {
    ddtree_tree_build_args build;
    ddtree_verify_attn_args attn;
    ddtree_tree_accept_args accept;
    ddtree_kv_commit_args commit;
    fill(build), fill(attn), fill(accept), fill(commit);
    ddtree_hook before = nullptr, after = nullptr;
    const void *before_context = nullptr, *after_context = nullptr;
#ifdef PLANTED
    ddtree_planted_embed_args embed;
    ddtree_planted_head_args head;
    fill(embed), fill(head);
    before = library.hook("ddtree_planted_embed"), before_context = &embed;
    after = library.hook("ddtree_planted_head"), after_context = &head;
#endif
    if (library.symbol<void*>("ddtree_greedy_step")) {
        const ddtree_greedy_step_args args = {sizeof args, &build, &attn,          &accept, &commit,
                                              before,      before_context, after, after_context};
        return library.run("ddtree_greedy_step", DDTREE_GREEDY_STEP, &args);
    }
    int32_t status = library.run("ddtree_tree_build", DDTREE_TREE_BUILD, &build);
    if (status == DDTREE_OK && before) status = before(before_context, library.stream);
    if (status == DDTREE_OK) status = library.run("ddtree_verify_attn", DDTREE_VERIFY_ATTN, &attn);
    if (status == DDTREE_OK && after) status = after(after_context, library.stream);
    if (status == DDTREE_OK) status = library.run("ddtree_tree_accept", DDTREE_TREE_ACCEPT, &accept);
    if (status == DDTREE_OK) status = library.run("ddtree_kv_commit", DDTREE_KV_COMMIT, &commit);
    return status;
}
#endif

// ---- staging and comparing ----------------------------------------------------------------------------

static size_t payload(const Array& array) { return array.item * array.count; }

static std::vector<char> step_of(const Array& array, const std::string& file, size_t item, int step) {
    const size_t bytes = item * array.count;
    const std::vector<char> all = load(file, bytes * (array.by_step ? kSteps : 1));
    const size_t start = array.by_step ? bytes * static_cast<size_t>(step) : 0;
    return std::vector<char>(all.begin() + start, all.begin() + start + bytes);
}

static void put(const Array& array, const std::string& name, const char* data, size_t bytes) {
    if (!array.pieces) return upload(buffers[name], data, bytes);
    const size_t piece = bytes / array.pieces;
    for (size_t i = 0; i < array.pieces; ++i)
        upload(buffers[name] + i * array.piece_stride, data + i * piece, piece);
}

static std::vector<char> get(const Array& array, const std::string& name, size_t bytes) {
    std::vector<char> data(bytes);
    if (!array.pieces) download(data.data(), buffers[name], bytes);
    const size_t piece = array.pieces ? bytes / array.pieces : 0;
    for (size_t i = 0; i < array.pieces; ++i)
        download(data.data() + i * piece, buffers[name] + i * array.piece_stride, piece);
    return data;
}

static std::string layer_name(size_t layer) { return "kv[" + std::to_string(layer) + "]"; }

static void allocate_all(const Library& library) {
    for (const Array& array : kArrays) {
        if (!strcmp(array.role, "tail")) continue;
        const size_t layers = strcmp(array.role, "pool") == 0 ? array.shape[0] : 1;
        size_t bytes = payload(array) / layers;
        if (array.pieces) bytes = (array.pieces - 1) * array.piece_stride + bytes / array.pieces;
        const bool has_lse = library.info.capabilities & DDTREE_CAP_ATTN_LSE;
        const bool unwanted = !strcmp(array.name, "lse") && !has_lse;
        if (strcmp(array.role, "pool") != 0) {
            buffers[array.name] = bytes && !unwanted ? allocate(bytes) : nullptr;
            continue;
        }
        std::vector<char*> bases;
        for (size_t y = 0; y < layers; ++y) bases.push_back(buffers[layer_name(y)] = allocate(bytes));
        buffers["layer_base"] = allocate(bases.size() * sizeof(char*));
        upload(buffers["layer_base"], bases.data(), bases.size() * sizeof(char*));
        const std::vector<char> start = load(array.name, payload(array));
        const size_t each = payload(array) / layers;
        for (size_t y = 0; y < layers; ++y) put(array, layer_name(y), start.data() + y * each, each);
    }
}

static void stage(int step) {
    for (const Array& array : kArrays) {
        if (!at(array.name, 0)) continue;
        if (!strcmp(array.role, "in")) {
            put(array, array.name, step_of(array, array.name, array.item, step).data(), payload(array));
        } else if (!strcmp(array.role, "out")) {
            upload(buffers[array.name], std::vector<char>(payload(array), 0x5A).data(), payload(array));
        }
    }
    synchronize();
}

// Where no embedding makes them: tail rows of active requests go to slots prefix_len .. in every layer.
static void write_tail(int step) {
#ifdef HAS_TAIL
    std::map<std::string, std::vector<char>> data;
    for (const Array& array : kArrays)
        for (const char* name : {"tail", "root_token", "prefix_len", "block_table"})
            if (!strcmp(array.name, name)) data[name] = step_of(array, name, array.item, step);
    const auto ints = [&](const char* name) { return reinterpret_cast<const int32_t*>(data[name].data()); };
    for (size_t b = 0; b < kB; ++b) {
        if (ints("root_token")[b] == -1) continue;
        for (size_t i = 0; i < kN; ++i) {
            const size_t slot = static_cast<size_t>(ints("prefix_len")[b]) + i;
            if (slot / kS >= kM) continue;
            const int32_t page = ints("block_table")[b * kM + slot / kS];
            if (page < 0 || static_cast<size_t>(page) >= kG) continue;
            const size_t row = (static_cast<size_t>(page) * kS + slot % kS) * kR * 2;
            for (size_t y = 0; y < kY; ++y) {
                const char* from = data["tail"].data() + ((y * kB + b) * kN + i) * kR * 2;
                upload(buffers[layer_name(y)] + row, from, kR * 2);
            }
        }
    }
    synchronize();
#else
    (void)step;
#endif
}

static double value_of(const char* type, const char* data, size_t i) {
    if (!strcmp(type, "u8")) return reinterpret_cast<const uint8_t*>(data)[i];
    if (!strcmp(type, "i32")) return reinterpret_cast<const int32_t*>(data)[i];
    if (!strcmp(type, "u32")) return reinterpret_cast<const uint32_t*>(data)[i];
    float value;
    uint32_t bits;
    if (!strcmp(type, "bf16")) bits = static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(data)[i]) << 16;
    else memcpy(&bits, data + 4 * i, 4);
    memcpy(&value, &bits, 4);
    return value;
}

static std::string place(const Array& array, size_t i) {
    std::string text;
    for (size_t axis = array.shape.size(); axis-- > 0; i /= array.shape[axis])
        text = "[" + std::to_string(i % array.shape[axis]) + "]" + text;
    return array.name + text;
}

// Compares element by element; with an allowance where the case has one, bit for bit elsewhere.
static size_t compare(const Library& library, const Array& array, const std::vector<char>& got, int step) {
    const bool allowed = kAttention && (!strcmp(array.name, "out") || !strcmp(array.name, "lse"));
    const std::string name = array.name;
    const std::vector<char> want = step_of(array, name + ".expected", allowed ? 4 : array.item, step);
    std::vector<char> slack;
    if (allowed) slack = step_of(array, name + ".allowed", 8, step);
    const double scale =
        !strcmp(array.name, "lse") && library.info.lse_base == DDTREE_LSE_BASE2 ? 0.6931471805599453 : 1.0;
    size_t wrong = 0, first = 0;
    double largest = 0.0, share = 0.0;
    for (size_t i = 0; i < array.count; ++i) {
        bool bad;
        if (allowed) {
            const double w = value_of("f32", want.data(), i), g = value_of(array.type, got.data(), i) * scale;
            const double limit = reinterpret_cast<const double*>(slack.data())[i];
            const bool finite = std::isfinite(w) && std::isfinite(g);
            bad = finite ? std::fabs(g - w) > limit : !(g == w);
            if (finite && std::isfinite(limit)) largest = std::fmax(largest, std::fabs(g - w));
            if (finite && g != w) share = std::fmax(share, std::fabs(g - w) / limit);
        } else {
            bad = memcmp(&want[i * array.item], &got[i * array.item], array.item) != 0;
        }
        if (bad && !wrong++) first = i;
    }
    if (wrong) {
        printf("WRONG %s is %.9g, expected %.9g; %zu of %zu wrong\n", place(array, first).c_str(),
               value_of(array.type, got.data(), first) * (allowed ? scale : 1.0),
               value_of(allowed ? "f32" : array.type, want.data(), first), wrong, array.count);
    } else if (!allowed) {
        printf("right %s: %zu elements\n", array.name, array.count);
    }
    if (allowed)
        printf("%s %s: max abs diff %.3g, %.3f of the allowance\n", wrong ? "     " : "right", array.name,
               largest, share);
    return wrong;
}

static size_t check(const Library& library, int step) {
    size_t wrong = 0;
    for (const Array& array : kArrays) {
        if (!at(array.name, 0)) continue;
        const std::vector<char> now = get(array, array.name, payload(array));
        if (!strcmp(array.role, "out") && kCompared.count(array.name)) {
            wrong += compare(library, array, now, step);
        } else if (!strcmp(array.role, "in") && now != step_of(array, array.name, array.item, step)) {
            printf("WRONG %s: this input was changed\n", array.name);
            ++wrong;
        }
    }
    return wrong;
}

static size_t check_pools(const Library& library) {
    size_t wrong = 0;
    for (const Array& array : kArrays) {
        if (strcmp(array.role, "pool") != 0) continue;
        std::vector<char> all;
        const size_t each = payload(array) / array.shape[0];
        for (size_t y = 0; y < array.shape[0]; ++y) {
            const std::vector<char> layer = get(array, layer_name(y), each);
            all.insert(all.end(), layer.begin(), layer.end());
        }
        wrong += compare(library, array, all, 0);
    }
    return wrong;
}

static void set_order(const Library& library, const char* order, const char* seed) {
    const auto configure = library.symbol<int (*)(const char*, uint64_t, int, int)>("emu_configure");
    if (!configure) fail("the library is not emulated and has no thread order");
    if (configure(order, strtoull(seed, nullptr, 10), 0, 1) != 0) fail("ORDER is forward, reverse or random");
}

int main(int count, char** words) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const char* path = count > 1 ? words[1] : LIBRARY;
    const Library library = open_library(path);
    if (count > 2) set_order(library, words[2], count > 3 ? words[3] : "0");
    printf("%s on %s\n", kCase, library.info.description ? library.info.description : path);
    allocate_all(library);
    size_t wrong = 0;
    for (int step = 0; step < kSteps && !wrong; ++step) {
        if (kSteps > 1) printf("step %d\n", step);
        stage(step);
        write_tail(step);
        const int32_t status = call(library);
        synchronize();
        if (status != DDTREE_OK) {
            const auto report = library.symbol<const char* (*)()>("emu_last_report");
            const char* text = report ? report() : nullptr;
            printf("WRONG the call returned status %d\n%s\n", status, text ? text : "");
            return 1;
        }
        wrong += check(library, step);
    }
    if (!wrong) wrong += check_pools(library);
    printf(wrong ? "FAIL\n" : "PASS\n");
    return wrong ? 1 : 0;
}
