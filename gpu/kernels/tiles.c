#include "gpu/kernels/tiles.h"

#include "gpu/kernels/tensor_matrix.h"

#include "engine/file/dequantize.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 32, TILE_INPUTS_MAX = 256, HALF_LARGEST = 65504 };

// Up to 256 inputs of one output, unpacked from the file's blocks.
struct row_piece {
    uint8_t quants[TILE_INPUTS_MAX];  // quantized types
    uint16_t items[TILE_INPUTS_MAX];  // F16, BF16: bits of the items
    uint16_t d[TILE_INPUTS_MAX / 32]; // binary16: Q4_0, Q8_0 one per block; K-quants d[0] = d, d[1] = dmin
    uint8_t scales[16], minima[8];    // K-quants; NVFP4: scales
};

static uint16_t load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static float load_half(const uint8_t *bytes)
{
    return half_to_float(load_u16(bytes));
}

// ---- type of the tiles ----

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Range of exponents for which binary16 can hold the scale of MXFP4. For doubled values the scale is 2^(e -
// 128); it must be from 2^-24 to 2^12, so that 12 times it does not overflow.
enum { E8M0_LEAST = 104, E8M0_MOST = 140 };

// Upper bound of the absolute values of a block's items and scales. Infinite or NaN: they have no
// representation.
static float block_bound(enum tensor_type type, const uint8_t *block)
{
    switch (type) {
    case TENSOR_Q4_0:
        return fabsf(load_half(block)) * 8;
    case TENSOR_Q5_0:
        return fabsf(load_half(block)) * 16;
    case TENSOR_Q8_0:
    case TENSOR_IQ4_NL:
    case TENSOR_U4_32:
    case TENSOR_U4_64:
        return fabsf(load_half(block)) * 128;
    case TENSOR_MXFP4:
        return block[0] >= E8M0_LEAST && block[0] <= E8M0_MOST ? 0 : INFINITY;
    case TENSOR_Q4_K:
        return fabsf(load_half(block)) * (63 * 15) + fabsf(load_half(block + 2)) * 63;
    case TENSOR_Q5_K:
        return fabsf(load_half(block)) * (63 * 31) + fabsf(load_half(block + 2)) * 63;
    case TENSOR_Q6_K:
        return fabsf(load_half(block + 208)) * (128 * 32);
    case TENSOR_Q3_K:
        return fabsf(load_half(block + 108)) * (32 * 4);
    case TENSOR_NVFP4:
        return 6 * 480;
    default:
        return INFINITY;
    }
}

static enum tensor_type type_of_equal_items(enum tensor_type type)
{
    switch (type) {
    case TENSOR_Q5_0:
    case TENSOR_IQ4_NL:
    case TENSOR_MXFP4:
    case TENSOR_U4_32:
    case TENSOR_U4_64:
        return TENSOR_Q8_0;
    case TENSOR_F8_E4M3:
        return TENSOR_F32;
    case TENSOR_Q3_K:
        return TENSOR_Q6_K;
    default:
        return tile_format(type).n_groups > 0 || type == TENSOR_F32 ? type : TENSOR_F16;
    }
}

static bool fits_half(const struct tensor *matrix, const struct tensor_traits *traits, uint64_t n_blocks)
{
    float items[TILE_INPUTS_MAX];
    const uint8_t *block = matrix->data;
    for (uint64_t i = 0; i < n_blocks; i++, block += traits->block_bytes) {
        traits->dequantize(block, items, traits->block_items);
        for (uint32_t j = 0; j < traits->block_items; j++)
            if (!(fabsf(items[j]) <= HALF_LARGEST))
                return false;
    }
    return true;
}

static bool blocks_fit_half(const struct tensor *matrix, const struct tensor_traits *traits,
                            uint64_t n_blocks)
{
    const uint8_t *block = matrix->data;
    for (uint64_t i = 0; i < n_blocks; i++, block += traits->block_bytes)
        if (!(block_bound(matrix->type, block) <= HALF_LARGEST))
            return false;
    return true;
}

// Whether all matrices fit, by `fits`. A tensor without data (size 0) does.
static bool all_fit(const struct tensor *tensor, const struct tensor_traits *traits,
                    bool (*fits)(const struct tensor *matrix, const struct tensor_traits *traits,
                                 uint64_t n_blocks))
{
    uint64_t n_matrices = tensor->dims[2] * tensor->dims[3],
             n_blocks = tensor->size_bytes / traits->block_bytes / n_matrices;
    for (uint64_t i = 0; i < n_matrices && n_blocks > 0; i++) {
        const struct tensor matrix = tensor_matrix(tensor, i);
        if (!fits(&matrix, traits, n_blocks))
            return false;
    }
    return true;
}

enum tensor_type tiles_type(const struct tensor *tensor)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    if (!traits->name || !traits->dequantize)
        return TENSOR_TYPE_COUNT;
    enum tensor_type type = type_of_equal_items(tensor->type);
    if (type == TENSOR_F32 || tensor->type == TENSOR_F16 || type == TENSOR_BF16)
        return type;
    if (type == TENSOR_F16)
        return all_fit(tensor, traits, fits_half) ? TENSOR_F16 : TENSOR_BF16;
    return all_fit(tensor, traits, blocks_fit_half) ? type : TENSOR_BF16; // items of MXFP4 always fit
}

