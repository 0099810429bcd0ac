// Row-wise kernels (gpu/kernels/kernels_layers.h). Thread t of 256 adds items t, t + 256, .. of a vector in order; then
// the lanes of each warp are added in pairs 16, 8, 4, 2, 1 apart; then the warps in order.
#include "gpu/kernels/kernels_layers.h"

#include "gpu/kernels/elementary_device.h"

#include <assert.h>
#include <math.h>

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };

// The grid is [rows, ranges of columns]. Returns a thread's first column; very wide rows are walked with a stride.
static __device__ int first_col(void)
{
    return (int)(blockIdx.y * THREADS + threadIdx.x);
}

static __device__ int col_step(void)
{
    return (int)(gridDim.y * THREADS);
}

static __device__ float block_sum(float *shared, float x)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
    __syncthreads(); // all threads have read the previous sum
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = x;
    __syncthreads();
    float sum = shared[0];
    for (int i = 1; i < WARPS; i++)
        sum += shared[i];
    return sum;
}

static __device__ float mean_of(float *shared, const float *items, int n)
{
    float sum = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        sum += items[i];
    return block_sum(shared, sum) / (float)n;
}

// The mean of (item - center)^2.
static __device__ float mean_square(float *shared, const float *items, int n, float center)
{
    float sum = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += THREADS) {
        float x = items[i] - center;
        sum = fmaf(x, x, sum);
    }
    return block_sum(shared, sum) / (float)n;
}

static __global__ void mix_groups(const struct mix_launch call)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    int n = (call.n_out - call.first) * call.width;
    const float *x = call.x.items + row * call.x.stride;
    for (int at = first_col(); at < n; at += col_step()) {
        int group = call.first + at / call.width, col = at % call.width;
        float *out = call.out.items + row * call.out.stride + group * call.width + col, sum = *out;
        for (int j = 0; j < call.n_in; j++) {
            float factor = call.bias;
            if (call.coefficients.items)
                factor += call.coefficients.items[row * call.coefficients.stride + group * call.n_in + j];
            sum = fmaf(x[j * call.width + col], factor, sum);
        }
        *out = sum;
    }
}

// The grid is [rows, groups but the first].
static __global__ void __launch_bounds__(THREADS) match_groups(struct device_matrix x, int width)
{
    launch_next();
    launch_wait();
    __shared__ float shared[WARPS];
    const float *first = x.items + (int64_t)blockIdx.x * x.stride;
    float *own = x.items + (int64_t)blockIdx.x * x.stride + ((int64_t)blockIdx.y + 1) * width;
    float wanted = mean_square(shared, first, width, 0.0f), square = mean_square(shared, own, width, 0.0f);
    float scale = sqrtf(wanted) / sqrtf(square > 1e-5f ? square : 1e-5f);
    for (int i = (int)threadIdx.x; i < width; i += THREADS)
        own[i] *= scale;
}

static __global__ void __launch_bounds__(THREADS)
    sparsify_rows(struct device_matrix x, int n_cols, float factor)
{
    launch_next();
    launch_wait();
    __shared__ float shared[WARPS];
    float *row = x.items + (int64_t)blockIdx.x * x.stride;
    float mean = mean_of(shared, row, n_cols), deviation = sqrtf(mean_square(shared, row, n_cols, mean));
    float cut = mean + deviation * factor;
    for (int i = (int)threadIdx.x; i < n_cols; i += THREADS) {
        float y = row[i] - cut;
        row[i] = y < 0.0f ? 0.0f : y;
    }
}

static __global__ void gate_softplus_rows(struct device_matrix x, struct device_matrix gate, int n_cols,
                                          int part_cols)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step())
        x.items[row * x.stride + col] *=
            device_softplus(gate.items[row * gate.stride + col / part_cols], 0.0f, INFINITY);
}

static __global__ void limit_rows(struct device_matrix x, int n_cols, float least, float most)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step()) {
        float y = x.items[row * x.stride + col];
        y = y < least ? least : y;
        x.items[row * x.stride + col] = most < y ? most : y;
    }
}

// exp(x) - 1 - x for x <= 0, as in engine/cpu/rows_body.h.
static __device__ float exp_beyond_line(float x)
{
    float p = fmaf(1.0f / 362880.0f, x, 1.0f / 40320.0f);
    p = fmaf(p, x, 1.0f / 5040.0f);
    p = fmaf(p, x, 1.0f / 720.0f);
    p = fmaf(p, x, 1.0f / 120.0f);
    p = fmaf(p, x, 1.0f / 24.0f);
    p = fmaf(p, x, 1.0f / 6.0f);
    p = fmaf(p, x, 0.5f);
    float near_0 = x * x * p, far = device_exp(x) - 1.0f - x;
    return x < -0.75f ? far : near_0;
}

static __global__ void xielu_rows(struct device_matrix x, int n_cols, const struct xielu parameters)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    for (int col = first_col(); col < n_cols; col += col_step()) {
        float item = x.items[row * x.stride + col], line = parameters.beta * item;
        float most = parameters.epsilon < item ? parameters.epsilon : item;
        float bend = exp_beyond_line(most) + (most - item);
        x.items[row * x.stride + col] = 0.0f < item ? fmaf(parameters.positive * item, item, line)
                                                    : fmaf(parameters.negative, bend, line);
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

void launch_mix(void *stream, const struct mix_launch *mix)
{
    assert(mix->first < mix->n_out && mix->n_in > 0);
    launch_overlapped<mix_groups>(row_shape(mix->n_rows, (int64_t)(mix->n_out - mix->first) * mix->width),
                                  stream, *mix);
}

void launch_match_rms(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_groups, int32_t width)
{
    assert(n_groups > 1);
    launch_overlapped<match_groups>({(unsigned)n_rows, (unsigned)(n_groups - 1), 1, THREADS, 0}, stream, x,
                                    width);
}

void launch_sparsify(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols, float factor)
{
    launch_overlapped<sparsify_rows>({(unsigned)n_rows, 1, 1, THREADS, 0}, stream, x, n_cols, factor);
}

void launch_gate_softplus(void *stream, struct device_matrix x, struct device_matrix gate, int32_t n_rows,
                          int32_t n_cols, int32_t n_gates)
{
    launch_overlapped<gate_softplus_rows>(row_shape(n_rows, n_cols), stream, x, gate, n_cols,
                                          n_cols / n_gates);
}

void launch_limit(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols, float least,
                  float most)
{
    launch_overlapped<limit_rows>(row_shape(n_rows, n_cols), stream, x, n_cols, least, most);
}

void launch_xielu(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols,
                  const struct xielu *parameters)
{
    launch_overlapped<xielu_rows>(row_shape(n_rows, n_cols), stream, x, n_cols, *parameters);
}
