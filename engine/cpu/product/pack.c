// Packed weights: their memory, and the packers of the float types and of types with blocks of 32.
// engine/file/dequantize.c describes the file layouts, packed.h the packed layout.
#include "engine/cpu/product/packed.h"

#include "engine/cpu/product/memory.h"
#include "engine/file/mapped_file.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const int8_t packed_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
const int8_t packed_e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// A block of 32 in the file: its size, and the byte offsets of its parts; 0 means that the type has no such
// part. The scale is at offset 0.
struct file_block {
    int bytes, minimum, high_bits, nibbles;
};

static void pack_nibbles32(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                           uint8_t *quants, struct file_block layout)
{
    int scale_bytes = layout.minimum ? 64 : 32;
    int quant_bytes = layout.high_bits ? 320 : 256;
    for (int32_t b = 0; b < n_inputs / PRODUCT_BLOCK; b++, scales += scale_bytes, quants += quant_bytes) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *block = rows[o] + (size_t)b * (size_t)layout.bytes;
            packed_put_scale(scales, o, block);
            if (layout.minimum)
                memcpy(scales + 32 + 2 * o, block + layout.minimum, 2);
            packed_copy_nibbles(quants, o, block + layout.nibbles);
            if (!layout.high_bits)
                continue;
            uint8_t q[PRODUCT_BLOCK];
            for (int i = 0; i < PRODUCT_BLOCK; i++)
                q[i] = block[layout.high_bits + i / 8] >> (i % 8) & 1;
            packed_put_bit(quants + 256, o, q, 0);
        }
    }
}

static void pack_q4_0(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                      uint8_t *quants)
{
    pack_nibbles32(rows, n_inputs, scales, quants, (struct file_block){.bytes = 18, .nibbles = 2});
}

static void pack_q4_1(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                      uint8_t *quants)
{
    pack_nibbles32(rows, n_inputs, scales, quants,
                   (struct file_block){.bytes = 20, .minimum = 2, .nibbles = 4});
}

static void pack_q5_0(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                      uint8_t *quants)
{
    pack_nibbles32(rows, n_inputs, scales, quants,
                   (struct file_block){.bytes = 22, .high_bits = 2, .nibbles = 6});
}

static void pack_q5_1(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                      uint8_t *quants)
{
    pack_nibbles32(rows, n_inputs, scales, quants,
                   (struct file_block){.bytes = 24, .minimum = 2, .high_bits = 4, .nibbles = 8});
}

static void pack_q8_0(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                      uint8_t *quants)
{
    for (int32_t b = 0; b < n_inputs / PRODUCT_BLOCK; b++, scales += 32, quants += 512) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *block = rows[o] + (size_t)b * 34;
            packed_put_scale(scales, o, block);
            uint8_t q[PRODUCT_BLOCK];
            for (int i = 0; i < PRODUCT_BLOCK; i++)
                q[i] = block[2 + i] ^ 0x80; // + 128
            packed_put_bytes(quants, o, q);
        }
    }
}

static void pack_mxfp4(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                       uint8_t *quants)
{
    for (int32_t b = 0; b < n_inputs / PRODUCT_BLOCK; b++, scales += 16, quants += 256) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *block = rows[o] + (size_t)b * 17;
            scales[o] = block[0] < PACKED_E8M0_MAX ? block[0] : PACKED_E8M0_MAX;
            packed_copy_nibbles(quants, o, block + 1);
        }
    }
}

static void pack_nvfp4(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                       uint8_t *quants)
{
    for (int32_t b = 0; b < n_inputs / PRODUCT_BLOCK; b++, scales += 32, quants += 256) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *block = rows[o] + (size_t)(b / 2) * 36;
            uint8_t q[PRODUCT_BLOCK];
            for (int h = 0; h < 2; h++) {
                const int sub = b % 2 * 2 + h;
                scales[16 * h + o] = block[sub] == 0x7F ? 0 : block[sub] & 0x7F;
                for (int i = 0; i < 8; i++) {
                    q[16 * h + i] = block[4 + 8 * sub + i] & 15;
                    q[16 * h + 8 + i] = block[4 + 8 * sub + i] >> 4;
                }
            }
            packed_put_nibbles(quants, o, q);
        }
    }
}