int64_t tiles_panels(int64_t n_outputs)
{
    return (n_outputs + TILE_OUTPUTS - 1) / TILE_OUTPUTS;
}

static int64_t panel_tiles(struct tile_format format, int64_t n_inputs)
{
    int64_t tile_inputs = (int64_t)format.n_groups * GROUP_INPUTS;
    return (n_inputs + tile_inputs - 1) / tile_inputs;
}

uint64_t tiles_bytes(enum tensor_type type, int64_t n_outputs, int64_t n_inputs)
{
    if (type == TENSOR_F32)
        return (uint64_t)n_outputs * (((uint64_t)n_inputs + 3) / 4) * 16;
    struct tile_format format = tile_format(type);
    assert(format.n_groups > 0);
    return (uint64_t)tiles_panels(n_outputs) * (uint64_t)panel_tiles(format, n_inputs) *
           (uint64_t)tile_bytes(format);
}

// ---- unpacking blocks: layouts in engine/file/dequantize.c ----

static void take_32(struct row_piece *piece, int index, enum tensor_type type, const uint8_t *block)
{
    uint8_t *quants = piece->quants + 32 * index;
    uint32_t high = 0;
    const uint8_t *nibbles = block + 2;
    piece->d[index] = load_u16(block);
    if (type == TENSOR_Q8_0) {
        for (int j = 0; j < 32; j++)
            quants[j] = (uint8_t)(block[2 + j] + 128);
        return;
    }
    if (type == TENSOR_Q5_0) {
        high = (uint32_t)load_u16(block + 2) | (uint32_t)load_u16(block + 4) << 16;
        nibbles = block + 6;
    } else if (type == TENSOR_MXFP4) {
        int exponent = block[0] - 128; // exponent of 2; the result is a normal binary16 from -14 on
        piece->d[index] = (uint16_t)(exponent >= -14 ? (exponent + 15) << 10 : 1 << (exponent + 24));
        nibbles = block + 1;
    }
    for (int j = 0; j < 32; j++) {
        uint8_t nibble = j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4;
        quants[j] = type == TENSOR_Q4_0     ? nibble
                    : type == TENSOR_Q5_0   ? (uint8_t)(128 - 16 + (nibble | (high >> j & 1) << 4))
                    : type == TENSOR_IQ4_NL ? (uint8_t)(128 + iq4_values[nibble])
                                            : (uint8_t)(128 + e2m1_doubled[nibble]);
    }
}

// Unpacks item j of a run of 32 of a U4 block: its quant minus the zero point, which is below 16 in
// quantizers' files.
static void take_u4(struct row_piece *piece, int index, const uint8_t *block, const uint8_t *nibbles)
{
    piece->d[index] = load_u16(block);
    for (int j = 0; j < 16; j++) {
        piece->quants[32 * index + j] = (uint8_t)(128 + (nibbles[j] & 15) - block[2]);
        piece->quants[32 * index + 16 + j] = (uint8_t)(128 + (nibbles[j] >> 4) - block[2]);
    }
}

