// Each type's blocks are packed here item by item, the way a quantizer packs them, and must widen to the
// floats that the format defines for those items: bit for bit.
#include "engine/file/dequantize.h"
#include "engine/file/tensor.h"
#include "schemas/base/hash.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

enum { N_BLOCKS = 3, BLOCK_BYTES_MAX = 292, ITEMS_MAX = 256 };

static uint64_t random_state;

// A normal half of either sign, at most 2 in size; `value` is what it means.
static void put_random_half(uint8_t *bytes, float *value)
{
    unsigned exponent = 1 + random_below(&random_state, 15);
    unsigned mantissa = random_below(&random_state, 1024);
    unsigned sign = random_below(&random_state, 2);
    unsigned half = sign << 15 | exponent << 10 | mantissa;
    bytes[0] = (uint8_t)half;
    bytes[1] = (uint8_t)(half >> 8);
    *value = ldexpf((float)(1024 + mantissa), (int)exponent - 25) * (sign ? -1.0f : 1.0f);
}

static void put_nibble32(uint8_t *bytes, int item, unsigned q)
{
    bytes[item % 16] |= (uint8_t)(q << (item / 16 * 4));
}

static void pack_q4_0(uint8_t *block, float *items)
{
    float d;
    put_random_half(block, &d);
    for (int i = 0; i < 32; i++) {
        unsigned q = random_below(&random_state, 16);
        put_nibble32(block + 2, i, q);
        items[i] = ((float)q - 8.0f) * d;
    }
}

static void pack_q4_1(uint8_t *block, float *items)
{
    float d, m;
    put_random_half(block, &d);
    put_random_half(block + 2, &m);
    for (int i = 0; i < 32; i++) {
        unsigned q = random_below(&random_state, 16);
        put_nibble32(block + 4, i, q);
        float product = (float)q * d;
        items[i] = product + m;
    }
}

static void pack_q5_0(uint8_t *block, float *items)
{
    float d;
    put_random_half(block, &d);
    for (int i = 0; i < 32; i++) {
        unsigned q = random_below(&random_state, 32);
        block[2 + i / 8] |= (uint8_t)((q >> 4) << i % 8);
        put_nibble32(block + 6, i, q & 15);
        items[i] = ((float)q - 16.0f) * d;
    }
}

static void pack_q5_1(uint8_t *block, float *items)
{
    float d, m;
    put_random_half(block, &d);
    put_random_half(block + 2, &m);
    for (int i = 0; i < 32; i++) {
        unsigned q = random_below(&random_state, 32);
        block[4 + i / 8] |= (uint8_t)((q >> 4) << i % 8);
        put_nibble32(block + 8, i, q & 15);
        float product = (float)q * d;
        items[i] = product + m;
    }
}

static void pack_q8_0(uint8_t *block, float *items)
{
    float d;
    put_random_half(block, &d);
    for (int i = 0; i < 32; i++) {
        int q = (int)random_below(&random_state, 256) - 128;
        block[2 + i] = (uint8_t)q;
        items[i] = (float)q * d;
    }
}

static const float nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void pack_iq4_nl(uint8_t *block, float *items)
{
    float d;
    put_random_half(block, &d);
    for (int i = 0; i < 32; i++) {
        unsigned q = random_below(&random_state, 16);
        put_nibble32(block + 2, i, q);
        items[i] = nonlinear[q] * d;
    }
}

static void pack_mxfp4(uint8_t *block, float *items)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    int exponent = (int)random_below(&random_state, 255);
    block[0] = (uint8_t)exponent;
    for (int i = 0; i < 32; i++) {
        unsigned q = random_below(&random_state, 16);
        put_nibble32(block + 1, i, q);
        // q 8 is -0 in E2M1 and +0 in ggml; tests compare values.
        items[i] = ldexpf(e2m1[q & 7], exponent - 127) * (q & 8 ? -1.0f : 1.0f);
    }
}

// Two bits of item `item` as Q2_K and Q3_K keep them.
static void put_two_bits(uint8_t *bytes, int item, unsigned q)
{
    bytes[item / 128 * 32 + item % 32] |= (uint8_t)(q << (item % 128 / 32 * 2));
}

