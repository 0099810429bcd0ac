// Rows become the operand of products (gpu/kernels.h): one block a row, 8 inputs a thread at a time.
#include "gpu/kernel.h"
#include "gpu/kernels.h"

enum { THREADS = 256, WARPS = THREADS / 32 };

static __device__ float item_of(const float *row, int32_t index, int32_t n)
{
    return index < n ? row[index] : 0.0f;
}

// Of all threads' values; of bits of absolute values it is the largest, NaN above all.
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

// Exponent of the scale from the bits of the row's largest absolute value, which is finite.
static __device__ int scale_exponent(uint32_t largest)
{
    int exponent = (int)(largest >> 23) - 127 - 14;
    return largest == 0 ? 0 : exponent < -100 ? -100 : exponent; // 2^-exponent stays a normal number
}

static __device__ float power_of_2(int exponent) // a normal number
{
    return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

static __global__ void __launch_bounds__(THREADS) make_operand(struct operand_launch launch)
{
    struct operand out = launch.out;
    int32_t n = out.n_inputs;
    int32_t head = launch.head_rows ? (int32_t)blockIdx.x / launch.head_rows : 0;
    int64_t row_index = launch.head_rows ? (int32_t)blockIdx.x % launch.head_rows
                        : launch.rows    ? launch.rows[blockIdx.x] / launch.rows_divisor : (int32_t)blockIdx.x;
    const float *row = launch.x + row_index * launch.x_stride + (int64_t)head * launch.x_head_step;
    uint32_t largest = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        uint32_t bits = __float_as_uint(row[i]) & 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    largest = block_max(largest);
    bool finite = largest < 0x7F800000u;
    int exponent = out.form == OPERAND_HALF && finite ? scale_exponent(largest) : 0;
    if (threadIdx.x == 0)
        out.scales[blockIdx.x] = finite ? power_of_2(exponent) : __uint_as_float(0x7FC00000u);
    float factor = power_of_2(-exponent);
    uint4 *items = (uint4 *)out.items;
    int32_t n_pieces = (n + OPERAND_ALIGNMENT - 1) / OPERAND_ALIGNMENT * (OPERAND_ALIGNMENT / 8);
    // Neighbouring threads are the four lanes of a step, so that they write 64 bytes together.
    for (int32_t piece = (int32_t)threadIdx.x; piece < n_pieces; piece += THREADS) {
        int32_t lane = piece % 4, step = piece / 4;
        int32_t first = step / 4 * 128 + lane * 32 + step % 4 * 8;
        uint32_t words[4];
        for (int i = 0; i < 4; i++) {
            float low = item_of(row, first + 2 * i, n) * factor, high = item_of(row, first + 2 * i + 1, n) * factor;
            words[i] = out.form == OPERAND_HALF ? half2_make(low, high) : bfloat2_make(low, high);
        }
        uint4 packed = make_uint4(words[0], words[1], words[2], words[3]);
        items[((int64_t)step * out.n_rows + blockIdx.x) * 4 + lane] = finite ? packed : make_uint4(0, 0, 0, 0);
    }
}

void launch_operand(void *stream, const struct operand_launch *operand)
{
    if (operand->out.n_rows == 0)
        return;
    struct launch_shape shape = {(unsigned)operand->out.n_rows, 1, 1, THREADS, 0};
    launch(make_operand, shape, stream, *operand);
}
