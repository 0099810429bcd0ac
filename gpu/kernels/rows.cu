// The row-wise kernels (gpu/kernels/kernels_rows.h) except norms (gpu/kernels/norm.cu). Most are
// memory-bound; loads are coalesced.
#include "gpu/kernels/kernels_rows.h"

#include "engine/backend.h"
#include "gpu/kernels/activation_device.h"

#include <math.h>

enum {
    THREADS = 256,
    WARP = 32,
    WARPS = THREADS / WARP,
    ROUTE_FEW_ROWS = WARPS, // up to this number of rows one launch routes them
};

static __device__ float warp_sum(float x)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
    return x;
}

// The grid is [rows, ranges of columns]. Returns a thread's first column; very wide rows are walked with a
// stride.
static __device__ int first_col(void)
{
    return (int)(blockIdx.y * THREADS + threadIdx.x);
}

static __device__ int col_step(void)
{
    return (int)(gridDim.y * THREADS);
}

// ---- embedding ----

static __device__ float read_half(const unsigned char *bytes)
{
    return half_float((uint32_t)(bytes[0] | bytes[1] << 8));
}

// Reads the 6-bit scale and minimum of sub-block `index` of Q4_K and Q5_K (engine/file/dequantize.h).
static __device__ void read_k_scale(const unsigned char *packed, int index, float *scale, float *minimum)
{
    if (index < 4) {
        *scale = (float)(packed[index] & 63);
        *minimum = (float)(packed[index + 4] & 63);
    } else {
        *scale = (float)((packed[index + 4] & 15) | (packed[index - 4] >> 6) << 4);
        *minimum = (float)((packed[index + 4] >> 4) | (packed[index] >> 6) << 4);
    }
}

// Reads item `i` of a row in the file's layout (engine/file/dequantize.c).
static __device__ float read_k_item(const unsigned char *block, int i, bool five_bits)
{
    float scale, minimum;
    int sub = i / 32, j = i % 32;
    read_k_scale(block + 4, sub, &scale, &minimum);
    const unsigned char *quants = block + (five_bits ? 48 : 16);
    int q = quants[sub / 2 * 32 + j] >> (sub % 2 * 4) & 15;
    if (five_bits)
        q += (block[16 + j] >> sub & 1) * 16;
    return read_half(block) * scale * (float)q - read_half(block + 2) * minimum;
}

static __device__ float read_q6_k_item(const unsigned char *block, int i)
{
    int half = i / 128, run = i % 128 / 32, j = i % 32;
    int low = block[half * 64 + run % 2 * 32 + j] >> (run / 2 * 4) & 15;
    int high = block[128 + half * 32 + j] >> (run * 2) & 3;
    float scale = read_half(block + 208) * (float)(signed char)block[192 + i / 16];
    return scale * (float)((low | high << 4) - 32);
}

static __device__ float read_item(struct device_table table, int64_t row, int col)
{
    const unsigned char *bytes = table.rows + row * table.row_bytes;
    const unsigned char *b;
    switch (table.type) {
    case TENSOR_F32:
        b = bytes + 4 * (int64_t)col;
        return __uint_as_float(b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24);
    case TENSOR_F16:
        return read_half(bytes + 2 * (int64_t)col);
    case TENSOR_BF16:
        b = bytes + 2 * (int64_t)col;
        return __uint_as_float((uint32_t)(b[0] | b[1] << 8) << 16);
    case TENSOR_Q8_0:
        b = bytes + col / 32 * 34;
        return read_half(b) * (float)(signed char)b[2 + col % 32];
    case TENSOR_Q4_0:
        b = bytes + col / 32 * 18;
        return read_half(b) * (float)((b[2 + col % 16] >> (col % 32 / 16 * 4) & 15) - 8);
    case TENSOR_Q4_K:
        return read_k_item(bytes + col / 256 * 144, col % 256, false);
    case TENSOR_Q5_K:
        return read_k_item(bytes + col / 256 * 176, col % 256, true);
    default: // TENSOR_Q6_K; launch_embed_knows excludes others
        return read_q6_k_item(bytes + col / 256 * 210, col % 256);
    }
}

