// Launches of gpu/kernels/rates.cu, which only tests/gpu/gpu_probe.c uses: loops within one kernel, long
// enough to measure a rate without the launch overhead. Both fill `sums`, so that no compiler drops the work.
//
// Thread: as gpu/device.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    RATE_PIECE_BYTES = 16 << 10, // per bulk copy
    RATE_COPY_SUMS = 32,         // per block
    RATE_PRODUCT_THREADS = 256,  // per block; one sum per thread
    RATE_ITEM_WORDS = 8192,      // words of random pairs of binary16
    // Multiply-adds per block and round. Each counts as two operations.
    RATE_MMA_PRODUCTS = 8 * 8 * 16 * 8 * 16, // 8 warps with 8 mma of 16 x 8 x 16 each
    RATE_WGMMA_PRODUCTS = 2 * 4 * 64 * 128 * 16,
};

#ifdef __cplusplus
extern "C" {
#endif

// Each of n_blocks blocks copies n_pieces from device to shared memory, n_rounds times. Requires compute
// capability 9.0.
void launch_rate_copy(void *stream, const void *from, int32_t n_pieces, int32_t n_rounds, uint32_t *sums,
                      int32_t n_blocks);
// Multiplies `items` [RATE_ITEM_WORDS] by mma or, on compute capability 9.0, by wgmma.
void launch_rate_products(void *stream, const uint32_t *items, bool by_wgmma, int32_t n_rounds, float *sums,
                          int32_t n_blocks);

#ifdef __cplusplus
}
#endif
