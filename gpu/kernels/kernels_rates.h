// Launches of gpu/kernels/rates.cu, which only tests/gpu/gpu_probe.c uses: loops within one kernel that take long enough
// to measure a rate, however long a launch takes. Both fill `sums`, so that no compiler drops the work.
//
// Thread: as gpu/device.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    RATE_PIECE_BYTES = 16 << 10, // of a bulk copy
    RATE_COPY_SUMS = 32,         // of a block
    RATE_PRODUCT_THREADS = 256,  // of a block; a sum of each
    RATE_ITEM_WORDS = 8192,      // of random pairs of binary16
    // Multiplications and additions of a block in one round, two operations each.
    RATE_MMA_PRODUCTS = 8 * 8 * 16 * 8 * 16, // warps, mma of 16 x 8 x 16 each
    RATE_WGMMA_PRODUCTS = 2 * 4 * 64 * 128 * 16,
};

#ifdef __cplusplus
extern "C" {
#endif

// Each of n_blocks copies n_pieces from device to shared memory, n_rounds times. Compute capability 9.0.
void launch_rate_copy(void *stream, const void *from, int32_t n_pieces, int32_t n_rounds, uint32_t *sums,
                      int32_t n_blocks);
// Products by mma, or by wgmma (compute capability 9.0), of `items` [RATE_ITEM_WORDS].
void launch_rate_products(void *stream, const uint32_t *items, bool by_wgmma, int32_t n_rounds, float *sums,
                          int32_t n_blocks);

#ifdef __cplusplus
}
#endif
