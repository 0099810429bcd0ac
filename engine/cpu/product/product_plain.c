// Products in plain C: the definition of product.h as code, against which the other versions are tested.
#include "engine/cpu/product/codebook.h"

#include "engine/file/dequantize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { HALF = PRODUCT_BLOCK / 2 };

// One unpacked block of a panel. In types with one scale per block, scales[1] stays 0.
struct unpacked_block {
    int16_t values[PANEL_OUTPUTS][PRODUCT_BLOCK];
    float scales[2][PANEL_OUTPUTS];
    float minima[2][PANEL_OUTPUTS]; // minima, multiplied by the sums of x
};

static float half_at(const uint8_t *halves, int index)
{
    uint16_t bits;
    memcpy(&bits, halves + 2 * index, 2);
    return half_to_float(bits);
}

static void unpack_nibbles(const uint8_t *plane, uint8_t quants[PANEL_OUTPUTS][PRODUCT_BLOCK])
{
    for (int o = 0; o < PANEL_OUTPUTS; o++) {
        for (int i = 0; i < HALF; i++) {
            uint8_t byte = plane[i / 4 * 64 + o * 4 + i % 4];
            quants[o][i] = byte & 15;
            quants[o][HALF + i] = byte >> 4;
        }
    }
}

static void unpack_bit(const uint8_t *plane, int shift, uint8_t quants[PANEL_OUTPUTS][PRODUCT_BLOCK])
{
    for (int o = 0; o < PANEL_OUTPUTS; o++)
        for (int i = 0; i < PRODUCT_BLOCK; i++)
            quants[o][i] |= (uint8_t)((plane[o * 4 + i % 4] >> (i / 4) & 1) << shift);
}

static void unpack_pairs(const uint8_t *plane, int shift, uint8_t quants[PANEL_OUTPUTS][PRODUCT_BLOCK])
{
    for (int o = 0; o < PANEL_OUTPUTS; o++)
        for (int i = 0; i < PRODUCT_BLOCK; i++)
            quants[o][i] |=
                (uint8_t)((plane[i / HALF * 64 + o * 4 + i % 4] >> (i % HALF / 4 * 2) & 3) << shift);
}

static void unpack_quants(enum tensor_type type, const uint8_t *planes,
                          uint8_t quants[PANEL_OUTPUTS][PRODUCT_BLOCK])
{
    memset(quants, 0, PANEL_OUTPUTS * PRODUCT_BLOCK);
    switch (type) {
    case TENSOR_Q8_0:
        for (int o = 0; o < PANEL_OUTPUTS; o++)
            for (int i = 0; i < PRODUCT_BLOCK; i++)
                quants[o][i] = planes[i / 4 * 64 + o * 4 + i % 4];
        break;
    case TENSOR_Q5_0:
    case TENSOR_Q5_1:
    case TENSOR_Q5_K:
        unpack_nibbles(planes, quants);
        unpack_bit(planes + 256, 4, quants);
        break;
    case TENSOR_Q6_K:
        unpack_nibbles(planes, quants);
        unpack_pairs(planes + 256, 4, quants);
        break;
    case TENSOR_Q3_K:
        unpack_pairs(planes, 0, quants);
        unpack_bit(planes + 128, 2, quants);
        break;
    case TENSOR_Q2_K:
    case TENSOR_TQ2_0:
        unpack_pairs(planes, 0, quants);
        break;
    default:
        unpack_nibbles(planes, quants);
        break;
    }
}