static void pack_q2_k(uint8_t *block, float *items)
{
    float d, d_minimum;
    put_random_half(block + 80, &d);
    put_random_half(block + 82, &d_minimum);
    for (int group = 0; group < 16; group++) {
        unsigned scale = random_below(&random_state, 16), minimum = random_below(&random_state, 16);
        block[group] = (uint8_t)(scale | minimum << 4);
        for (int i = group * 16; i < group * 16 + 16; i++) {
            unsigned q = random_below(&random_state, 4);
            put_two_bits(block + 16, i, q);
            float a = d * (float)scale, b = d_minimum * (float)minimum;
            float product = a * (float)q;
            items[i] = product - b;
        }
    }
}

static void pack_q3_k(uint8_t *block, float *items)
{
    float d;
    put_random_half(block + 108, &d);
    for (int group = 0; group < 16; group++) {
        unsigned scale = random_below(&random_state, 64);
        block[96 + group % 8] |= (uint8_t)((scale & 15) << (group < 8 ? 0 : 4));
        block[104 + group % 4] |= (uint8_t)((scale >> 4) << (group / 4 * 2));
        for (int i = group * 16; i < group * 16 + 16; i++) {
            unsigned q = random_below(&random_state, 8);
            put_two_bits(block + 32, i, q & 3);
            block[i % 32] |= (uint8_t)((q >> 2) << i / 32);
            float a = d * ((float)scale - 32.0f);
            items[i] = a * ((float)q - 4.0f);
        }
    }
}

// Packs eight 6-bit scales and minima and gives them back.
static void pack_k_scales(uint8_t *packed, unsigned scales[8], unsigned minima[8])
{
    for (int s = 0; s < 8; s++) {
        scales[s] = random_below(&random_state, 64);
        minima[s] = random_below(&random_state, 64);
        if (s < 4) {
            packed[s] |= (uint8_t)scales[s];
            packed[s + 4] |= (uint8_t)minima[s];
        } else {
            packed[s + 4] |= (uint8_t)((scales[s] & 15) | (minima[s] & 15) << 4);
            packed[s - 4] |= (uint8_t)((scales[s] >> 4) << 6);
            packed[s] |= (uint8_t)((minima[s] >> 4) << 6);
        }
    }
}

static void pack_q4_or_q5_k(uint8_t *block, float *items, bool five_bits)
{
    float d, d_minimum;
    unsigned scales[8], minima[8];
    put_random_half(block, &d);
    put_random_half(block + 2, &d_minimum);
    pack_k_scales(block + 4, scales, minima);
    for (int i = 0; i < 256; i++) {
        unsigned q = random_below(&random_state, five_bits ? 32 : 16);
        int sub = i / 32;
        block[(five_bits ? 48 : 16) + i / 64 * 32 + i % 32] |= (uint8_t)((q & 15) << (sub % 2 * 4));
        if (five_bits)
            block[16 + i % 32] |= (uint8_t)((q >> 4) << sub);
        float a = d * (float)scales[sub], b = d_minimum * (float)minima[sub];
        float product = a * (float)q;
        items[i] = product - b;
    }
}

static void pack_q4_k(uint8_t *block, float *items)
{
    pack_q4_or_q5_k(block, items, false);
}

static void pack_q5_k(uint8_t *block, float *items)
{
    pack_q4_or_q5_k(block, items, true);
}

static void pack_q6_k(uint8_t *block, float *items)
{
    float d;
    put_random_half(block + 208, &d);
    for (int group = 0; group < 16; group++) {
        int scale = (int)random_below(&random_state, 256) - 128;
        block[192 + group] = (uint8_t)scale;
        for (int i = group * 16; i < group * 16 + 16; i++) {
            unsigned q = random_below(&random_state, 64);
            int half = i / 128, r = i % 128;
            block[half * 64 + r % 64] |= (uint8_t)((q & 15) << (r < 64 ? 0 : 4));
            block[128 + half * 32 + r % 32] |= (uint8_t)((q >> 4) << (r / 32 * 2));
            float a = d * (float)scale;
            items[i] = a * ((float)q - 32.0f);
        }
    }
}

static void pack_iq4_xs(uint8_t *block, float *items)
{
    float d;
    put_random_half(block, &d);
    for (int sub = 0; sub < 8; sub++) {
        unsigned scale = random_below(&random_state, 64);
        block[4 + sub / 2] |= (uint8_t)((scale & 15) << (sub % 2 * 4));
        block[2 + sub / 4] |= (uint8_t)((scale >> 4) << (sub % 4 * 2));
        for (int i = 0; i < 32; i++) {
            unsigned q = random_below(&random_state, 16);
            put_nibble32(block + 8 + sub * 16, i, q);
            float a = d * ((float)scale - 32.0f);
            items[sub * 32 + i] = a * nonlinear[q];
        }
    }
}

