// Norms (gpu/kernels/kernels_rows.h), fused with the residual sum before and the activation operand after.
//
// The order of a sum depends only on the length of the vector:
//   up to 512 items   lane l of a warp adds items l, l + 32, .. in order; then the lanes are added in pairs
//                     16, 8, 4, 2, 1 apart
//   longer            thread t of 256 adds items t, t + 256, .. in order; then the lanes of each of the 8
//                     warps are added as above; then the warps in order
#include "gpu/kernels/kernels_rows.h"
#include "gpu/kernels/operand_device.h"

#include <math.h>

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP, SHORT_MAX = 512 };

static __device__ float warp_sum(float x)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
    return x;
}

// ---- vectors of any length and alignment ----

// Sums over the threads of a vector: one warp, or the whole block through `shared`.
static __device__ float sum_over(float *shared, float x, bool one_warp)
{
    x = warp_sum(x);
    if (one_warp)
        return x;
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = x;
    __syncthreads();
    float sum = shared[0];
    for (int i = 1; i < WARPS; i++)
        sum += shared[i];
    return sum;
}

// Number of items of a vector that a thread holds in registers, so that all loads are in flight at once.
// Suffices for vectors of 512 items with a warp and of 4,096 items with a block.
enum { NORM_HELD = 16 };

// Loads the thread's items into registers; 0 beyond the end.
static __device__ __forceinline__ void hold_items(float held[NORM_HELD], const float *items, int n,
                                                  int thread, int n_threads)
{
#pragma unroll
    for (int j = 0; j < NORM_HELD; j++)
        held[j] = thread + j * n_threads < n ? items[thread + j * n_threads] : 0.0f;
}