bool launch_embed_knows(int32_t type)
{
    return type == TENSOR_F32 || type == TENSOR_F16 || type == TENSOR_BF16 || type == TENSOR_Q8_0 ||
           type == TENSOR_Q4_0 || type == TENSOR_Q4_K || type == TENSOR_Q5_K || type == TENSOR_Q6_K;
}

static __global__ void embed_rows(const struct embed_launch call)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x, token = call.tokens[row];
    token = token < call.table.n_rows ? token : 0;
    for (int col = first_col(); col < call.n_cols; col += col_step()) {
        float item = read_item(call.table, token, col) * call.scale;
        if (call.positions_table.rows)
            item += read_item(call.positions_table, call.positions[row], col);
        if (call.types_table.rows)
            item += read_item(call.types_table, call.types ? call.types[row] : 0, col);
        call.out.items[row * call.out.stride + col] = item;
    }
}

// ---- rope ----

// One thread rotates one pair: (a, b) becomes (a cos - b sin, a sin + b cos).
static __global__ void rotate_rows(const struct rope_launch call)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    const struct rope_part part = blockIdx.z == 0 ? call.parts[0] : call.parts[1];
    int pairs = call.n_dims / 2;
    for (int at = first_col(); at < part.n_heads * pairs; at += col_step()) {
        int pair = at % pairs;
        float *head = part.x.items + row * part.x.stride + at / pairs * call.head_dim;
        float *first = head + (call.halves ? pair : 2 * pair), *second = first + (call.halves ? pairs : 1);
        const float *angle = part.cos_sin + row * call.n_dims + 2 * pair;
        float a = *first, b = *second;
        *first = a * angle[0] - b * angle[1];
        *second = a * angle[1] + b * angle[0];
    }
}

// Rotates two pairs. `angles` holds cos, sin, cos, sin.
static __device__ __forceinline__ void rotate_pairs(float &a, float &b, float &c, float &d, float4 angles)
{
    float first = a * angles.x - b * angles.y, third = c * angles.z - d * angles.w;
    b = a * angles.y + b * angles.x;
    d = c * angles.w + d * angles.z;
    a = first;
    c = third;
}

// Like rotate_rows, but with 16 bytes at a time: one thread rotates 4 pairs (halves) or 2 pairs (neighbors).
template <bool halves>
static __global__ void __launch_bounds__(THREADS) rotate_fours(const struct rope_launch call)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    const struct rope_part part = blockIdx.z == 0 ? call.parts[0] : call.parts[1];
    int fours = call.n_dims / (halves ? 8 : 4); // per head
    for (int at = first_col(); at < part.n_heads * fours; at += col_step()) {
        int four = at % fours;
        float *head = part.x.items + row * part.x.stride + at / fours * call.head_dim + four * 4;
        const float4 *angles = (const float4 *)(part.cos_sin + row * call.n_dims + four * (halves ? 8 : 4));
        float4 a = *(const float4 *)head;
        if (halves) {
            float4 b = *(const float4 *)(head + call.n_dims / 2);
            rotate_pairs(a.x, b.x, a.y, b.y, angles[0]);
            rotate_pairs(a.z, b.z, a.w, b.w, angles[1]);
            *(float4 *)(head + call.n_dims / 2) = b;
        } else {
            rotate_pairs(a.x, a.y, a.z, a.w, angles[0]);
        }
        *(float4 *)head = a;
    }
}

// ---- activations ----

static __global__ void activate_rows(struct device_matrix out, struct device_matrix gate,
                                     struct device_matrix up, int n_cols, enum activation_kind kind)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step()) {
        float x = gate.items[row * gate.stride + col];
        out.items[row * out.stride + col] =
            up.items ? activate_gated(x, up.items[row * up.stride + col], kind) : activation_value(x, kind);
    }
}

// ---- sums and copies ----