// Unpacks the scales of block `b`. `group` is the address of the scales of its group.
static void unpack_scales(enum tensor_type type, const uint8_t *group, int b, struct unpacked_block *block)
{
    for (int o = 0; o < PANEL_OUTPUTS; o++) {
        float d = half_at(group, o);
        switch (type) {
        case TENSOR_Q4_1:
        case TENSOR_Q5_1:
            block->scales[0][o] = d;
            block->minima[0][o] = half_at(group + 32, o);
            break;
        case TENSOR_U4_32:
        case TENSOR_U4_64:
            block->scales[0][o] = d;
            block->minima[0][o] = -(d * (float)group[32 + o]);
            break;
        case TENSOR_Q4_K:
        case TENSOR_Q5_K:
            block->scales[0][o] = d * (float)group[64 + b * 32 + o];
            block->minima[0][o] = -(half_at(group + 32, o) * (float)group[64 + b * 32 + 16 + o]);
            break;
        case TENSOR_Q3_K:
        case TENSOR_Q6_K:
            for (int h = 0; h < 2; h++)
                block->scales[h][o] = d * (float)(int8_t)group[32 + b * 32 + h * 16 + o];
            break;
        case TENSOR_Q2_K:
            for (int h = 0; h < 2; h++) {
                uint8_t both = group[64 + b * 32 + h * 16 + o];
                block->scales[h][o] = d * (float)(both & 15);
                block->minima[h][o] = -(half_at(group + 32, o) * (float)(both >> 4));
            }
            break;
        case TENSOR_IQ4_XS:
            block->scales[0][o] = d * (float)(int8_t)group[32 + b * 16 + o];
            break;
        case TENSOR_NVFP4:
            for (int h = 0; h < 2; h++)
                block->scales[h][o] = half_to_float(packed_ue4m3_half(group[16 * h + o])) * 0x1p7f;
            break;
        case TENSOR_MXFP4:
            block->scales[0][o] = packed_e8m0_half(group[o]);
            break;
        default:
            block->scales[0][o] = d;
            break;
        }
    }
}

static void unpack_block(const struct packed *weight, int32_t panel, int32_t b, struct unpacked_block *block)
{
    const struct packed_format format = packed_format(weight->shape.type);
    uint8_t quants[PANEL_OUTPUTS][PRODUCT_BLOCK];
    unpack_quants(weight->shape.type, packed_quants(weight, panel) + (int64_t)b * format.block_quant_bytes,
                  quants);
    for (int o = 0; o < PANEL_OUTPUTS; o++)
        for (int i = 0; i < PRODUCT_BLOCK; i++)
            block->values[o][i] =
                (int16_t)(format.values ? format.values[quants[o][i]] : quants[o][i] - format.offset);
    const uint8_t *scales = packed_scales(weight, panel);
    unpack_scales(weight->shape.type, scales + (int64_t)(b / format.group_blocks) * format.group_scale_bytes,
                  b % format.group_blocks, block);
}

static int32_t dot_half(const int16_t values[HALF], const int8_t quants[HALF])
{
    int32_t sum = 0;
    for (int i = 0; i < HALF; i++)
        sum += values[i] * quants[i];
    return sum;
}

// Adds one block for one row and output (product.h).
static float block_add(float acc, enum packed_kind kind, const struct unpacked_block *block, int o,
                       const struct prepared_block *x, int lane)
{
    int32_t dot_0 = dot_half(block->values[o], x->quants[lane]);
    int32_t dot_1 = dot_half(block->values[o] + HALF, x->quants[lane] + HALF);
    float t;
    if (kind == PACKED_HALVES || kind == PACKED_HALVES_MINIMUM)
        t = fmaf((float)dot_1, block->scales[1][o], (float)dot_0 * block->scales[0][o]);
    else
        t = (float)(dot_0 + dot_1) * block->scales[0][o];
    if (kind == PACKED_MINIMUM)
        t = fmaf(block->minima[0][o], (float)-x->minus_sums[lane], t);
    if (kind == PACKED_HALVES_MINIMUM) {
        t = fmaf(block->minima[0][o], (float)-x->minus_half_sums[0][lane], t);
        t = fmaf(block->minima[1][o], (float)-x->minus_half_sums[1][lane], t);
    }
    return fmaf(t, x->scales[lane], acc);
}

static void store_panel(const struct packed *weight, int32_t panel, const float acc[PANEL_OUTPUTS], float *y,
                        const float *bias)
{
    for (int o = 0; o < PANEL_OUTPUTS && panel * PANEL_OUTPUTS + o < weight->shape.n_outputs; o++) {
        int32_t output = panel * PANEL_OUTPUTS + o;
        y[output] = bias ? acc[o] + bias[output] : acc[o];
    }
}

