// Unpacks weights for tiles: product_avx512.h's, with signed quants.
#include "engine/cpu/product/product_amx.h"

#include "engine/cpu/product/product_avx512.h"

#define UNPACK_SIGNED(name, type)                                                                            \
    static void unpack_##name(const struct packed *weight, int32_t panel, int32_t first, int32_t n,          \
                              uint8_t *quants, struct unpacked_scales *scales)                               \
    {                                                                                                        \
        unpack_blocks(type, 0, weight, panel, first, n, quants, scales);                                     \
    }
UNPACKED_TYPES_WHOLE(UNPACK_SIGNED)

#define UNPACK_NAME(name, type) [type] = unpack_##name,
unpack_function *const unpack_amx[TENSOR_TYPE_COUNT] = {UNPACKED_TYPES_WHOLE(UNPACK_NAME)};
