#include "tests/kernel/product_data.h"

#include <string.h>

#ifdef __x86_64__
// The kernel that product_kernels_avx512 gives to processors without bfloat16 instructions. Its own header
// compiles for that instruction set alone.
void product_avx512_bf16(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                         const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                         int64_t y_stride, const float *bias);
#endif

const enum tensor_type product_types[] = {
    TENSOR_F32,  TENSOR_F16,    TENSOR_BF16,   TENSOR_Q8_0,  TENSOR_Q4_0,       TENSOR_Q4_1,
    TENSOR_Q5_0, TENSOR_Q5_1,   TENSOR_Q2_K,   TENSOR_Q3_K,  TENSOR_Q4_K,       TENSOR_Q5_K,
    TENSOR_Q6_K, TENSOR_IQ4_NL, TENSOR_IQ4_XS, TENSOR_MXFP4, TENSOR_TYPE_COUNT,
};

void product_levels_fill(struct product_level levels[PRODUCT_LEVELS])
{
    memset(levels, 0, sizeof(struct product_level) * PRODUCT_LEVELS);
    levels[0].name = "plain";
    levels[0].present = true;
    product_kernels_plain(&levels[0].kernels);
    levels[1].name = "avx2";
    levels[2].name = "avx512";
    levels[3].name = "avx512 without bf16";
#ifdef __x86_64__
    levels[1].present = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (levels[1].present)
        product_kernels_avx2(&levels[1].kernels);
    levels[2].present = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
    if (levels[2].present)
        product_kernels_avx512(&levels[2].kernels);
    levels[3].present = levels[2].present;
    levels[3].kernels.quantize = levels[2].kernels.quantize;
    levels[3].kernels.round_bfloats = levels[2].kernels.round_bfloats;
    levels[3].kernels.product[TENSOR_BF16] = product_avx512_bf16;
#endif
}

// Where a type's blocks hold binary16 scales: byte offsets, -1 for none.
static void scale_offsets(enum tensor_type type, int offsets[2])
{
    offsets[0] = offsets[1] = -1;
    switch (type) {
    case TENSOR_Q8_0:
    case TENSOR_Q4_0:
    case TENSOR_Q5_0:
    case TENSOR_IQ4_NL:
    case TENSOR_IQ4_XS:
        offsets[0] = 0;
        break;
    case TENSOR_Q4_1:
    case TENSOR_Q5_1:
    case TENSOR_Q4_K:
    case TENSOR_Q5_K:
        offsets[0] = 0;
        offsets[1] = 2;
        break;
    case TENSOR_Q2_K:
        offsets[0] = 80;
        offsets[1] = 82;
        break;
    case TENSOR_Q3_K:
        offsets[0] = 108;
        break;
    case TENSOR_Q6_K:
        offsets[0] = 208;
        break;
    default:
        break;
    }
}

// A binary16: near 0.01, near the largest, or subnormal; either sign.
static uint16_t random_half(enum product_fill fill, uint64_t *state)
{
    uint32_t bits = random_bits(state);
    uint16_t sign = bits & 0x8000u;
    if (fill == FILL_HUGE)
        return sign | 0x7B00u | (bits & 0xFFu);
    if (fill == FILL_TINY)
        return sign | (bits & 0x3FFu);
    return sign | 0x2000u | (bits & 0x3FFu);
}

static void fill_float(uint8_t *bytes, enum tensor_type type, enum product_fill fill, uint64_t *state)
{
    static const float factors[] = {1.0f, 0.0f, -1.0f, 0x1p100f, 0x1p-120f};
    float value = random_float(state) * factors[fill];
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint16_t upper = (uint16_t)(bits >> 16), half = random_half(fill, state);
    if (type == TENSOR_F32)
        memcpy(bytes, &bits, 4);
    else
        memcpy(bytes, type == TENSOR_BF16 ? &upper : &half, 2);
}

struct tensor product_tensor(enum tensor_type type, int32_t n_outputs, int32_t n_inputs,
                             enum product_fill fill, uint64_t *state)
{
    const struct tensor_traits *traits = tensor_traits(type);
    struct tensor tensor = {.name = TEXT("random"), .type = type, .n_dims = 2, .dims = {0, 0, 1, 1}};
    tensor.dims[0] = (uint64_t)n_inputs;
    tensor.dims[1] = (uint64_t)n_outputs;
    tensor.size_bytes = tensor_row_bytes(&tensor) * (uint64_t)n_outputs;
    uint8_t *bytes = malloc(tensor.size_bytes);
    tensor.data = bytes;
    int offsets[2];
    scale_offsets(type, offsets);
    for (uint64_t at = 0; at < tensor.size_bytes; at += traits->block_bytes) {
        if (traits->block_items == 1) {
            fill_float(bytes + at, type, fill, state);
            continue;
        }
        for (uint32_t i = 0; i < traits->block_bytes; i++)
            bytes[at + i] = fill == FILL_LOWEST    ? 0
                            : fill == FILL_HIGHEST ? 0xFF
                                                   : (uint8_t)random_bits(state);
        if (type == TENSOR_MXFP4)
            bytes[at] = fill == FILL_HUGE ? 220 : fill == FILL_TINY ? (uint8_t)(random_bits(state) % 3) : 120;
        for (int s = 0; s < 2 && offsets[s] >= 0; s++) {
            uint16_t half = random_half(fill, state);
            memcpy(bytes + at + offsets[s], &half, 2);
        }
    }
    return tensor;
}