static __global__ void add_rows(struct device_matrix x, struct device_matrix y, int n_cols, float scale)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step())
        x.items[row * x.stride + col] =
            fmaf(y.items[row * y.stride + col], scale, x.items[row * x.stride + col]);
}

static __global__ void scale_cap(struct device_matrix x, int n_cols, float scale, float cap)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step()) {
        float y = x.items[row * x.stride + col] * scale;
        x.items[row * x.stride + col] = cap != 0.0f ? cap * device_tanh(y / cap) : y;
    }
}

static __global__ void multiply_rows(struct device_matrix x, struct device_matrix y, int n_cols)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step())
        x.items[row * x.stride + col] *= y.items[row * y.stride + col];
}

static __global__ void gather_rows(struct device_matrix out, struct device_matrix in, const int32_t *rows,
                                   int n_cols)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols && rows[row] >= 0; col += col_step())
        out.items[row * out.stride + col] = in.items[rows[row] * in.stride + col];
}

static __global__ void copy_columns(struct device_matrix out, int out_step, struct device_matrix in,
                                    int in_step, int n_heads, int n)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int i = first_col(); i < n_heads * n; i += col_step())
        out.items[row * out.stride + i / n * out_step + i % n] =
            in.items[row * in.stride + i / n * in_step + i % n];
}

static __global__ void gate_rows(struct device_matrix x, struct device_matrix gate, int n_cols, int part_cols)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step())
        x.items[row * x.stride + col] *=
            1.0f / (1.0f + device_exp(-gate.items[row * gate.stride + col / part_cols]));
}

// ---- mixture of experts ----

// The routing state of one row, in shared memory.
struct route_state {
    // `choice` is NaN for an expert that is already selected or not eligible.
    float *probabilities, *choice; // [n_experts]
    float *ranks;                  // [n_groups]
    int *picked;                   // [n_used]
};

// Shared memory for n_rows rows: the picked experts of all rows, then route_floats per row.
static __host__ __device__ int route_floats(const struct route_launch &a)
{
    return 2 * a.n_experts + a.n_groups;
}

static size_t route_bytes(const struct route_launch &a, int n_rows)
{
    return (size_t)n_rows * (size_t)(a.n_used + route_floats(a)) * 4;
}

static __device__ route_state route_state_at(unsigned char *memory, const struct route_launch &a, int n_rows,
                                             int row)
{
    float *items = (float *)memory + n_rows * a.n_used + row * route_floats(a);
    return {items, items + a.n_experts, items + 2 * a.n_experts, (int *)memory + row * a.n_used};
}

static __device__ float warp_max(float x)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, offset));
    return x;
}

static __device__ void make_probabilities(struct route_state *shared, const struct route_launch &a,
                                          const float *logits)
{
    int lane = (int)threadIdx.x % WARP;
    float largest = -INFINITY, sum = 0.0f;
    for (int i = lane; i < a.n_experts; i += WARP)
        largest = fmaxf(largest, logits[i]);
    largest = warp_max(largest);
    for (int i = lane; i < a.n_experts; i += WARP) {
        shared->probabilities[i] = a.kind == ROUTE_SIGMOID   ? 1.0f / (1.0f + device_exp(-logits[i]))
                                   : a.kind == ROUTE_SOFTMAX ? device_exp(logits[i] - largest)
                                                             : logits[i];
        sum += shared->probabilities[i];
    }
    sum = a.kind == ROUTE_SOFTMAX ? warp_sum(sum) : 1.0f;
    for (int i = lane; i < a.n_experts; i += WARP) {
        shared->probabilities[i] /= sum;
        shared->choice[i] =
            a.pick_bias ? shared->probabilities[i] + a.pick_bias[i] : shared->probabilities[i];
    }
    __syncwarp();
}