static void pack_u4(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                    uint8_t *quants, int32_t group_blocks)
{
    const size_t group_bytes = 3 + (size_t)group_blocks * PRODUCT_BLOCK / 2;
    for (int32_t b = 0; b < n_inputs / PRODUCT_BLOCK; b++, quants += 256) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *group = rows[o] + (size_t)(b / group_blocks) * group_bytes;
            uint8_t *to = scales + (size_t)(b / group_blocks) * 48;
            packed_put_scale(to, o, group);
            to[32 + o] = group[2];
            packed_copy_nibbles(quants, o, group + 3 + b % group_blocks * (PRODUCT_BLOCK / 2));
        }
    }
}

static void pack_u4_32(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                       uint8_t *quants)
{
    pack_u4(rows, n_inputs, scales, quants, 1);
}

static void pack_u4_64(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                       uint8_t *quants)
{
    pack_u4(rows, n_inputs, scales, quants, 2);
}

static void pack_f8_e4m3(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                         uint8_t *quants)
{
    for (int32_t b = 0; b < n_inputs / PRODUCT_BLOCK; b++, scales += 64, quants += 512) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *block = rows[o] + (size_t)b * 36;
            float scale;
            memcpy(&scale, block, sizeof scale);
            scale *= 256.0f;
            if (isinf(scale))
                scale = NAN;
            for (int i = 0; i < PRODUCT_BLOCK; i++) {
                quants[i * PANEL_OUTPUTS + o] = block[4 + i];
                if ((block[4 + i] & 0x7F) == 0x7F)
                    scale = NAN;
            }
            memcpy(scales + 4 * o, &scale, sizeof scale);
        }
    }
}

static void pack_f32(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                     uint8_t *quants)
{
    for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++)
        for (int32_t i = 0; i < n_inputs; i++)
            memcpy(quants + (size_t)i * 64 + 4 * o, rows[o] + (size_t)i * 4, 4);
}

static void pack_f16(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                     uint8_t *quants)
{
    for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++)
        for (int32_t i = 0; i < n_inputs; i++)
            memcpy(quants + (size_t)i * 32 + 2 * o, rows[o] + (size_t)i * 2, 2);
}

static void pack_bf16(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                      uint8_t *quants)
{
    for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
        for (int32_t i = 0; i < n_inputs; i++) {
            uint16_t bits;
            memcpy(&bits, rows[o] + (size_t)i * 2, 2);
            uint32_t word;
            memcpy(&word, quants + (size_t)(i / 2) * 64 + 4 * o, 4);
            word |= (uint32_t)bits << (i % 2 == 0 ? 16 : 0);
            memcpy(quants + (size_t)(i / 2) * 64 + 4 * o, &word, 4);
        }
    }
}

// Packs the rows of one panel. The row of an output that does not exist is NULL; its packed bytes stay zero.
typedef void pack_function(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                           uint8_t *quants);