// Unpacks 64 items. A scale of 0x7F is 0, and the upper bit of others is ignored (engine/file/dequantize.c).
static void take_nvfp4(struct row_piece *piece, int index, const uint8_t *block)
{
    for (int run = 0; run < 4; run++) {
        uint8_t *quants = piece->quants + 64 * index + 16 * run;
        piece->scales[4 * index + run] = block[run] == 0x7F ? 0 : block[run] & 0x7F;
        for (int j = 0; j < 8; j++) {
            quants[j] = block[4 + 8 * run + j] & 15;
            quants[8 + j] = block[4 + 8 * run + j] >> 4;
        }
    }
}

static void take_q4_k_or_q5_k(struct row_piece *piece, bool five_bits, const uint8_t *block)
{
    piece->d[0] = load_u16(block);
    piece->d[1] = load_u16(block + 2);
    for (unsigned sub = 0; sub < 8; sub++) {
        const uint8_t *low = block + (five_bits ? 48 : 16) + sub / 2 * 32;
        k_scale_and_minimum(block + 4, sub, &piece->scales[sub], &piece->minima[sub]);
        for (unsigned j = 0; j < 32; j++)
            piece->quants[sub * 32 + j] =
                (uint8_t)((low[j] >> (sub % 2 * 4) & 15) | (five_bits ? (block[16 + j] >> sub & 1) << 4 : 0));
    }
}

static void take_q6_k(struct row_piece *piece, const uint8_t *block)
{
    piece->d[0] = load_u16(block + 208);
    for (int i = 0; i < 16; i++)
        piece->scales[i] = (uint8_t)(block[192 + i] + 128);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, run = i % 128 / 32, j = i % 32;
        int low = block[half * 64 + run % 2 * 32 + j] >> (run / 2 * 4) & 15;
        piece->quants[i] = (uint8_t)(low | (block[128 + half * 32 + j] >> (run * 2) & 3) << 4);
    }
}

static void take_q3_k(struct row_piece *piece, const uint8_t *block)
{
    const uint8_t *packed = block + 96;
    piece->d[0] = load_u16(block + 108);
    for (int i = 0; i < 16; i++) {
        int low = packed[i % 8] >> (i >= 8 ? 4 : 0) & 15, high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        piece->scales[i] = (uint8_t)((low | high << 4) - 32 + 128);
    }
    for (int i = 0; i < 256; i++) {
        int group = i / 16, byte = group % 2 * 16 + i % 16;
        int q = block[32 + group / 8 * 32 + byte] >> (group % 8 / 2 * 2) & 3;
        piece->quants[i] = (uint8_t)(32 + q - (block[byte] >> (group / 2) & 1 ? 0 : 4));
    }
}

// Rounds an item of a type that has no tile format and was dequantized first. fits_half excludes values
// beyond the largest binary16.
static uint16_t round_to_half(float item)
{
    uint32_t bits;
    memcpy(&bits, &item, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    float magnitude = fabsf(item);
    // The bits of a subnormal count units of 2^-24; adding 2^23 rounds to nearest even.
    if (magnitude < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)(magnitude * 0x1p24f + 0x1p23f - 0x1p23f));
    bits &= 0x7FFFFFFFu;
    bits += 0xFFFu + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
}