// Marks the groups that are not among the best n_groups_used as not eligible: one lane per group computes its
// rank, then the first lane marks.
static __device__ void keep_groups(struct route_state *shared, const struct route_launch &a)
{
    int n = a.n_experts / a.n_groups;
    for (int group = (int)threadIdx.x % WARP; group < a.n_groups; group += WARP) {
        float first = -INFINITY, second = -INFINITY;
        for (int i = group * n; i < (group + 1) * n; i++) {
            float value = shared->choice[i];
            second = value > first ? first : value > second ? value : second;
            first = value > first ? value : first;
        }
        shared->ranks[group] = a.kind == ROUTE_SIGMOID && n > 1 ? first + second : first;
    }
    __syncwarp();
    if (threadIdx.x % WARP == 0) {
        uint64_t kept = 0;
        for (int place = 0; place < a.n_groups_used; place++) {
            int best = -1;
            for (int group = 0; group < a.n_groups; group++)
                if (!(kept >> group & 1) && (best < 0 || shared->ranks[group] > shared->ranks[best]))
                    best = group;
            kept |= 1ull << best;
        }
        for (int i = 0; i < a.n_experts; i++)
            if (!(kept >> (i / n) & 1))
                shared->choice[i] = NAN;
    }
    __syncwarp();
}

// Returns the expert with the largest choice value, the lowest index on ties; -1 if none is left.
static __device__ int pick_expert(const struct route_state *shared, int n_experts)
{
    int best = -1;
    float value = 0.0f;
    for (int i = (int)threadIdx.x % WARP; i < n_experts; i += WARP)
        if (!isnan(shared->choice[i]) && (best < 0 || shared->choice[i] > value)) {
            best = i;
            value = shared->choice[i];
        }
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        int other = __shfl_xor_sync(0xFFFFFFFFu, best, offset);
        float other_value = __shfl_xor_sync(0xFFFFFFFFu, value, offset);
        bool better = other_value > value || (other_value == value && other < best);
        if (other >= 0 && (best < 0 || better)) {
            best = other;
            value = other_value;
        }
    }
    return best;
}

// Returns the first expert that is not selected yet. Used if logits are NaN, where pick_expert finds none.
static __device__ int first_unpicked(const struct route_state *shared, int n)
{
    for (int expert = 0;; expert++) {
        int place = 0;
        while (place < n && shared->picked[place] != expert)
            place++;
        if (place == n)
            return expert;
    }
}

// For the sparse mixer (enum route_kind): turns probabilities[best], which holds a logit, into the weight of
// expert `best`.
static __device__ void mix_expert(struct route_state *shared, int n_experts, int best)
{
    float largest = shared->choice[best], sum = 0.0f;
    for (int i = (int)threadIdx.x % WARP; i < n_experts; i += WARP) {
        float below = largest - shared->choice[i];
        if (below <= 0.02f * fmaxf(fabsf(shared->choice[i]), largest))
            sum += device_exp(-below);
    }
    sum = warp_sum(sum);
    __syncwarp();
    if (threadIdx.x % WARP == 0)
        shared->probabilities[best] = 1.0f / sum;
    __syncwarp();
}

// Selects a row's experts and their weights, with one warp.
static __device__ void pick_experts(const struct route_launch &a, struct route_state shared, int64_t row)
{
    make_probabilities(&shared, a, a.logits.items + row * a.logits.stride);
    if (a.n_groups > 1)
        keep_groups(&shared, a);
    float sum = 1e-20f; // avoids division by zero when all sigmoids underflow
    for (int place = 0; place < a.n_used; place++) {
        int best = pick_expert(&shared, a.n_experts);
        if (best < 0)
            best = first_unpicked(&shared, place);
        if (a.kind == ROUTE_SPARSE_MIXER)
            mix_expert(&shared, a.n_experts, best);
        sum += shared.probabilities[best];
        __syncwarp();
        if (threadIdx.x % WARP == 0) {
            shared.picked[place] = best;
            shared.choice[best] = NAN;
        }
        __syncwarp();
    }
    for (int place = (int)threadIdx.x % WARP; place < a.n_used; place += WARP) {
        float weight = shared.probabilities[shared.picked[place]];
        a.experts[row * a.n_used + place] = shared.picked[place];
        a.weights[row * a.n_used + place] = (a.normalized ? weight / sum : weight) * a.scale;
    }
}