static void product_quants(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                           const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                           int64_t y_stride, const float *bias)
{
    enum { ROWS = 16 }; // rows that share the unpacking of a block
    enum packed_kind kind = packed_format(weight->shape.type).kind;
    int64_t n_blocks = x->n_blocks;
    struct unpacked_block block = {0};
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        for (int32_t first = row_begin; first < row_end; first += ROWS) {
            int32_t n = row_end - first < ROWS ? row_end - first : ROWS;
            float acc[ROWS][PANEL_OUTPUTS] = {0};
            for (int32_t b = 0; b < n_blocks; b++) {
                unpack_block(weight, panel, b, &block);
                for (int32_t r = 0; r < n; r++) {
                    const struct prepared_block *at = x->blocks + (first + r) / PREPARED_ROWS * n_blocks + b;
                    for (int o = 0; o < PANEL_OUTPUTS; o++)
                        acc[r][o] = block_add(acc[r][o], kind, &block, o, at, (first + r) % PREPARED_ROWS);
                }
            }
            for (int32_t r = 0; r < n; r++)
                store_panel(weight, panel, acc[r], y + (first + r) * y_stride, bias);
        }
    }
}

// Returns the items of one row, which are PREPARED_ROWS apart.
static const float *row_floats(const struct prepared *x, int32_t row)
{
    return x->floats + (int64_t)(row / PREPARED_ROWS) * x->n_blocks * PRODUCT_BLOCK * PREPARED_ROWS +
           row % PREPARED_ROWS;
}

static void product_f32(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                        const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                        int64_t y_stride, const float *bias)
{
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        const float *weights = (const float *)(const void *)packed_quants(weight, panel);
        for (int32_t r = row_begin; r < row_end; r++) {
            const float *items = row_floats(x, r);
            float acc[PANEL_OUTPUTS] = {0};
            for (int32_t i = 0; i < weight->shape.n_inputs; i++)
                for (int o = 0; o < PANEL_OUTPUTS; o++)
                    acc[o] = fmaf(weights[(int64_t)i * PANEL_OUTPUTS + o], items[(int64_t)i * PREPARED_ROWS],
                                  acc[o]);
            store_panel(weight, panel, acc, y + r * y_stride, bias);
        }
    }
}

static void product_f16(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                        const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                        int64_t y_stride, const float *bias)
{
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        const uint8_t *weights = packed_quants(weight, panel);
        for (int32_t r = row_begin; r < row_end; r++) {
            const float *items = row_floats(x, r);
            float acc[PANEL_OUTPUTS] = {0};
            for (int32_t i = 0; i < weight->shape.n_inputs; i++)
                for (int o = 0; o < PANEL_OUTPUTS; o++)
                    acc[o] = fmaf(half_at(weights + (int64_t)i * 32, o), items[(int64_t)i * PREPARED_ROWS],
                                  acc[o]);
            store_panel(weight, panel, acc, y + r * y_stride, bias);
        }
    }
}

static void product_f8_e4m3(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                            const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                            int64_t y_stride, const float *bias)
{
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        const uint8_t *weights = packed_quants(weight, panel), *scales = packed_scales(weight, panel);
        for (int32_t r = row_begin; r < row_end; r++) {
            const float *items = row_floats(x, r);
            float acc[PANEL_OUTPUTS] = {0};
            for (int32_t i = 0; i < weight->shape.n_inputs; i++) {
                float d[PANEL_OUTPUTS];
                memcpy(d, scales + i / PRODUCT_BLOCK * 64, sizeof d);
                for (int o = 0; o < PANEL_OUTPUTS; o++)
                    acc[o] =
                        fmaf(half_to_float(packed_e4m3_half(weights[(int64_t)i * PANEL_OUTPUTS + o])) * d[o],
                             items[(int64_t)i * PREPARED_ROWS], acc[o]);
            }
            store_panel(weight, panel, acc, y + r * y_stride, bias);
        }
    }
}

static float flush_subnormal(float value)
{
    return fabsf(value) < 0x1p-126f ? copysignf(0.0f, value) : value;
}

static float bfloat_flushed(uint16_t bits)
{
    return flush_subnormal(bfloat_to_float(bits));
}

// Adds a pair of inputs: the upper halves of the words first, then the lower halves.
static float pair_add(float acc, uint32_t weights, uint32_t items)
{
    acc = flush_subnormal(
        fmaf(bfloat_flushed((uint16_t)(weights >> 16)), bfloat_flushed((uint16_t)(items >> 16)), acc));
    return flush_subnormal(fmaf(bfloat_flushed((uint16_t)weights), bfloat_flushed((uint16_t)items), acc));
}

