// Kernels that measure the rates of a device (gpu/kernels/kernels_rates.h).
#include "gpu/kernels/kernel.h"
#include "gpu/kernels/kernels_rates.h"

enum { COPY_STAGES = 8, COPY_THREADS = 32, X_ROWS = 128, X_ROW_WORDS = 32, WGMMA_ALIGNMENT = 1024 };

// Blocks begin at different pieces. Lanes read a word of each piece before the next copy overwrites its
// stage.
static __global__ void __launch_bounds__(COPY_THREADS)
    rate_copy(const unsigned char *from, int32_t n_pieces, int32_t n_rounds, uint32_t *sums)
{
    __shared__ uint64_t full[COPY_STAGES];
    unsigned char *stages = dynamic_shared();
    int lane = (int)threadIdx.x;
    if (lane == 0) {
        for (int i = 0; i < COPY_STAGES; i++)
            barrier_init(full + i, 1);
        barrier_init_fence();
    }
    __syncthreads();
    int32_t n = n_pieces * n_rounds, piece = (int32_t)blockIdx.x % n_pieces;
    uint32_t sum = 0;
    for (int32_t i = 0; i < n + COPY_STAGES; i++) {
        int stage = i % COPY_STAGES;
        unsigned char *place = stages + stage * RATE_PIECE_BYTES;
        if (i >= COPY_STAGES) {
            barrier_wait(full + stage, (uint32_t)(i / COPY_STAGES - 1) % 2);
            sum += *(const uint32_t *)(place + lane * 4);
            __syncwarp();
        }
        if (i < n && lane == 0) {
            barrier_expect_bytes(full + stage, RATE_PIECE_BYTES);
            copy_bulk(place, from + (int64_t)piece * RATE_PIECE_BYTES, RATE_PIECE_BYTES, full + stage);
        }
        piece = piece + 1 < n_pieces ? piece + 1 : 0;
    }
    sums[blockIdx.x * COPY_THREADS + threadIdx.x] = sum;
}

void launch_rate_copy(void *stream, const void *from, int32_t n_pieces, int32_t n_rounds, uint32_t *sums,
                      int32_t n_blocks)
{
    launch<rate_copy>({(unsigned)n_blocks, 1, 1, COPY_THREADS, (size_t)COPY_STAGES * RATE_PIECE_BYTES},
                      stream, (const unsigned char *)from, n_pieces, n_rounds, sums);
}

// The second operands differ, so that the inputs of the multipliers change as in a GEMM. Power, and so the
// clock, depends on such changes.
static __global__ void __launch_bounds__(RATE_PRODUCT_THREADS)
    rate_mma(const uint32_t *items, int32_t n_rounds, float *sums)
{
    enum { N = 8 };
    uint32_t a[2][4], b[N][2];
    float d[N][4] = {};
#pragma unroll
    for (int i = 0; i < 8; i++)
        a[i / 4][i % 4] = items[i * RATE_PRODUCT_THREADS + threadIdx.x];
#pragma unroll
    for (int i = 0; i < 2 * N; i++)
        b[i / 2][i % 2] = items[(8 + i) * RATE_PRODUCT_THREADS + threadIdx.x];
#pragma unroll 1
    for (int32_t round = 0; round < n_rounds; round++)
#pragma unroll
        for (int i = 0; i < N; i++)
            mma_half(d[i], a[i % 2], b[i]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; i++)
        sum = sum + d[i][0] + d[i][1] + d[i][2] + d[i][3];
    sums[blockIdx.x * RATE_PRODUCT_THREADS + threadIdx.x] = sum;
}

// Two warpgroups with 64 outputs x 128 rows each.
static __global__ void __launch_bounds__(RATE_PRODUCT_THREADS, 1)
    rate_wgmma(const uint32_t *items, int32_t n_rounds, float *sums)
{
    unsigned char *memory = dynamic_shared();
    memory += (WGMMA_ALIGNMENT - shared_address(memory) % WGMMA_ALIGNMENT) % WGMMA_ALIGNMENT;
    uint32_t a[4][4];
    float d[X_ROWS / 2];
#pragma unroll
    for (int i = 0; i < 16; i++)
        a[i / 4][i % 4] = items[(16 + i) * RATE_PRODUCT_THREADS + threadIdx.x];
#pragma unroll
    for (int i = 0; i < X_ROWS / 2; i++)
        d[i] = 0.0f;
    for (int i = (int)threadIdx.x; i < X_ROWS * X_ROW_WORDS; i += RATE_PRODUCT_THREADS)
        ((uint32_t *)memory)[i] = items[i];
    shared_fence_async();
    __syncthreads();
    uint64_t x = wgmma_rows(memory);
#pragma unroll 1
    for (int32_t round = 0; round < n_rounds; round++) {
        wgmma_fence();
#pragma unroll
        for (int f = 0; f < 4; f++)
            wgmma<X_ROWS, false>(d, a[f], x + 2 * f);
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_hold(d);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < X_ROWS / 2; i++)
        sum = sum + d[i];
    sums[blockIdx.x * RATE_PRODUCT_THREADS + threadIdx.x] = sum;
}

void launch_rate_products(void *stream, const uint32_t *items, bool by_wgmma, int32_t n_rounds, float *sums,
                          int32_t n_blocks)
{
    struct launch_shape blocks = {(unsigned)n_blocks, 1, 1, RATE_PRODUCT_THREADS, 0};
    if (!by_wgmma) {
        launch<rate_mma>(blocks, stream, items, n_rounds, sums);
        return;
    }
    blocks.shared_bytes = X_ROWS * X_ROW_WORDS * 4 + WGMMA_ALIGNMENT;
    launch<rate_wgmma>(blocks, stream, items, n_rounds, sums);
}
