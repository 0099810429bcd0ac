// Converts rows to the activation operand of GEMMs (gpu/kernels.h): one block per row.
#include "gpu/operand_device.h"

// A thread holds this many pieces in registers (rows of up to 16,384 inputs), so that the row is loaded once,
// with all loads in flight.
enum { THREADS = 256, WARPS = THREADS / 32, PIECES_HELD = 8 };

// Offset of piece `index` of a row: four neighboring threads write the 64 bytes of a step's four lanes.
static __device__ __forceinline__ int32_t piece_first(int32_t index)
{
    int32_t lane = index % 4, step = index / 4;
    return step / 4 * 128 + lane * 32 + step % 4 * 8;
}

// The same of a swizzled operand: a piece has 2 inputs of each of a step's four lanes, SWIZZLED_STEP inputs
// apart.
enum { SWIZZLED_STEP = 32 };

static __device__ __forceinline__ int32_t swizzled_first(int32_t index)
{
    return index / 16 * 128 + index % 16 * 2;
}

// 0 beyond the end.
static __device__ __forceinline__ void load_swizzled_piece(float items[PIECE], const float *row,
                                                           int32_t index, int32_t n)
{
    int32_t first = swizzled_first(index);
#pragma unroll
    for (int i = 0; i < PIECE; i += 2) {
        int32_t at = first + i / 2 * SWIZZLED_STEP;
        if ((uintptr_t)row % 8 == 0 && at + 2 <= n) {
            float2 two = *(const float2 *)(row + at);
            items[i] = two.x;
            items[i + 1] = two.y;
        } else {
            items[i] = at < n ? row[at] : 0.0f;
            items[i + 1] = at + 1 < n ? row[at + 1] : 0.0f;
        }
    }
}

// 0 beyond the end. A head's columns need no alignment.
template <bool swizzled>
static __device__ __forceinline__ void load_piece(float items[PIECE], const float *row, int32_t index,
                                                  int32_t n)
{
    if (swizzled) {
        load_swizzled_piece(items, row, index, n);
        return;
    }
    int32_t first = piece_first(index);
    if ((uintptr_t)row % 16 == 0 && first + PIECE <= n) {
#pragma unroll
        for (int i = 0; i < PIECE; i += 4) {
            float4 four = *(const float4 *)(row + first + i);
            items[i] = four.x;
            items[i + 1] = four.y;
            items[i + 2] = four.z;
            items[i + 3] = four.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        items[i] = first + i < n ? row[first + i] : 0.0f;
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

// Maximum over the block.
static __device__ uint32_t block_max(uint32_t value)
{
    __shared__ uint32_t parts[WARPS];
    value = __reduce_max_sync(0xFFFFFFFFu, value);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        value = parts[i] > value ? parts[i] : value;
    return value;
}

template <bool swizzled>
static __device__ __forceinline__ void put_piece(const struct activation_operand &out,
                                                 const float items[PIECE], int32_t index, operand_scale scale)
{
    uint32_t words[4];
    float factor = power_of_2(-scale.exponent);
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = pack_pair(out.form, scale, factor, items[2 * i], items[2 * i + 1]);
    uint4 *at = swizzled ? operand_swizzled_place(out, (int32_t)blockIdx.x, index)
                         : operand_place(out, (int32_t)blockIdx.x, piece_first(index));
    *at = make_uint4(words[0], words[1], words[2], words[3]);
}

template <bool swizzled>
static __global__ void __launch_bounds__(THREADS) make_operand(struct activation_operand_launch launch)
{
    launch_next();
    launch_wait();
    struct activation_operand out = launch.out;
    int32_t n = out.n_inputs;
    int32_t head = launch.head_rows ? (int32_t)blockIdx.x / launch.head_rows : 0;
    int64_t row_index = launch.head_rows ? (int32_t)blockIdx.x % launch.head_rows
                        : launch.rows    ? launch.rows[blockIdx.x] / launch.rows_divisor
                                         : (int32_t)blockIdx.x;
    const float *row = launch.x + row_index * launch.x_stride + (int64_t)head * launch.x_head_step;
    int32_t n_pieces = operand_width(out) / PIECE;
    uint32_t largest = 0;
    float held[PIECES_HELD][PIECE], items[PIECE];
#pragma unroll
    for (int j = 0; j < PIECES_HELD; j++)
        if ((int32_t)threadIdx.x + j * THREADS < n_pieces)
            load_piece<swizzled>(held[j], row, (int32_t)threadIdx.x + j * THREADS, n);
#pragma unroll
    for (int j = 0; j < PIECES_HELD; j++)
        if ((int32_t)threadIdx.x + j * THREADS < n_pieces)
            largest = piece_max(held[j], largest);
    for (int32_t piece = (int32_t)threadIdx.x + PIECES_HELD * THREADS; piece < n_pieces; piece += THREADS) {
        load_piece<swizzled>(items, row, piece, n);
        largest = piece_max(items, largest);
    }
    largest = block_max(largest);
    operand_scale scale = find_scale(out.form, largest);
    if (threadIdx.x == 0)
        out.scales[blockIdx.x] = scale_value(scale);
#pragma unroll
    for (int j = 0; j < PIECES_HELD; j++)
        if ((int32_t)threadIdx.x + j * THREADS < n_pieces)
            put_piece<swizzled>(out, held[j], (int32_t)threadIdx.x + j * THREADS, scale);
    for (int32_t piece = (int32_t)threadIdx.x + PIECES_HELD * THREADS; piece < n_pieces; piece += THREADS) {
        load_piece<swizzled>(items, row, piece, n);
        put_piece<swizzled>(out, items, piece, scale);
    }
}

void launch_activation_operand(void *stream, const struct activation_operand_launch *operand)
{
    if (operand->out.n_rows == 0)
        return;
    struct launch_shape shape = {(unsigned)operand->out.n_rows, 1, 1, THREADS, 0};
    if (operand->out.swizzled)
        launch_overlapped<make_operand<true>>(shape, stream, *operand);
    else
        launch_overlapped<make_operand<false>>(shape, stream, *operand);
}