static pack_function *const packers[TENSOR_TYPE_COUNT] = {
    [TENSOR_F32] = pack_f32,         [TENSOR_F16] = pack_f16,       [TENSOR_BF16] = pack_bf16,
    [TENSOR_Q8_0] = pack_q8_0,       [TENSOR_Q4_0] = pack_q4_0,     [TENSOR_Q4_1] = pack_q4_1,
    [TENSOR_Q5_0] = pack_q5_0,       [TENSOR_Q5_1] = pack_q5_1,     [TENSOR_Q2_K] = pack_q2_k,
    [TENSOR_Q3_K] = pack_q3_k,       [TENSOR_Q4_K] = pack_q4_k,     [TENSOR_Q5_K] = pack_q5_k,
    [TENSOR_Q6_K] = pack_q6_k,       [TENSOR_IQ4_NL] = pack_q4_0, // the same block layout as Q4_0
    [TENSOR_IQ4_XS] = pack_iq4_xs,   [TENSOR_MXFP4] = pack_mxfp4,   [TENSOR_NVFP4] = pack_nvfp4,
    [TENSOR_IQ2_XXS] = pack_iq2_xxs, [TENSOR_IQ2_XS] = pack_iq2_xs, [TENSOR_IQ2_S] = pack_iq2_s,
    [TENSOR_IQ3_XXS] = pack_iq3_xxs, [TENSOR_IQ3_S] = pack_iq3_s,   [TENSOR_IQ1_S] = pack_iq1_s,
    [TENSOR_IQ1_M] = pack_iq1_m,     [TENSOR_TQ1_0] = pack_tq1_0,   [TENSOR_TQ2_0] = pack_tq2_0,
    [TENSOR_U4_32] = pack_u4_32,     [TENSOR_U4_64] = pack_u4_64,   [TENSOR_F8_E4M3] = pack_f8_e4m3,
};

// Bytes that a task reads at once. Larger pieces do not fit in the L2 cache; smaller ones need more calls.
enum { READ_BYTES = 256 << 10, TASKS_A_THREAD = 4 };

// State of packing one tensor on the pool. A task packs `panels_each` panels.
struct packed_tensor {
    struct packed *packed;
    const struct tensor *tensor;
    uint64_t row_bytes;
    pack_function *pack;
    int32_t panels_each;
    uint8_t *buffers; // a buffer per thread for the file's bytes of a task; NULL: none
};

static uint64_t task_bytes(const struct packed_tensor *packing)
{
    return (uint64_t)packing->panels_each * PANEL_OUTPUTS * packing->row_bytes;
}

// `bytes` are the panel's rows in the file; `n_rows` is the number of rows that exist.
static void pack_panel(const struct packed_tensor *packing, int32_t panel, const uint8_t *bytes,
                       int32_t n_rows)
{
    struct packed *packed = packing->packed;
    const uint8_t *rows[PANEL_OUTPUTS] = {NULL};
    for (int o = 0; o < PANEL_OUTPUTS && o < n_rows; o++)
        rows[o] = bytes + (uint64_t)o * packing->row_bytes;
    uint8_t *scales = packed->data + (uint64_t)panel * packed->panel_bytes;
    uint8_t *quants = scales + packed->scales_bytes;
    packing->pack(rows, packed->shape.n_inputs, scales, quants);
}

static void pack_panels(void *context, int index, int thread)
{
    const struct packed_tensor *packing = context;
    const struct packed *packed = packing->packed;
    int32_t panel = index * packing->panels_each, left = packed->n_panels - panel;
    int32_t n_panels = left < packing->panels_each ? left : packing->panels_each;
    int32_t n_rows = packed->shape.n_outputs - panel * PANEL_OUTPUTS;
    if (n_rows > n_panels * PANEL_OUTPUTS)
        n_rows = n_panels * PANEL_OUTPUTS;
    uint8_t *buffer = packing->buffers ? packing->buffers + (uint64_t)thread * task_bytes(packing) : NULL;
    const uint8_t *first =
        (const uint8_t *)packing->tensor->data + (uint64_t)panel * PANEL_OUTPUTS * packing->row_bytes;
    const uint8_t *bytes =
        mapped_file_read(packing->tensor->file, first, (uint64_t)n_rows * packing->row_bytes, buffer);
    for (int32_t i = 0; i < n_panels; i++)
        pack_panel(packing, panel + i, bytes + (uint64_t)(i * PANEL_OUTPUTS) * packing->row_bytes,
                   n_rows - i * PANEL_OUTPUTS);
}