static void pack_nvfp4(uint8_t *block, float *items)
{
    static const float e2m1[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    for (int sub = 0; sub < 4; sub++) {
        unsigned exponent = random_below(&random_state, 16), fraction = random_below(&random_state, 7);
        block[sub] = (uint8_t)(exponent << 3 | fraction);
        float scale =
            exponent ? ldexpf((float)(8 + fraction), (int)exponent - 10) : ldexpf((float)fraction, -9);
        for (int i = 0; i < 16; i++) {
            unsigned q = random_below(&random_state, 16);
            block[4 + 8 * sub + i % 8] |= (uint8_t)(q << (i / 8 * 4));
            items[16 * sub + i] = (q & 8 ? -1.0f : 1.0f) * e2m1[q & 7] * scale;
        }
    }
}

static void pack_u4(uint8_t *block, float *items, int n_items)
{
    float d;
    unsigned zero = random_below(&random_state, 16);
    put_random_half(block, &d);
    block[2] = (uint8_t)zero;
    for (int i = 0; i < n_items; i++) {
        unsigned q = random_below(&random_state, 16);
        put_nibble32(block + 3 + i / 32 * 16, i % 32, q);
        items[i] = d * ((float)q - (float)zero);
    }
}

static void pack_u4_32(uint8_t *block, float *items)
{
    pack_u4(block, items, 32);
}

static void pack_u4_64(uint8_t *block, float *items)
{
    pack_u4(block, items, 64);
}

static void pack_f8_e4m3(uint8_t *block, float *items)
{
    float scale = ldexpf((float)(1 + random_below(&random_state, 1 << 24)), -30);
    memcpy(block, &scale, sizeof scale);
    for (int i = 0; i < 32; i++) {
        unsigned exponent = random_below(&random_state, 16), fraction = random_below(&random_state, 7),
                 sign = random_below(&random_state, 2);
        block[4 + i] = (uint8_t)(sign << 7 | exponent << 3 | fraction);
        float value =
            exponent ? ldexpf((float)(8 + fraction), (int)exponent - 10) : ldexpf((float)fraction, -9);
        items[i] = (sign ? -value : value) * scale;
    }
}

static const struct {
    enum tensor_type type;
    void (*pack)(uint8_t *block, float *items);
} packers[] = {
    {TENSOR_Q4_0, pack_q4_0},   {TENSOR_Q4_1, pack_q4_1},       {TENSOR_Q5_0, pack_q5_0},
    {TENSOR_Q5_1, pack_q5_1},   {TENSOR_Q8_0, pack_q8_0},       {TENSOR_Q2_K, pack_q2_k},
    {TENSOR_Q3_K, pack_q3_k},   {TENSOR_Q4_K, pack_q4_k},       {TENSOR_Q5_K, pack_q5_k},
    {TENSOR_Q6_K, pack_q6_k},   {TENSOR_IQ4_NL, pack_iq4_nl},   {TENSOR_IQ4_XS, pack_iq4_xs},
    {TENSOR_MXFP4, pack_mxfp4}, {TENSOR_NVFP4, pack_nvfp4},     {TENSOR_U4_32, pack_u4_32},
    {TENSOR_U4_64, pack_u4_64}, {TENSOR_F8_E4M3, pack_f8_e4m3},
};

TEST(packed_blocks_widen_to_the_format_s_floats)
{
    random_state = 20240229;
    for (size_t p = 0; p < sizeof packers / sizeof *packers; p++) {
        const struct tensor_traits *traits = tensor_traits(packers[p].type);
        for (int round = 0; round < 200; round++) {
            uint8_t bytes[1 + N_BLOCKS * BLOCK_BYTES_MAX] = {
                0}; // from an odd address: files promise no alignment
            float expected[N_BLOCKS * ITEMS_MAX], got[N_BLOCKS * ITEMS_MAX + 1];
            size_t n_items = (size_t)N_BLOCKS * traits->block_items;
            for (int b = 0; b < N_BLOCKS; b++)
                packers[p].pack(bytes + 1 + (size_t)b * traits->block_bytes,
                                expected + (size_t)b * traits->block_items);
            got[n_items] = 12345.0f;
            traits->dequantize(bytes + 1, got, n_items);
            for (size_t i = 0; i < n_items; i++)
                if (got[i] != expected[i])
                    fail_msg("%s item %zu: expected %a, got %a", traits->name, i, expected[i], got[i]);
            assert_true(got[n_items] == 12345.0f);
        }
    }
}

// Types of codebooks: what the reference (ggml's dequantize_row_*) makes of GOLDEN_BLOCKS blocks of bytes of
// Numerical Recipes' generator, as a hash of its floats. `half_byte` is the byte with the upper exponent bits of d: d stays finite.
enum { GOLDEN_BLOCKS = 1000 };

static const struct {
    enum tensor_type type;
    int half_byte;
    uint64_t hash;
} golden[] = {
    {TENSOR_IQ2_XXS, 1, 0xe9b40b1fd8c06d19}, {TENSOR_IQ2_XS, 1, 0x4d3190ddecf13a6a},
    {TENSOR_IQ2_S, 1, 0x0a711d18e01d9832},   {TENSOR_IQ3_XXS, 1, 0x88487fb83987e6c3},
    {TENSOR_IQ3_S, 1, 0xa49e01d346216bb4},   {TENSOR_IQ1_S, 1, 0x8a506be46bf8a6bd},
    {TENSOR_IQ1_M, 55, 0xb485ccfbbb0ed841},  {TENSOR_TQ1_0, 53, 0xbba9f6d73816d013},
    {TENSOR_TQ2_0, 65, 0x83593bce2f1c15b6},
};

TEST(random_blocks_widen_to_what_the_reference_gives)
{
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++) {
        const struct tensor_traits *traits = tensor_traits(golden[g].type);
        uint64_t hash = 0;
        uint32_t golden_state = 1;
        for (int n = 0; n < GOLDEN_BLOCKS; n++) {
            uint8_t block[BLOCK_BYTES_MAX];
            float items[ITEMS_MAX];
            for (uint32_t i = 0; i < traits->block_bytes; i++)
                block[i] = (uint8_t)((golden_state = golden_state * 1664525u + 1013904223u) >> 8);
            block[golden[g].half_byte] &= 0xBF;
            traits->dequantize(block, items, ITEMS_MAX);
            hash = hash_bytes(items, sizeof items, hash);
        }
        if (hash != golden[g].hash)
            fail_msg("%s: other floats than the reference's, hash %016llx", traits->name,
                     (unsigned long long)hash);
    }
}

