// For kernels: converts float32 rows to the activation operand (gpu/kernels/kernels.h), with some or all
// threads of a block. The items of a row may have been stored by several blocks.
#pragma once

#include "gpu/kernels/arrival_device.h"
#include "gpu/kernels/operand_device.h"

// Two ways to load a row: stored_items if an earlier launch stored it, published_items if other blocks of
// this launch did.
struct stored_items {
    static __device__ __forceinline__ float load(const float *items)
    {
        return *items;
    }

    static __device__ __forceinline__ float2 load_2(const float *items)
    {
        return *(const float2 *)items;
    }

    static __device__ __forceinline__ float4 load_4(const float *items)
    {
        return *(const float4 *)items;
    }
};

struct published_items {
    static __device__ __forceinline__ float load(const float *items)
    {
        return load_published(items);
    }

    static __device__ __forceinline__ float2 load_2(const float *items)
    {
        return load_published_2((const float2 *)items);
    }

    static __device__ __forceinline__ float4 load_4(const float *items)
    {
        return load_published_4((const float4 *)items);
    }
};

// First input of piece `index` of a row. Pieces are numbered so that four neighboring threads write the 64
// bytes of a step's four lanes.
static __device__ __forceinline__ int32_t piece_first(int32_t index)
{
    int32_t lane = index % 4, step = index / 4;
    return step / 4 * 128 + lane * 32 + step % 4 * 8;
}

// First input of piece `index` of a swizzled row. A piece has 2 inputs of each of four lanes, SWIZZLED_STEP
// inputs apart.
enum { SWIZZLED_STEP = 32 };

static __device__ __forceinline__ int32_t swizzled_first(int32_t index)
{
    return index / 16 * 128 + index % 16 * 2;
}

// Loads a piece; inputs beyond the end are 0.
template <class Memory>
static __device__ __forceinline__ void load_swizzled_piece(float items[PIECE], const float *row,
                                                           int32_t index, int32_t n)
{
    int32_t first = swizzled_first(index);
#pragma unroll
    for (int i = 0; i < PIECE; i += 2) {
        int32_t at = first + i / 2 * SWIZZLED_STEP;
        if ((uintptr_t)row % 8 == 0 && at + 2 <= n) {
            float2 two = Memory::load_2(row + at);
            items[i] = two.x;
            items[i + 1] = two.y;
        } else {
            items[i] = at < n ? Memory::load(row + at) : 0.0f;
            items[i + 1] = at + 1 < n ? Memory::load(row + at + 1) : 0.0f;
        }
    }
}