// Computes one vector per block, or one per warp if vectors are short (heads). A thread's items are n_threads
// apart.
static __global__ void __launch_bounds__(THREADS) norm_rows(struct norm_launch a, bool one_warp)
{
    launch_next();
    launch_wait();
    __shared__ float shared[WARPS];
    int64_t vector = one_warp ? (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP : (int64_t)blockIdx.x;
    int thread = one_warp ? (int)threadIdx.x % WARP : (int)threadIdx.x, n_threads = one_warp ? WARP : THREADS;
    if (vector >= (int64_t)a.n_rows * a.n_groups)
        return; // the whole warp returns
    int64_t row = vector / a.n_groups, group = vector % a.n_groups;
    float *in = a.in.items + row * a.in.stride + group * a.n;
    float *out = a.out.items + row * a.out.stride + group * a.n;
    const float *addend = a.addend.items ? a.addend.items + row * a.addend.stride + group * a.n : NULL;
    int64_t own = a.own_weights ? group * a.n : 0;
    int n_held = NORM_HELD * n_threads;
    float held[NORM_HELD], weights[NORM_HELD], sum = 0.0f, mean = 0.0f;
    hold_items(held, in, a.n, thread, n_threads);
    hold_items(weights, a.weight + own, a.n, thread, n_threads);
    if (addend) {
        float added[NORM_HELD];
        hold_items(added, addend, a.n, thread, n_threads);
#pragma unroll
        for (int j = 0; j < NORM_HELD; j++) {
            held[j] = fmaf(added[j], a.scale, held[j]);
            if (thread + j * n_threads < a.n)
                in[thread + j * n_threads] = held[j];
        }
    }
#pragma unroll
    for (int j = 0; j < NORM_HELD; j++)
        if (thread + j * n_threads < a.n)
            sum += a.rms ? held[j] * held[j] : held[j];
    for (int i = n_held + thread; i < a.n; i += n_threads) {
        float x = in[i];
        if (addend) {
            x = fmaf(addend[i], a.scale, x);
            in[i] = x;
        }
        sum += a.rms ? x * x : x;
    }
    sum = sum_over(shared, sum, one_warp);
    if (!a.rms) {
        mean = sum / (float)a.n;
        sum = 0.0f;
#pragma unroll
        for (int j = 0; j < NORM_HELD; j++)
            if (thread + j * n_threads < a.n)
                sum += (held[j] - mean) * (held[j] - mean);
        for (int i = n_held + thread; i < a.n; i += n_threads)
            sum += (in[i] - mean) * (in[i] - mean);
        sum = sum_over(shared, sum, one_warp);
    }
    float scale = 1.0f / sqrtf(sum / (float)a.n + a.epsilon);
#pragma unroll
    for (int j = 0; j < NORM_HELD; j++) {
        int i = thread + j * n_threads;
        float y = (held[j] - mean) * scale * weights[j];
        if (i < a.n)
            out[i] = a.bias ? y + a.bias[own + i] : y;
    }
    for (int i = n_held + thread; i < a.n; i += n_threads) {
        float y = (in[i] - mean) * scale * a.weight[own + i];
        out[i] = a.bias ? y + a.bias[own + i] : y;
    }
}

// ---- long vectors ----

// Warp w computes the sums of threads 32 w .. 32 w + 31 of the definition above, with loads of 16 bytes:
//
//   lane           0        1        ..   7          8 .. 15     16 .. 23    24 .. 31
//   threads        0..3     4..7     ..   28..31     the same    the same    the same      (+ 32 w)
//   their items    first quarter                     second      third       fourth
//
// The groups of eight lanes add one after another, each starting from the sums of the previous group.
enum { QUARTERS = 4, FOURS = WARP / QUARTERS, LONG_HELD_MAX = 16 };

struct long_place {
    int32_t quarter, four, per_quarter; // per_quarter: items per quarter of a thread of the definition
    int32_t first;                      // the lane's first item; each next item is 256 further
};

static __device__ __forceinline__ long_place find_place(int32_t n)
{
    int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
    long_place place;
    place.quarter = lane / FOURS;
    place.four = lane % FOURS;
    place.per_quarter = ((n + THREADS - 1) / THREADS + QUARTERS - 1) / QUARTERS;
    place.first = place.quarter * place.per_quarter * THREADS + warp * WARP + place.four * 4;
    return place;
}

template <int n_held> struct long_items {
    float at[n_held][4];

    // Loads four items; 0 beyond the end.
    __device__ __forceinline__ void load(const float *items, const long_place &place, int32_t n)
    {
#pragma unroll
        for (int k = 0; k < n_held; k++) {
            int32_t i = place.first + k * THREADS;
            float4 four = k < place.per_quarter && i < n ? *(const float4 *)(items + i)
                                                         : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            at[k][0] = four.x;
            at[k][1] = four.y;
            at[k][2] = four.z;
            at[k][3] = four.w;
        }
    }

    __device__ __forceinline__ void store(float *items, const long_place &place, int32_t n) const
    {
#pragma unroll
        for (int k = 0; k < n_held; k++) {
            int32_t i = place.first + k * THREADS;
            if (k < place.per_quarter && i < n)
                *(float4 *)(items + i) = make_float4(at[k][0], at[k][1], at[k][2], at[k][3]);
        }
    }
};

enum sum_kind { SUM_ITEMS, SUM_SQUARES, SUM_DEVIATIONS };

// Sums the terms of `kind`. Items beyond the end are 0 and do not change a sum of items or squares. Their
// deviations from the mean are not 0, so they are skipped.
template <int n_held>
static __device__ __forceinline__ float long_sum(float *shared, const long_items<n_held> &x,
                                                 const long_place &place, int32_t n, enum sum_kind kind,
                                                 float mean)
{
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int quarter = 0; quarter < QUARTERS; quarter++) {
        if (quarter > 0)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                float before = __shfl_sync(0xFFFFFFFFu, sums[c], ((int)threadIdx.x - FOURS) & (WARP - 1));
                sums[c] = quarter == place.quarter ? before : sums[c];
            }
        if (quarter == place.quarter)
#pragma unroll
            for (int k = 0; k < n_held; k++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    float item = x.at[k][c] - mean;
                    bool counts =
                        kind != SUM_DEVIATIONS || (k < place.per_quarter && place.first + k * THREADS < n);
                    sums[c] += kind == SUM_ITEMS ? item : counts ? item * item : 0.0f;
                }
    }
    for (int offset = FOURS / 2; offset > 0; offset /= 2)
#pragma unroll
        for (int c = 0; c < 4; c++)
            sums[c] += __shfl_xor_sync(0xFFFFFFFFu, sums[c], offset);
    if (threadIdx.x % WARP == WARP - 1)
        shared[threadIdx.x / WARP] = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    __syncthreads();
    float sum = shared[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++)
        sum += shared[i];
    return sum;
}

