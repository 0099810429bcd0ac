#include "tests/kernel/product_data.h"

#include "engine/cpu/product/amx.h"

#include <math.h>
#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

const enum tensor_type product_types[] = {
    TENSOR_F32,    TENSOR_F16,    TENSOR_BF16,    TENSOR_Q8_0,  TENSOR_Q4_0,    TENSOR_Q4_1,
    TENSOR_Q5_0,   TENSOR_Q5_1,   TENSOR_Q2_K,    TENSOR_Q3_K,  TENSOR_Q4_K,    TENSOR_Q5_K,
    TENSOR_Q6_K,   TENSOR_IQ4_NL, TENSOR_IQ4_XS,  TENSOR_MXFP4, TENSOR_NVFP4,   TENSOR_IQ2_XXS,
    TENSOR_IQ2_XS, TENSOR_IQ2_S,  TENSOR_IQ3_XXS, TENSOR_IQ3_S, TENSOR_IQ1_S,   TENSOR_IQ1_M,
    TENSOR_TQ1_0,  TENSOR_TQ2_0,  TENSOR_U4_32,   TENSOR_U4_64, TENSOR_F8_E4M3, TENSOR_TYPE_COUNT,
};

#ifdef __x86_64__
static bool processor_has_avxvnni(void)
{
    enum { AVXVNNI = 1 << 4 }; // CPUID leaf 7, subleaf 1, EAX
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & AVXVNNI;
}
#endif

void product_levels_fill(struct product_level levels[PRODUCT_LEVELS])
{
    memset(levels, 0, sizeof(struct product_level) * PRODUCT_LEVELS);
    levels[0].name = "plain";
    levels[0].present = true;
    product_kernels_plain(&levels[0].kernels);
#if defined(__aarch64__)
    levels[1].name = "neon";
    levels[2].name = "i8mm";
    levels[3].name = "fourth level";
    levels[4].name = "fifth level";
    levels[5].name = "sixth level";
    levels[6].name = "seventh level";
    levels[1].present = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    if (levels[1].present)
        product_kernels_neon(&levels[1].kernels);
    levels[2].present = levels[1].present && getauxval(AT_HWCAP2) & HWCAP2_I8MM;
    if (levels[2].present)
        product_kernels_i8mm(&levels[2].kernels);
#else
    levels[1].name = "avx2";
    levels[2].name = "avx512";
    levels[3].name = "avx512, other kernels";
    levels[4].name = "avx512, other tiles";
    levels[5].name = "avxvnni";
    levels[6].name = "amx";
#endif
#ifdef __x86_64__
    levels[1].present = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (levels[1].present)
        product_kernels_avx2(&levels[1].kernels);
    levels[2].present = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
    if (levels[2].present)
        product_kernels_avx512(&levels[2].kernels);
    levels[3].present = levels[2].present;
    if (levels[3].present)
        product_kernels_avx512_least(&levels[3].kernels);
    if (levels[3].present && levels[2].kernels.bfloats_apart && __builtin_cpu_supports("avx512bf16"))
        product_kernels_avx512_bf16(&levels[3].kernels);
    // Level 3 has one row of the table of tiles, level 4 the other.
    _Static_assert(PRODUCT_TILES_COUNT == 2, "a level for each row of the table of tiles");
    levels[4].present = levels[2].present;
    if (levels[4].present)
        product_kernels_avx512_tiles(&levels[4].kernels, PRODUCT_TILES_ZEN5);
    const bool has_avxvnni = levels[1].present && processor_has_avxvnni();
    levels[5].present = has_avxvnni || levels[2].present;
    if (has_avxvnni)
        product_kernels_avxvnni(&levels[5].kernels);
    else if (levels[5].present)
        product_kernels_avxvnni_as_avx512(&levels[5].kernels);
    levels[6].present = amx_is_present() && amx_request_permission() == 0;
    if (levels[6].present)
        product_kernels_amx(&levels[6].kernels);
    levels[1].instructions = PEAK_AVX2;
    for (int l = 2; l <= 4; l++)
        levels[l].instructions = levels[l].kernels.bfloats_apart ? PEAK_AVX512 : PEAK_AVX512_BF16;
    levels[5].instructions = has_avxvnni ? PEAK_AVXVNNI : PEAK_AVXVNNI_AS_AVX512;
    levels[6].instructions = PEAK_AMX;
    for (int l = 3; l < PRODUCT_LEVELS; l++)
        for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
            for (int before = 1; before < l; before++)
                if (levels[l].kernels.product[type] == levels[before].kernels.product[type])
                    levels[l].kernels.product[type] = NULL;
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
    case TENSOR_IQ2_XXS:
    case TENSOR_IQ2_XS:
    case TENSOR_IQ2_S:
    case TENSOR_IQ3_XXS:
    case TENSOR_IQ3_S:
    case TENSOR_IQ1_S:
    case TENSOR_U4_32:
    case TENSOR_U4_64:
        offsets[0] = 0;
        break;
    case TENSOR_TQ1_0:
        offsets[0] = 52;
        break;
    case TENSOR_TQ2_0:
        offsets[0] = 64;
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

// A binary16: near 0.01, near the largest, subnormal, infinite or NaN; either sign.
static uint16_t random_half(enum product_fill fill, uint64_t *state)
{
    uint32_t bits = random_bits(state);
    uint16_t sign = bits & 0x8000u;
    if (fill == FILL_HUGE)
        return sign | 0x7B00u | (bits & 0xFFu);
    if (fill == FILL_TINY)
        return sign | (bits & 0x3FFu);
    if (fill == FILL_INFINITE)
        return sign | 0x7C00u | (bits & 0x40000u ? bits & 0x3FFu : 0);
    return sign | 0x2000u | (bits & 0x3FFu);
}

// IQ1_M's scale is in the upper half-bytes of four words.
static void put_iq1_m_scale(uint8_t *block, uint16_t half)
{
    for (int i = 0; i < 4; i++)
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (half >> (4 * i) & 15) << 4);
}

static void fill_float(uint8_t *bytes, enum tensor_type type, enum product_fill fill, uint64_t *state)
{
    static const float factors[] = {1.0f, 0.0f, -1.0f, 0x1p100f, 0x1p-120f, INFINITY};
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
            bytes[at] = fill == FILL_INFINITE ? (uint8_t)(random_bits(state) % 4 + 230 + (at & 16))
                        : fill == FILL_HUGE   ? 220
                        : fill == FILL_TINY   ? (uint8_t)(random_bits(state) % 3)
                                              : 120;
        if (type == TENSOR_F8_E4M3) {
            fill_float(bytes + at, TENSOR_F32, fill, state);
            for (uint32_t i = 4; i < traits->block_bytes && fill != FILL_INFINITE; i++)
                bytes[at + i] -= (bytes[at + i] & 0x7F) == 0x7F; // no NaN
        }
        if (type == TENSOR_U4_32 || type == TENSOR_U4_64)
            bytes[at + 2] &= 15;
        if (type == TENSOR_IQ1_M)
            put_iq1_m_scale(bytes + at, random_half(fill, state));
        for (int s = 0; s < 2 && offsets[s] >= 0; s++) {
            uint16_t half = random_half(fill, state);
            memcpy(bytes + at + offsets[s], &half, 2);
        }
    }
    return tensor;
}