static uint16_t round_to_bfloat(float item)
{
    uint32_t bits;
    memcpy(&bits, &item, 4);
    if (isnan(item))
        return 0x7FFF;
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

// Unpacks items. `skipped` is the index of the first item within its block, because float tiles are shorter
// than some blocks.
static void take_items(struct row_piece *piece, enum tensor_type type, const struct tensor *tensor,
                       const uint8_t *at, int skipped, int n)
{
    if (tensor->type == type) {
        for (int i = 0; i < n; i++)
            piece->items[i] = load_u16(at + 2 * i);
        return;
    }
    float items[TILE_INPUTS_MAX];
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    uint32_t n_blocks = ((uint32_t)(skipped + n) + traits->block_items - 1) / traits->block_items;
    traits->dequantize(at, items, n_blocks * traits->block_items);
    for (int i = 0; i < n; i++)
        piece->items[i] =
            type == TENSOR_F16 ? round_to_half(items[skipped + i]) : round_to_bfloat(items[skipped + i]);
}

// Unpacks inputs [first, first + n) of one row. n is at most the inputs of a tile; the rest of the tile is 0.
static void take_row(struct row_piece *piece, enum tensor_type type, const struct tensor *tensor,
                     uint64_t row, int64_t first, int n)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    const uint8_t *at = (const uint8_t *)tensor->data + row * tensor_row_bytes(tensor) +
                        (uint64_t)first / traits->block_items * traits->block_bytes;
    if (type == TENSOR_F16 || type == TENSOR_BF16)
        take_items(piece, type, tensor, at, (int)(first % traits->block_items), n);
    else if (tensor->type == TENSOR_Q4_K || tensor->type == TENSOR_Q5_K)
        take_q4_k_or_q5_k(piece, tensor->type == TENSOR_Q5_K, at);
    else if (tensor->type == TENSOR_Q6_K)
        take_q6_k(piece, at);
    else if (tensor->type == TENSOR_Q3_K)
        take_q3_k(piece, at);
    else if (tensor->type == TENSOR_U4_32 || tensor->type == TENSOR_U4_64)
        for (int i = 0; i < n / 32; i++) {
            int runs = (int)traits->block_items / 32;
            const uint8_t *block = at + i / runs * (int)traits->block_bytes;
            take_u4(piece, i, block, block + 3 + i % runs * 16);
        }
    else if (tensor->type == TENSOR_NVFP4)
        for (int i = 0; i < n / 64; i++)
            take_nvfp4(piece, i, at + i * (int)traits->block_bytes);
    else
        for (int i = 0; i < n / 32; i++)
            take_32(piece, i, tensor->type, at + i * (int)traits->block_bytes);
}

// ---- packing tiles ----

static void put_u16(uint8_t *at, uint16_t bits)
{
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
}

static void or_u32(uint8_t *at, uint32_t bits) // little-endian
{
    uint32_t word;
    memcpy(&word, at, 4);
    word |= bits;
    memcpy(at, &word, 4);
}

// Writes a quant to the planes of its group: half `half` of register i of fragment f, of lane `lane`.
static void put_quant(uint8_t *quants, uint8_t *high, enum tensor_type type, int lane, int f, int i, int half,
                      unsigned quant)
{
    if (type == TENSOR_Q8_0) {
        int word = 2 * f + i / 2;
        quants[(word / 4 * LANES + lane) * 16 + word % 4 * 4 + i % 2 * 2 + half] = (uint8_t)quant;
        return;
    }
    or_u32(quants + (f / 4 * LANES + lane) * 16 + f % 4 * 4, (quant & 15) << (16 * half + 4 * i));
    if (type == TENSOR_Q5_K)
        or_u32(high + lane * 8 + f / 4 * 4, (quant >> 4) << (16 * half + f % 4 * 4 + i));
    if (type == TENSOR_Q6_K)
        or_u32(high + lane * 16 + f / 2 * 4, (quant >> 4) << (16 * half + 2 * (f % 2 * 4 + i)));
}

static void put_scales(uint8_t *scales, enum tensor_type type, const struct row_piece rows[TILE_OUTPUTS])
{
    for (int lane = 0; lane < LANES; lane++) {
        const struct row_piece *row[2] = {&rows[lane / 4], &rows[lane / 4 + 8]};
        int t = lane % 4;
        uint64_t bits = 0;
        for (int i = 0; i < 2; i++) {
            if (type == TENSOR_Q4_0 || type == TENSOR_Q8_0)
                put_u16(scales + 4 * lane + 2 * i, row[i]->d[t]);
            if (type == TENSOR_NVFP4)
                memcpy(scales + 4 * lane + 2 * i, row[i]->scales + 2 * t, 2);
            for (int group = 0; group < 2 && type == TENSOR_Q6_K; group++)
                memcpy(scales + 128 * group + 4 * lane + 2 * i, row[i]->scales + 8 * group + 2 * t, 2);
            for (int group = 0; group < 2 && (type == TENSOR_Q4_K || type == TENSOR_Q5_K); group++) {
                bits |= (uint64_t)row[i]->scales[4 * group + t] << (24 * group + 6 * i);
                bits |= (uint64_t)row[i]->minima[4 * group + t] << (24 * group + 12 + 6 * i);
            }
            if (type == TENSOR_Q6_K)
                put_u16(scales + 256 + lane / 4 * 4 + 2 * i, row[i]->d[0]);
            if (type == TENSOR_Q4_K || type == TENSOR_Q5_K) {
                put_u16(scales + 192 + lane / 4 * 8 + 4 * i, row[i]->d[0]);
                put_u16(scales + 192 + lane / 4 * 8 + 4 * i + 2, row[i]->d[1]);
            }
        }
        if (type == TENSOR_Q4_K || type == TENSOR_Q5_K) {
            or_u32(scales + 4 * lane, (uint32_t)bits);
            put_u16(scales + 128 + 2 * lane, (uint16_t)(bits >> 32));
        }
    }
}