// Loads a piece; inputs beyond the end are 0. `row` need not be aligned: it may be the columns of a head.
template <class Memory, bool swizzled>
static __device__ __forceinline__ void load_piece(float items[PIECE], const float *row, int32_t index,
                                                  int32_t n)
{
    if (swizzled) {
        load_swizzled_piece<Memory>(items, row, index, n);
        return;
    }
    int32_t first = piece_first(index);
    if ((uintptr_t)row % 16 == 0 && first + PIECE <= n) {
#pragma unroll
        for (int i = 0; i < PIECE; i += 4) {
            float4 four = Memory::load_4(row + first + i);
            items[i] = four.x;
            items[i + 1] = four.y;
            items[i + 2] = four.z;
            items[i + 3] = four.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        items[i] = first + i < n ? Memory::load(row + first + i) : 0.0f;
}

static __device__ __forceinline__ uint32_t piece_max(const float items[PIECE], uint32_t largest)
{
#pragma unroll
    for (int i = 0; i < PIECE; i++) {
        uint32_t bits = absolute_bits(items[i]);
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

template <bool swizzled>
static __device__ __forceinline__ void put_piece(const struct activation_operand &out, int32_t row,
                                                 const float items[PIECE], int32_t index, operand_scale scale)
{
    uint32_t words[4];
    float factor = power_of_2(-scale.exponent);
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = pack_pair(out.form, scale, factor, items[2 * i], items[2 * i + 1]);
    uint4 *at =
        swizzled ? operand_swizzled_place(out, row, index) : operand_place(out, row, piece_first(index));
    *at = make_uint4(words[0], words[1], words[2], words[3]);
}

static __device__ __forceinline__ void multiply_piece(float items[PIECE], float factor)
{
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        items[i] *= factor;
}

// Converts a row, times `factor`, with n_threads threads. `thread` is the index of the calling thread. Each thread holds its
// first n_held pieces in registers, so that they are loaded once, with all loads in flight at once.
// `largest_of` returns the maximum over the row's threads.
template <class Memory, bool swizzled, int n_held, class Largest>
static __device__ __forceinline__ void convert_row(const struct activation_operand &out, int32_t row,
                                                   const float *x, int32_t thread, int32_t n_threads,
                                                   const Largest &largest_of, float factor = 1.0f)
{
    int32_t n = out.n_inputs, n_pieces = operand_width(out) / PIECE;
    uint32_t largest = 0;
    float held[n_held][PIECE], items[PIECE];
#pragma unroll
    for (int j = 0; j < n_held; j++)
        if (thread + j * n_threads < n_pieces)
            load_piece<Memory, swizzled>(held[j], x, thread + j * n_threads, n);
#pragma unroll
    for (int j = 0; j < n_held; j++)
        if (thread + j * n_threads < n_pieces) {
            multiply_piece(held[j], factor);
            largest = piece_max(held[j], largest);
        }
    for (int32_t piece = thread + n_held * n_threads; piece < n_pieces; piece += n_threads) {
        load_piece<Memory, swizzled>(items, x, piece, n);
        multiply_piece(items, factor);
        largest = piece_max(items, largest);
    }
    operand_scale scale = find_scale(out.form, largest_of(largest));
    if (thread == 0)
        out.scales[row] = scale_value(scale);
#pragma unroll
    for (int j = 0; j < n_held; j++)
        if (thread + j * n_threads < n_pieces)
            put_piece<swizzled>(out, row, held[j], thread + j * n_threads, scale);
    for (int32_t piece = thread + n_held * n_threads; piece < n_pieces; piece += n_threads) {
        load_piece<Memory, swizzled>(items, x, piece, n);
        multiply_piece(items, factor);
        put_piece<swizzled>(out, row, items, piece, scale);
    }
}

// ---- rows of several blocks ----

// Rows [first, first + n) of the operand, whose items are all stored. Row i of the operand is row order[i] of
// x (NULL: i).
struct complete_rows {
    const float *x;
    int64_t x_stride;
    const int32_t *order;
    int32_t first, n;
    const int32_t *complete; // [n] in shared memory; 0: skip the row; NULL: all rows are complete
};

// Computes the maximum over the threads of a row, which are whole warps. All threads of the block must call
// it.
struct row_largest {
    uint32_t *shared; // [warps of the block]
    int32_t n_warps;  // warps per row

    __device__ __forceinline__ uint32_t operator()(uint32_t value) const
    {
        int32_t warp = (int32_t)threadIdx.x / 32, first = warp / n_warps * n_warps;
        value = __reduce_max_sync(0xFFFFFFFFu, value);
        if (n_warps == 1)
            return value;
        __syncthreads(); // all warps have read the maximum of the previous row
        if (threadIdx.x % 32 == 0)
            shared[warp] = value;
        __syncthreads();
        for (int32_t i = first; i < first + n_warps; i++)
            value = shared[i] > value ? shared[i] : value;
        return value;
    }
};

// Converts rows with all warps of the block. Each row gets the same number of warps, a power of 2. `shared`
// is [warps].
template <bool swizzled, int n_held>
static __device__ __forceinline__ void convert_rows(const struct activation_operand &out,
                                                    const struct complete_rows &rows, uint32_t *shared)
{
    enum { NO_THREAD = 1 << 29 }; // an index beyond all pieces
    int32_t n_warps = (int32_t)blockDim.x / 32, each = 1;
    while (each * 2 * rows.n <= n_warps)
        each *= 2;
    int32_t at_once = n_warps / each, place = (int32_t)threadIdx.x / 32 / each;
    const struct row_largest largest = {shared, each};
    for (int32_t first = 0; first < rows.n; first += at_once) {
        int32_t i = first + place;
        bool wanted = place < at_once && i < rows.n && (!rows.complete || rows.complete[i]);
        int32_t row = rows.first + (wanted ? i : 0), x_row = rows.order ? rows.order[row] : row;
        int32_t thread = (int32_t)threadIdx.x - place * each * 32;
        convert_row<published_items, swizzled, n_held>(out, row, rows.x + x_row * rows.x_stride,
                                                       wanted ? thread : (int32_t)NO_THREAD, each * 32,
                                                       largest);
    }
}