static void product_bf16(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                         const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                         int64_t y_stride, const float *bias)
{
    int32_t n_pairs = (weight->shape.n_inputs + 1) / 2;
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        const uint8_t *words = packed_quants(weight, panel);
        for (int32_t r = row_begin; r < row_end; r++) {
            const uint32_t *pairs = x->bfloats +
                                    (int64_t)(r / PREPARED_ROWS) * x->n_blocks * HALF * PREPARED_ROWS +
                                    r % PREPARED_ROWS;
            float acc[PANEL_OUTPUTS] = {0};
            for (int32_t k = 0; k < n_pairs; k++) {
                uint32_t weights[PANEL_OUTPUTS];
                memcpy(weights, words + (int64_t)k * 64, sizeof weights);
                for (int o = 0; o < PANEL_OUTPUTS; o++)
                    acc[o] = pair_add(acc[o], weights[o], pairs[(int64_t)k * PREPARED_ROWS]);
            }
            store_panel(weight, panel, acc, y + r * y_stride, bias);
        }
    }
}

// Returns the bits of the absolute maximum. The order of the bits is the order of the numbers; infinity and
// NaN are largest.
static uint32_t maximum_bits(const float *x, int32_t n)
{
    uint32_t maximum = 0;
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7FFFFFFFu;
        maximum = bits > maximum ? bits : maximum;
    }
    return maximum;
}

static void quantize_block(const float *x, int32_t n, int lane, struct prepared_block *block)
{
    int8_t *quants = block->quants[lane];
    uint32_t bits = maximum_bits(x, n);
    float maximum;
    memcpy(&maximum, &bits, 4);
    memset(quants, 0, PRODUCT_BLOCK);
    block->scales[lane] = bits >= 0x7F800000u ? NAN : 0;
    if (bits < 0x7F800000u && maximum >= PRODUCT_SMALLEST) {
        float inverse = 127.0f / maximum;
        block->scales[lane] = maximum / 127.0f;
        for (int32_t i = 0; i < n; i++)
            quants[i] = (int8_t)rintf(x[i] * inverse);
    }
    for (int h = 0; h < 2; h++) {
        int32_t sum = 0;
        for (int i = 0; i < HALF; i++)
            sum += quants[h * HALF + i];
        block->minus_half_sums[h][lane] = -sum;
    }
    block->minus_sums[lane] = block->minus_half_sums[0][lane] + block->minus_half_sums[1][lane];
}

static void quantize_matrix(const float *x, int64_t stride, int32_t n_rows, int32_t n,
                            struct prepared_block *blocks)
{
    for (int32_t first = 0; first < n; first += PRODUCT_BLOCK, blocks++)
        for (int r = 0; r < n_rows; r++)
            quantize_block(x + r * stride + first, n - first < PRODUCT_BLOCK ? n - first : PRODUCT_BLOCK, r,
                           blocks);
}

static uint16_t bfloat_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40); // stays a NaN
    if ((bits & 0x7F800000u) == 0)
        return (uint16_t)(bits >> 16 & 0x8000u); // subnormals are zero
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

static void round_bfloats(const float *x, int32_t n, int lane, uint32_t *bfloats)
{
    for (int32_t i = 0; i < (n + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK * PRODUCT_BLOCK; i += 2) {
        uint32_t first = i < n ? bfloat_round(x[i]) : 0;
        uint32_t second = i + 1 < n ? bfloat_round(x[i + 1]) : 0;
        bfloats[(int64_t)i / 2 * PREPARED_ROWS + lane] = first << 16 | second;
    }
}

void product_kernels_plain(struct product_kernels *kernels)
{
    memset(kernels, 0, sizeof *kernels);
    kernels->quantize = quantize_matrix;
    kernels->round_bfloats = round_bfloats;
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (packed_format((enum tensor_type)type).form == PRODUCT_QUANTS)
            kernels->product[type] = product_quants;
    codebook_kernels_plain(kernels);
    kernels->product[TENSOR_F32] = product_f32;
    kernels->product[TENSOR_F16] = product_f16;
    kernels->product[TENSOR_BF16] = product_bf16;
    kernels->product[TENSOR_F8_E4M3] = product_f8_e4m3;
}
