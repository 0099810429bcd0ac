// Converts rows to the activation operand of GEMMs (gpu/kernels.h): one block per row.
#include "gpu/kernel.h"
#include "gpu/kernels.h"

// A piece is 8 inputs, one load of a GEMM lane. A thread holds this many pieces in registers (rows of up to
// 16,384 inputs), so that the row is loaded once, with all loads in flight.
enum { THREADS = 256, WARPS = THREADS / 32, PIECE = 8, PIECES_HELD = 8 };

// Offset of piece `index` of a row: four neighboring threads write the 64 bytes of a step's four lanes.
static __device__ __forceinline__ int32_t piece_first(int32_t index)
{
    int32_t lane = index % 4, step = index / 4;
    return step / 4 * 128 + lane * 32 + step % 4 * 8;
}

// 0 beyond the end. A head's columns need no alignment.
static __device__ __forceinline__ void load_piece(float items[PIECE], const float *row, int32_t index,
                                                  int32_t n)
{
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
        uint32_t bits = __float_as_uint(items[i]) & 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

static __device__ __forceinline__ uint4 pack_piece(const float items[PIECE], float factor,
                                                   enum activation_operand_form form)
{
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float low = items[2 * i] * factor, high = items[2 * i + 1] * factor;
        words[i] = form == OPERAND_HALF ? half2_make(low, high) : bfloat2_make(low, high);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Maximum over the block. Absolute values compare like their bits; NaN is the largest.
static __device__ uint32_t block_max(uint32_t value)
{
    __shared__ uint32_t parts[WARPS];
    for (int mask = 16; mask > 0; mask /= 2) {
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, value, mask);
        value = other > value ? other : value;
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        value = parts[i] > value ? parts[i] : value;
    return value;
}

// Exponent of the scale, from the bits of the row's largest absolute value (finite).
static __device__ int scale_exponent(uint32_t largest)
{
    int exponent = (int)(largest >> 23) - 127 - 14;
    return largest == 0 ? 0 : exponent < -100 ? -100 : exponent; // 2^-exponent must be a normal number
}

static __device__ float power_of_2(int exponent) // a normal number
{
    return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

static __device__ __forceinline__ void put_piece(const struct activation_operand &out,
                                                 const float items[PIECE], int32_t index, float factor,
                                                 bool finite)
{
    uint4 packed = pack_piece(items, factor, out.form);
    uint4 *at = (uint4 *)out.items + ((int64_t)(index / 4) * out.n_rows + blockIdx.x) * 4 + index % 4;
    *at = finite ? packed : make_uint4(0, 0, 0, 0);
}

static __global__ void __launch_bounds__(THREADS) make_operand(struct activation_operand_launch launch)
{
    struct activation_operand out = launch.out;
    int32_t n = out.n_inputs;
    int32_t head = launch.head_rows ? (int32_t)blockIdx.x / launch.head_rows : 0;
    int64_t row_index = launch.head_rows ? (int32_t)blockIdx.x % launch.head_rows
                        : launch.rows    ? launch.rows[blockIdx.x] / launch.rows_divisor
                                         : (int32_t)blockIdx.x;
    const float *row = launch.x + row_index * launch.x_stride + (int64_t)head * launch.x_head_step;
    int32_t n_pieces = (n + OPERAND_ALIGNMENT - 1) / OPERAND_ALIGNMENT * (OPERAND_ALIGNMENT / PIECE);
    uint32_t largest = 0;
    float held[PIECES_HELD][PIECE], items[PIECE];
#pragma unroll
    for (int j = 0; j < PIECES_HELD; j++)
        if ((int32_t)threadIdx.x + j * THREADS < n_pieces)
            load_piece(held[j], row, (int32_t)threadIdx.x + j * THREADS, n);
#pragma unroll
    for (int j = 0; j < PIECES_HELD; j++)
        if ((int32_t)threadIdx.x + j * THREADS < n_pieces)
            largest = piece_max(held[j], largest);
    for (int32_t piece = (int32_t)threadIdx.x + PIECES_HELD * THREADS; piece < n_pieces; piece += THREADS) {
        load_piece(items, row, piece, n);
        largest = piece_max(items, largest);
    }
    largest = block_max(largest);
    bool finite = largest < 0x7F800000u;
    int exponent = out.form == OPERAND_HALF && finite ? scale_exponent(largest) : 0;
    if (threadIdx.x == 0)
        out.scales[blockIdx.x] = finite ? power_of_2(exponent) : __uint_as_float(0x7FC00000u);
    float factor = power_of_2(-exponent);
#pragma unroll
    for (int j = 0; j < PIECES_HELD; j++)
        if ((int32_t)threadIdx.x + j * THREADS < n_pieces)
            put_piece(out, held[j], (int32_t)threadIdx.x + j * THREADS, factor, finite);
    for (int32_t piece = (int32_t)threadIdx.x + PIECES_HELD * THREADS; piece < n_pieces; piece += THREADS) {
        load_piece(items, row, piece, n);
        put_piece(out, items, piece, factor, finite);
    }
}

void launch_activation_operand(void *stream, const struct activation_operand_launch *operand)
{
    if (operand->out.n_rows == 0)
        return;
    struct launch_shape shape = {(unsigned)operand->out.n_rows, 1, 1, THREADS, 0};
    launch<make_operand>(shape, stream, *operand);
}