// One warp selects the experts of one row.
static __global__ void route_pick(struct route_launch a)
{
    launch_next();
    launch_wait();
    pick_experts(a, route_state_at(dynamic_shared(), a, 1, 0), blockIdx.x);
}

// Selects experts with one warp per row, then sorts with one thread per expert. One block.
static __global__ void route_few(struct route_launch a)
{
    launch_next();
    launch_wait();
    int warp = (int)threadIdx.x / WARP, n_pairs = a.n_rows * a.n_used;
    if (warp < a.n_rows)
        pick_experts(a, route_state_at(dynamic_shared(), a, a.n_rows, warp), warp);
    __syncthreads();
    const int *picked = route_state_at(dynamic_shared(), a, a.n_rows, 0).picked;
    for (int expert = (int)threadIdx.x; expert < a.n_experts; expert += THREADS) {
        int first = 0, n = 0;
        for (int pair = 0; pair < n_pairs; pair++)
            first += picked[pair] < expert;
        for (int pair = 0; pair < n_pairs; pair++)
            if (picked[pair] == expert)
                a.order[first + n++] = pair;
        a.first[expert] = first;
    }
    if (threadIdx.x == 0)
        a.first[a.n_experts] = n_pairs;
}

// Counts the flags set in threads before this one; `total` gets the count of the whole block.
static __device__ int flags_before(int *shared, bool flag, int *total)
{
    unsigned votes = __ballot_sync(0xFFFFFFFFu, flag);
    int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    __syncthreads();
    if (lane == 0)
        shared[warp] = __popc(votes);
    __syncthreads();
    int before = __popc(votes & ((1u << lane) - 1));
    *total = 0;
    for (int i = 0; i < WARPS; i++) {
        before += i < warp ? shared[i] : 0;
        *total += shared[i];
    }
    return before;
}

// One block sorts the pairs of one expert. The expert's first index is the number of pairs of lower experts;
// its pairs follow in order.
static __global__ void route_sort(struct route_launch a)
{
    launch_next();
    launch_wait();
    __shared__ int shared[WARPS];
    int expert = (int)blockIdx.x, n_pairs = a.n_rows * a.n_used, first = 0, total;
    for (int base = 0; base < n_pairs; base += THREADS) {
        int pair = base + (int)threadIdx.x;
        (void)flags_before(shared, pair < n_pairs && a.experts[pair] < expert, &total);
        first += total;
    }
    int at = first;
    for (int base = 0; base < n_pairs; base += THREADS) {
        int pair = base + (int)threadIdx.x;
        bool mine = pair < n_pairs && a.experts[pair] == expert;
        int before = flags_before(shared, mine, &total);
        if (mine)
            a.order[at + before] = pair;
        at += total;
    }
    if (threadIdx.x == 0) {
        a.first[expert] = first;
        if (expert == a.n_experts - 1)
            a.first[a.n_experts] = at;
    }
}

static __global__ void expert_sum(struct device_matrix out, struct device_matrix y, const float *weights,
                                  int n_used, int n_cols)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step()) {
        float sum = 0.0f;
        for (int place = 0; place < n_used; place++) {
            int64_t pair = row * n_used + place;
            sum = fmaf(y.items[pair * y.stride + col], weights ? weights[pair] : 1.0f, sum);
        }
        out.items[row * out.stride + col] = sum;
    }
}

// ---- launches ----

static const int64_t column_blocks_max = 1024;

static struct launch_shape row_shape(int32_t n_rows, int64_t n_cols)
{
    int64_t blocks = (n_cols + THREADS - 1) / THREADS;
    return {(unsigned)n_rows, (unsigned)(blocks < column_blocks_max ? blocks : column_blocks_max), 1, THREADS,
            0};
}

void launch_embed(void *stream, const struct embed_launch *embed)
{
    launch_overlapped<embed_rows>(row_shape(embed->n_rows, embed->n_cols), stream, *embed);
}