TEST(several_blocks_widen_as_each_alone)
{
    for (uint32_t type = 0; type < TENSOR_TYPE_COUNT; type++) {
        const struct tensor_traits *traits = tensor_traits(type);
        if (!traits->dequantize)
            continue;
        uint8_t blocks[N_BLOCKS * BLOCK_BYTES_MAX];
        float together[N_BLOCKS * ITEMS_MAX], alone[ITEMS_MAX];
        random_state = 1;
        for (size_t i = 0; i < N_BLOCKS * traits->block_bytes; i++)
            blocks[i] = (uint8_t)random_below(&random_state, 256);
        traits->dequantize(blocks, together, (size_t)N_BLOCKS * traits->block_items);
        for (size_t n = 0; n < N_BLOCKS; n++) {
            traits->dequantize(blocks + n * traits->block_bytes, alone, traits->block_items);
            assert_memory_equal(alone, together + n * traits->block_items,
                                traits->block_items * sizeof *alone);
        }
    }
}

TEST(every_dequantizer_is_tested_here)
{
    for (uint32_t type = 0; type < TENSOR_TYPE_COUNT; type++) {
        bool packed = type == TENSOR_F32 || type == TENSOR_F16 || type == TENSOR_BF16;
        for (size_t p = 0; p < sizeof packers / sizeof *packers; p++)
            packed |= packers[p].type == type;
        for (size_t g = 0; g < sizeof golden / sizeof *golden; g++)
            packed |= golden[g].type == type;
        if (tensor_traits(type)->dequantize && !packed)
            fail_msg("%s has a dequantizer and no test", tensor_traits(type)->name);
    }
}

TEST(every_half_widens_exactly)
{
    for (unsigned half = 0; half < 65536; half++) {
        uint8_t bytes[2] = {(uint8_t)half, (uint8_t)(half >> 8)};
        int exponent = (int)(half >> 10 & 31);
        int mantissa = (int)(half & 1023);
        float got;
        dequantize_f16(bytes, &got, 1);
        assert_true(!!signbit(got) == half >> 15);
        if (exponent == 31) {
            assert_true(mantissa ? isnan(got) : isinf(got));
            continue;
        }
        float expected =
            exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
        assert_true(fabsf(got) == expected);
    }
}