static void put_tile(uint8_t *tile, enum tensor_type type, const struct row_piece rows[TILE_OUTPUTS])
{
    struct tile_format format = tile_format(type);
    memset(tile, 0, (size_t)tile_bytes(format));
    for (int group = 0; group < format.n_groups; group++) {
        uint8_t *quants = tile + group * format.quants_bytes;
        uint8_t *high = tile + format.n_groups * format.quants_bytes + group * format.high_bytes;
        for (int row = 0; row < TILE_OUTPUTS; row++)
            for (int input = 0; input < GROUP_INPUTS; input++) {
                int lane = row % 8 * 4 + input / 32, f = input % 32 / 4, e = input % 4;
                int i = row / 8 + e / 2 * 2; // the register
                int index = group * GROUP_INPUTS + input;
                if (format.scales_bytes > 0)
                    put_quant(quants, high, type, lane, f, i, e % 2, rows[row].quants[index]);
                else
                    put_u16(quants + (f * LANES + lane) * 16 + i * 4 + e % 2 * 2, rows[row].items[index]);
            }
    }
    if (format.scales_bytes > 0)
        put_scales(tile + format.n_groups * (format.quants_bytes + format.high_bytes), type, rows);
}

static void pack_float_rows(float *out, const struct tensor *tensor, uint64_t first_row, int64_t begin,
                            int64_t end)
{
    uint64_t n_inputs = tensor->dims[0], stride = (n_inputs + 3) / 4 * 4;
    for (int64_t row = begin; row < end; row++) {
        float *items = out + (uint64_t)row * stride;
        memset(items, 0, stride * sizeof *items);
        tensor_traits(tensor->type)
            ->dequantize((const uint8_t *)tensor->data +
                             (first_row + (uint64_t)row) * tensor_row_bytes(tensor),
                         items, n_inputs);
    }
}

void tiles_pack(void *out, enum tensor_type type, const struct tensor *tensor, int64_t matrix, int64_t begin,
                int64_t end)
{
    int64_t n_outputs = (int64_t)tensor->dims[1], n_inputs = (int64_t)tensor->dims[0];
    uint64_t first_row = (uint64_t)(matrix * n_outputs);
    assert(begin >= 0 && end <= tiles_panels(n_outputs));
    if (type == TENSOR_F32) {
        int64_t last = end * TILE_OUTPUTS < n_outputs ? end * TILE_OUTPUTS : n_outputs;
        pack_float_rows(out, tensor, first_row, begin * TILE_OUTPUTS, last);
        return;
    }
    struct tile_format format = tile_format(type);
    int tile_inputs = format.n_groups * GROUP_INPUTS;
    int64_t n_tiles = panel_tiles(format, n_inputs);
    for (int64_t panel = begin; panel < end; panel++)
        for (int64_t i = 0; i < n_tiles; i++) {
            struct row_piece rows[TILE_OUTPUTS];
            memset(rows, 0, sizeof rows);
            int64_t left = n_inputs - i * tile_inputs;
            for (int64_t j = 0; j < TILE_OUTPUTS && panel * TILE_OUTPUTS + j < n_outputs; j++)
                take_row(&rows[j], type, tensor, first_row + (uint64_t)(panel * TILE_OUTPUTS + j),
                         i * tile_inputs, left < tile_inputs ? (int)left : tile_inputs);
            put_tile((uint8_t *)out + (panel * n_tiles + i) * tile_bytes(format), type, rows);
        }
}