void launch_rope(void *stream, const struct rope_launch *rope)
{
    bool aligned = rope->n_dims % 8 == 0 && rope->head_dim % 4 == 0;
    int32_t n_heads = 0;
    for (int i = 0; i < rope->n_parts; i++) {
        const struct rope_part *part = &rope->parts[i];
        n_heads = part->n_heads > n_heads ? part->n_heads : n_heads;
        aligned = aligned && (uintptr_t)part->x.items % 16 == 0 && part->x.stride % 4 == 0 &&
                  (uintptr_t)part->cos_sin % 16 == 0;
    }
    struct launch_shape shape = row_shape(rope->n_rows, (int64_t)n_heads * rope->n_dims /
                                                            (!aligned       ? 2
                                                             : rope->halves ? 8
                                                                            : 4));
    shape.blocks_z = (unsigned)rope->n_parts;
    if (!aligned)
        launch_overlapped<rotate_rows>(shape, stream, *rope);
    else if (rope->halves)
        launch_overlapped<rotate_fours<true>>(shape, stream, *rope);
    else
        launch_overlapped<rotate_fours<false>>(shape, stream, *rope);
}

void launch_activate(void *stream, struct device_matrix out, struct device_matrix gate,
                     struct device_matrix up, int32_t n_rows, int32_t n_cols, enum activation_kind kind)
{
    launch_overlapped<activate_rows>(row_shape(n_rows, n_cols), stream, out, gate, up, n_cols, kind);
}

void launch_add(void *stream, struct device_matrix x, struct device_matrix y, int32_t n_rows, int32_t n_cols,
                float scale)
{
    launch_overlapped<add_rows>(row_shape(n_rows, n_cols), stream, x, y, n_cols, scale);
}

void launch_multiply(void *stream, struct device_matrix x, struct device_matrix y, int32_t n_rows,
                     int32_t n_cols)
{
    launch_overlapped<multiply_rows>(row_shape(n_rows, n_cols), stream, x, y, n_cols);
}

void launch_scale(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols, float scale,
                  float cap)
{
    launch_overlapped<scale_cap>(row_shape(n_rows, n_cols), stream, x, n_cols, scale, cap);
}

void launch_gather(void *stream, struct device_matrix out, struct device_matrix in, const int32_t *rows,
                   int32_t n_rows, int32_t n_cols)
{
    launch_overlapped<gather_rows>(row_shape(n_rows, n_cols), stream, out, in, rows, n_cols);
}

void launch_copy_columns(void *stream, struct device_matrix out, int32_t out_step, struct device_matrix in,
                         int32_t in_step, int32_t n_heads, int32_t n, int32_t n_rows)
{
    launch_overlapped<copy_columns>(row_shape(n_rows, (int64_t)n_heads * n), stream, out, out_step, in,
                                    in_step, n_heads, n);
}

void launch_gate_rows(void *stream, struct device_matrix x, struct device_matrix gate, int32_t n_rows,
                      int32_t n_cols, int32_t n_gates)
{
    launch_overlapped<gate_rows>(row_shape(n_rows, n_cols), stream, x, gate, n_cols, n_cols / n_gates);
}

void launch_route(void *stream, const struct route_launch *route)
{
    if (route->n_rows <= ROUTE_FEW_ROWS) {
        launch_overlapped<route_few>({1, 1, 1, THREADS, route_bytes(*route, route->n_rows)}, stream, *route);
        return;
    }
    launch_overlapped<route_pick>({(unsigned)route->n_rows, 1, 1, WARP, route_bytes(*route, 1)}, stream,
                                  *route);
    launch_overlapped<route_sort>({(unsigned)route->n_experts, 1, 1, THREADS, 0}, stream, *route);
}

void launch_expert_sum(void *stream, struct device_matrix out, struct device_matrix y, const float *weights,
                       int32_t n_rows, int32_t n_used, int32_t n_cols)
{
    launch_overlapped<expert_sum>(row_shape(n_rows, n_cols), stream, out, y, weights, n_used, n_cols);
}