// For every k, two neighboring lanes hold the two halves of a piece of the operand. The even lane stores the
// pieces with even k, the odd lane the pieces with odd k.
template <int n_held>
static __device__ __forceinline__ void put_operand(const struct activation_operand &out, int32_t row,
                                                   const long_items<n_held> &y, const long_place &place,
                                                   operand_scale scale)
{
    float factor = power_of_2(-scale.exponent);
    int32_t width = operand_width(out);
    bool odd = place.four % 2 != 0;
#pragma unroll
    for (int k = 0; k < n_held; k += 2) {
        uint32_t own[2][2];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                own[i][j] = pack_pair(out.form, scale, factor, y.at[k + i][2 * j], y.at[k + i][2 * j + 1]);
        uint32_t other[2];
#pragma unroll
        for (int j = 0; j < 2; j++)
            other[j] = __shfl_xor_sync(0xFFFFFFFFu, odd ? own[0][j] : own[1][j], 1);
        int32_t first = place.first - (odd ? 4 : 0) + (k + odd) * THREADS;
        if (k + odd < place.per_quarter && first < width)
            *operand_place(out, row, first) = odd ? make_uint4(other[0], other[1], own[1][0], own[1][1])
                                                  : make_uint4(own[0][0], own[0][1], other[0], other[1]);
    }
}

// A swizzled piece has items of four lanes in four different warps, so the row is exchanged in shared memory.
template <int n_held>
static __device__ __forceinline__ void put_swizzled(const struct activation_operand &out, int32_t row,
                                                    const long_items<n_held> &y, const long_place &place,
                                                    operand_scale scale, uint32_t *staged)
{
    float factor = power_of_2(-scale.exponent);
    int32_t width = operand_width(out);
#pragma unroll
    for (int k = 0; k < n_held; k++) {
        int32_t first = place.first + k * THREADS, lane = first % 128 / 32, fragment = first % 32 / 4;
        if (k < place.per_quarter && first < width)
#pragma unroll
            for (int j = 0; j < 2; j++)
                staged[((first / 128 * 8 + fragment) * 2 + j) * 4 + lane] =
                    pack_pair(out.form, scale, factor, y.at[k][2 * j], y.at[k][2 * j + 1]);
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < width / PIECE; i += THREADS)
        *operand_swizzled_place(out, row, i) = *(const uint4 *)(staged + i * 4);
}

static __device__ __forceinline__ uint32_t block_max(uint32_t *shared, uint32_t value)
{
    value = __reduce_max_sync(0xFFFFFFFFu, value);
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = value;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        value = shared[i] > value ? shared[i] : value;
    return value;
}

// Writes the row's activation operand and scale. Items beyond the end become 0.
template <int n_held, bool swizzled>
static __device__ __forceinline__ void convert_row(const struct activation_operand &out, int32_t row,
                                                   long_items<n_held> &x, const long_place &place, int32_t n,
                                                   uint32_t *maxima, uint32_t *staged)
{
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < n_held; k++) {
        bool within = k < place.per_quarter && place.first + k * THREADS < n;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            x.at[k][c] = within ? x.at[k][c] : 0.0f; // not -0
            uint32_t bits = absolute_bits(x.at[k][c]);
            largest = bits > largest ? bits : largest;
        }
    }
    operand_scale factor = find_scale(out.form, block_max(maxima, largest));
    if (threadIdx.x == 0)
        out.scales[row] = scale_value(factor);
    if (swizzled)
        put_swizzled(out, row, x, place, factor, staged);
    else
        put_operand(out, row, x, place, factor);
}