TEST(floats_and_bfloats_widen_from_unaligned_bytes)
{
    const uint8_t bytes[] = {0, 0x00, 0x00, 0xC0, 0x3F, 0x20, 0xC1};
    float got[3];
    dequantize_f32(bytes + 1, got, 1);
    assert_true(got[0] == 1.5f);
    dequantize_bf16(bytes + 3, got, 2);
    assert_true(got[0] == 1.5f && got[1] == -10.0f);
    dequantize_bf16(bytes, got, 0);
}

TEST(mxfp4_scales_reach_both_ends)
{
    uint8_t block[17] = {0};
    float got[32];
    block[1] = 0x72; // items 0 and 16: 1 and 6
    static const struct {
        uint8_t exponent;
        float scale;
    } ends[] = {{0, 0x1p-127f}, {1, 0x1p-126f}, {2, 0x1p-125f}, {127, 1.0f}, {254, 0x1p127f}};
    for (size_t i = 0; i < 5; i++) {
        block[0] = ends[i].exponent;
        dequantize_mxfp4(block, got, 32);
        assert_true(got[0] == ends[i].scale);
        assert_true(got[16] == 6.0f * ends[i].scale || isinf(got[16]));
    }
}

TEST(e4m3_reaches_both_ends_and_has_a_nan)
{
    uint8_t block[36] = {0, 0, 0x80, 0x3F, 0x01, 0x07, 0x08, 0x7E, 0xFE, 0x80, 0x7F, 0xFF};
    float got[32];
    dequantize_f8_e4m3(block, got, 32);
    assert_true(got[0] == 0x1p-9f && got[1] == 7 * 0x1p-9f && got[2] == 0x1p-6f && got[3] == 448.0f);
    assert_true(got[4] == -448.0f && got[5] == 0.0f && signbit(got[5]) && isnan(got[6]) && isnan(got[7]));
}

TEST(nvfp4_scale_that_is_no_number_is_zero)
{
    uint8_t block[36] = {0x7F, 0x7E, 0x80, 0x01};
    float got[64];
    memset(block + 4, 0x22, 32); // all 1
    dequantize_nvfp4(block, got, 64);
    assert_true(got[0] == 0.0f && got[16] == 448.0f && got[32] == 0.0f && got[48] == 0x1p-9f);
}

// Items and bytes of a block, as GGUF files have them: a file's tensors are found by these alone.
TEST(blocks_have_the_format_s_sizes)
{
    static const struct {
        const char *name;
        uint32_t n_items, n_bytes;
    } sizes[] = {{"F32", 1, 4},        {"F16", 1, 2},       {"BF16", 1, 2},     {"F64", 1, 8},
                 {"I8", 1, 1},         {"I16", 1, 2},       {"I32", 1, 4},      {"I64", 1, 8},
                 {"Q4_0", 32, 18},     {"Q4_1", 32, 20},    {"Q5_0", 32, 22},   {"Q5_1", 32, 24},
                 {"Q8_0", 32, 34},     {"Q8_1", 32, 36},    {"Q2_K", 256, 84},  {"Q3_K", 256, 110},
                 {"Q4_K", 256, 144},   {"Q5_K", 256, 176},  {"Q6_K", 256, 210}, {"Q8_K", 256, 292},
                 {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74}, {"IQ2_S", 256, 82}, {"IQ3_XXS", 256, 98},
                 {"IQ3_S", 256, 110},  {"IQ1_S", 256, 50},  {"IQ1_M", 256, 56}, {"IQ4_NL", 32, 18},
                 {"IQ4_XS", 256, 136}, {"TQ1_0", 256, 54},  {"TQ2_0", 256, 66}, {"MXFP4", 32, 17},
                 {"NVFP4", 64, 36},    {"U4_32", 32, 19},   {"U4_64", 64, 35},  {"F8_E4M3", 32, 36}};
    size_t n_named = 0;
    for (uint32_t type = 0; type <= TENSOR_TYPE_COUNT; type++) {
        const struct tensor_traits *traits = tensor_traits(type);
        if (!traits->name)
            continue;
        size_t i = 0;
        while (i < sizeof sizes / sizeof *sizes && strcmp(sizes[i].name, traits->name) != 0)
            i++;
        assert_in_range(i, 0, sizeof sizes / sizeof *sizes - 1);
        assert_int_equal(traits->block_items, sizes[i].n_items);
        assert_int_equal(traits->block_bytes, sizes[i].n_bytes);
        n_named++;
    }
    assert_int_equal(n_named, sizeof sizes / sizeof *sizes);
}