static void pack_tensor(struct packed_tensor *packing, struct pool *pool)
{
    int32_t n_panels = packing->packed->n_panels, n_threads = pool_n_threads(pool);
    uint64_t fitting = READ_BYTES / (PANEL_OUTPUTS * packing->row_bytes);
    int32_t fair = n_panels / (n_threads * TASKS_A_THREAD);
    packing->panels_each = fitting < (uint64_t)fair ? (int32_t)fitting : fair;
    if (packing->panels_each < 1)
        packing->panels_each = 1;
    if (packing->tensor->file)
        packing->buffers = malloc((size_t)n_threads * task_bytes(packing));
    pool_run(pool, (n_panels + packing->panels_each - 1) / packing->panels_each, pack_panels, packing);
    free(packing->buffers);
}

static enum status shape_check(const struct tensor *tensor, const struct tensor_traits *traits,
                               struct error *error)
{
    uint64_t n_outputs = tensor_n_rows(tensor), n_inputs = tensor->dims[0];
    if (!traits->name)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "tensor %.*s: unknown type %d",
                         (int)tensor->name.size, tensor->name.data, (int)tensor->type);
    if (!packers[tensor->type])
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "tensor %.*s: no arithmetic for type %s",
                         (int)tensor->name.size, tensor->name.data, traits->name);
    if (n_outputs < 1 || n_outputs > INT32_MAX - PANEL_OUTPUTS || n_inputs < 1 ||
        n_inputs > INT32_MAX - PRODUCT_BLOCK || n_inputs % traits->block_items != 0) {
        char shape[64];
        tensor_shape_text(tensor, shape);
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: no matrix of type %s has shape %s", (int)tensor->name.size,
                         tensor->name.data, traits->name, shape);
    }
    return STATUS_OK;
}

static uint64_t round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

enum status packed_create(struct packed **out, const struct tensor *tensor, struct memory_stack *memory,
                          struct pool *pool, struct error *error)
{
    *out = NULL;
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    enum status status = shape_check(tensor, traits, error);
    if (status != STATUS_OK)
        return status;
    enum tensor_type type = tensor->type;
    struct packed_format format = packed_format(type);
    struct packed *packed = calloc(1, sizeof *packed);
    if (packed) {
        packed->shape = (struct packed_shape){type, (int32_t)tensor_n_rows(tensor), (int32_t)tensor->dims[0]};
        packed->scale = tensor_scale(tensor, 0);
        packed->order = tensor->order;
        packed->n_panels = (packed->shape.n_outputs + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS;
        packed->n_blocks = (packed->shape.n_inputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
        uint64_t n_groups = (uint64_t)packed->n_blocks / (uint64_t)format.group_blocks;
        packed->scales_bytes = round_up(n_groups * (uint64_t)format.group_scale_bytes, 64);
        uint64_t quants_bytes = (uint64_t)packed->n_blocks * (uint64_t)format.block_quant_bytes;
        packed->panel_bytes = packed->scales_bytes + quants_bytes; // < 2^31 * 2^7: no overflow
        if (!__builtin_mul_overflow(packed->panel_bytes, (uint64_t)packed->n_panels, &packed->data_bytes))
            packed->data = memory_stack_take(memory, packed->data_bytes);
    }
    if (!packed || !packed->data) {
        free(packed);
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "tensor %.*s: no memory to pack it",
                         (int)tensor->name.size, tensor->name.data);
    }
    struct packed_tensor packing = {packed, tensor, tensor_row_bytes(tensor), packers[type], 0, NULL};
    pack_tensor(&packing, pool);
    *out = packed;
    return STATUS_OK;
}

void packed_destroy(struct packed *packed)
{
    free(packed);
}

struct packed_shape packed_shape(const struct packed *packed)
{
    return packed->shape;
}

uint64_t packed_bytes(const struct packed *packed)
{
    return packed->data_bytes;
}

const int32_t *packed_order(const struct packed *packed)
{
    return packed->order;
}

unsigned packed_form(const struct packed *packed)
{
    return packed_format(packed->shape.type).form;
}