// Computes one vector per block and holds the items in registers. A vector has a multiple of 4 items (8 with
// an operand), aligned to 16 bytes.
template <int n_held, bool swizzled>
static __global__ void __launch_bounds__(THREADS) norm_long(const struct norm_launch a)
{
    __shared__ float means[WARPS], squares[WARPS];
    __shared__ uint32_t maxima[WARPS];
    __shared__ uint4 staged[n_held * QUARTERS * THREADS / 8 * (swizzled ? 1 : 0) + 1];
    launch_next();
    const long_place place = find_place(a.n);
    int64_t row = blockIdx.x, group = 0;
    if (a.n_groups > 1) {
        row = blockIdx.x / (unsigned)a.n_groups;
        group = blockIdx.x % (unsigned)a.n_groups;
    }
    int64_t own = a.own_weights ? group * a.n : 0;
    float *in = a.in.items + row * a.in.stride + group * a.n;
    long_items<n_held> x, weights;
    weights.load(a.weight + own, place, a.n);
    launch_wait();
    x.load(in, place, a.n);
    if (a.addend.items) {
        long_items<n_held> added;
        added.load(a.addend.items + row * a.addend.stride + group * a.n, place, a.n);
#pragma unroll
        for (int k = 0; k < n_held; k++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                x.at[k][c] = fmaf(added.at[k][c], a.scale, x.at[k][c]);
        x.store(in, place, a.n);
    }
    float mean = 0.0f, sum;
    if (a.rms) {
        sum = long_sum(squares, x, place, a.n, SUM_SQUARES, 0.0f);
    } else {
        mean = long_sum(means, x, place, a.n, SUM_ITEMS, 0.0f) / (float)a.n;
        sum = long_sum(squares, x, place, a.n, SUM_DEVIATIONS, mean);
    }
    float scale = 1.0f / sqrtf(sum / (float)a.n + a.epsilon);
#pragma unroll
    for (int k = 0; k < n_held; k++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            x.at[k][c] = (x.at[k][c] - mean) * scale * weights.at[k][c];
    if (a.bias) {
        weights.load(a.bias + own, place, a.n);
#pragma unroll
        for (int k = 0; k < n_held; k++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                x.at[k][c] += weights.at[k][c];
    }
    if (!a.operand.items || !a.operand_only)
        x.store(a.out.items + row * a.out.stride + group * a.n, place, a.n);
    if (!a.operand.items)
        return; // the whole block returns
    convert_row<n_held, swizzled>(a.operand, (int32_t)row, x, place, a.n, maxima, (uint32_t *)staged);
}

// ---- launches ----

static bool is_aligned(struct device_matrix matrix)
{
    return (uintptr_t)matrix.items % 16 == 0 && matrix.stride % 4 == 0;
}

static bool is_long(const struct norm_launch *norm)
{
    int32_t unit = norm->operand.items ? PIECE : 4;
    return norm->n > SHORT_MAX && norm->n <= LONG_HELD_MAX * QUARTERS * THREADS && norm->n % unit == 0 &&
           is_aligned(norm->in) && is_aligned(norm->out) && is_aligned(norm->addend) &&
           (uintptr_t)norm->weight % 16 == 0 && (uintptr_t)norm->bias % 16 == 0;
}

template <int n_held>
static void launch_long(void *stream, const struct launch_shape &shape, const struct norm_launch *norm)
{
    if (norm->operand.items && norm->operand.swizzled)
        launch_overlapped<norm_long<n_held, true>>(shape, stream, *norm);
    else
        launch_overlapped<norm_long<n_held, false>>(shape, stream, *norm);
}

void launch_norm(void *stream, const struct norm_launch *norm)
{
    int64_t n_vectors = (int64_t)norm->n_rows * norm->n_groups;
    if (n_vectors == 0)
        return;
    if (is_long(norm)) {
        struct launch_shape shape = {(unsigned)n_vectors, 1, 1, THREADS, 0};
        if (norm->n <= 4 * QUARTERS * THREADS)
            launch_long<4>(stream, shape, norm);
        else if (norm->n <= 8 * QUARTERS * THREADS)
            launch_long<8>(stream, shape, norm);
        else
            launch_long<LONG_HELD_MAX>(stream, shape, norm);
        return;
    }
    bool one_warp = norm->n <= SHORT_MAX;
    int64_t blocks = one_warp ? (n_vectors + WARPS - 1) / WARPS : n_vectors;
    launch_overlapped<norm_rows>({(unsigned)blocks, 1, 1, THREADS, 0}, stream, *norm, one_warp);
    if (norm->operand.items) {
        struct activation_operand_launch operand = {};
        operand.out = norm->operand;
        operand.x = norm->out.items;
        operand.x_stride = norm->out.stride;
        operand.rows_divisor = 1;
        launch_activation_operand(stream, &operand);
    }
}
