// Converts rows to the activation operand of GEMMs (gpu/kernels/kernels.h): one block per row.
#include "gpu/kernels/operand_rows.h"

#include <assert.h>

// A thread holds up to PIECES_HELD pieces in registers, which suffices for rows of up to 16,384 inputs.
enum { THREADS = 256, WARPS = THREADS / 32, PIECES_HELD = 8 };

// Returns the maximum of `value` over the block.
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

template <bool swizzled, bool weighed>
static __global__ void __launch_bounds__(THREADS) make_operand(struct activation_operand_launch launch)
{
    launch_next();
    launch_wait();
    struct activation_operand out = launch.out;
    int32_t head = launch.head_rows ? (int32_t)blockIdx.x / launch.head_rows : 0;
    int64_t row_index = launch.head_rows ? (int32_t)blockIdx.x % launch.head_rows
                        : launch.rows    ? launch.rows[blockIdx.x] / launch.rows_divisor
                                         : (int32_t)blockIdx.x;
    const float *row = launch.x + row_index * launch.x_stride + (int64_t)head * launch.x_head_step;
    convert_row<stored_items, swizzled, PIECES_HELD>(out, (int32_t)blockIdx.x, row, (int32_t)threadIdx.x,
                                                     THREADS, block_max,
                                                     weighed ? launch.weights[launch.rows[blockIdx.x]]
                                                             : 1.0f);
}

void launch_activation_operand(void *stream, const struct activation_operand_launch *operand)
{
    if (operand->out.n_rows == 0)
        return;
    struct launch_shape shape = {(unsigned)operand->out.n_rows, 1, 1, THREADS, 0};
    assert(!operand->weights || (operand->rows && !operand->out.swizzled));
    if (operand->weights) // of experts, whose GEMMs read operands that are not swizzled
        launch_overlapped<make_operand<false, true>>(shape, stream, *operand);
    else if (operand->out.swizzled)
        launch_overlapped<make_operand<true, false>>(shape, stream, *operand);
    else
        launch_overlapped<make_operand<false, false>>(shape, stream, *operand);
}
