// Quantized folders: each weight is (item - zero point) * scale, computed here from the numbers that the
// authors' formats pack into the files; other settings and tensors are refused by name.
#include "engine/model/folder/model_folder.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/safetensors_writer.h"

#include <math.h>

enum { WIDTH = 128, N_HEADS = 4, HEAD = WIDTH / N_HEADS, N_VOCAB = 8, N_EXPERTS = 3, N_FF = 64 };

enum format { FP8, COMPRESSED, INTEGERS, GPTQ, AWQ };
enum scales { SCALES_F32, SCALES_F16, SCALES_BF16 };

// How a folder is stored, what it is held as, and a fault of one matrix.
struct quantized_way {
    enum format format;
    const char *settings; // of quantization_config
    int bits;
    uint64_t rows, columns; // that share a scale; 0: all
    bool symmetric, v2, ordered;
    bool mixed;      // the zero points of expert 1 are in the middle
    bool byte_zeros; // zero points are not packed: older compressed-tensors
    enum scales scales;
    int exponent; // of the scales
    enum tensor_type type;
    const char *scale_name;
    // in matrix q_proj
    const char *drop, *dtype_of, *dtype;
    bool bad_group, odd_scales;
};

#define GROUP(bits, symmetric, columns, more)                                                                \
    "\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"config_groups\":{\"g\":{"       \
    "\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":" #bits ",\"type\":\"int\",\"symmetric\":" symmetric \
    ",\"strategy\":\"group\",\"group_size\":" #columns "}}}" more
#define FLOATS(strategy)                                                                                     \
    "\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_groups\":{\"g\":{"      \
    "\"weights\":{\"num_bits\":8,\"type\":\"float\",\"symmetric\":true," strategy "},"                       \
    "\"input_activations\":{\"num_bits\":8}}}"
#define BYTES                                                                                                \
    "\"quant_method\":\"compressed-tensors\",\"format\":\"int-quantized\",\"config_groups\":{\"g\":{"        \
    "\"weights\":{\"num_bits\":8,\"type\":\"int\",\"symmetric\":true,\"strategy\":\"channel\"}}}"
#define GPTQ_OF(bits, columns, more)                                                                         \
    "\"quant_method\":\"gptq\",\"bits\":" #bits ",\"group_size\":" #columns ",\"desc_act\":false" more
#define AWQ_OF(columns)                                                                                      \
    "\"quant_method\":\"awq\",\"bits\":4,\"group_size\":" #columns ",\"zero_point\":true,\"version\":\"GEMM\""

static const struct quantized_way ways[] = {
    {FP8, "\"quant_method\":\"fp8\",\"activation_scheme\":\"static\"", 8, 0, 0, .type = TENSOR_F8_E4M3,
     .scale_name = ".weight_scale"},
    {FP8, "\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"weight_block_size\":[48,32]", 8, 48, 32,
     .type = TENSOR_F8_E4M3, .scale_name = ".weight_scale_inv"},
    {FP8, "\"quant_method\":\"fp8\",\"weight_block_size\":[16,24]", 8, 16, 24, .type = TENSOR_F32,
     .scale_name = ".weight_scale_inv"},
    {FP8, "\"quant_method\":\"fbgemm_fp8\"", 8, 1, 0, .type = TENSOR_F8_E4M3, .scale_name = ".weight_scale"},
    {FP8, FLOATS("\"strategy\":\"channel\""), 8, 1, 0, .scales = SCALES_BF16, .type = TENSOR_F8_E4M3,
     .scale_name = ".weight_scale"},
    {FP8, FLOATS("\"strategy\":\"block\",\"block_structure\":[32,64]"), 8, 32, 64, .scales = SCALES_BF16,
     .type = TENSOR_F8_E4M3, .scale_name = ".weight_scale"},
    {FP8, "\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"", 8, 0, 0, .type = TENSOR_F8_E4M3,
     .scale_name = ".weight_scale"},
    {COMPRESSED, GROUP(4, "true", 32, ""), 4, 1, 32, true, .scales = SCALES_BF16, .type = TENSOR_Q4_0},
    {COMPRESSED, GROUP(4, "false", 32, ""), 4, 1, 32, .scales = SCALES_BF16, .type = TENSOR_U4_32},
    {COMPRESSED, GROUP(4, "false", 64, ""), 4, 1, 64, .ordered = true, .scales = SCALES_F16,
     .type = TENSOR_U4_64},
    {COMPRESSED, GROUP(4, "false", 32, ""), 4, 1, 32, .scales = SCALES_BF16, .exponent = -40,
     .type = TENSOR_U4_32},
    {COMPRESSED, GROUP(4, "false", 32, ""), 4, 1, 32, .scales = SCALES_F32, .type = TENSOR_F32},
    {COMPRESSED, GROUP(4, "false", 32, ""), 4, 1, 32, .scales = SCALES_BF16, .exponent = -118,
     .type = TENSOR_F32},
    {COMPRESSED, GROUP(4, "false", 32, ""), 4, 1, 32, .byte_zeros = true, .scales = SCALES_F16,
     .type = TENSOR_U4_32},
    {COMPRESSED, GROUP(8, "true", 64, ""), 8, 1, 64, true, .scales = SCALES_BF16, .type = TENSOR_Q8_0},
    {COMPRESSED, GROUP(8, "false", 64, ""), 8, 1, 64, .scales = SCALES_BF16, .type = TENSOR_F32},
    {INTEGERS, BYTES, 8, 1, 0, true, .scales = SCALES_BF16, .type = TENSOR_Q8_0},
    {GPTQ, GPTQ_OF(4, 32, ""), 4, 1, 32, true, .scales = SCALES_F16, .type = TENSOR_Q4_0},
    {GPTQ, GPTQ_OF(4, 64, ",\"checkpoint_format\":\"gptq\""), 4, 1, 64, .scales = SCALES_F16,
     .type = TENSOR_U4_64},
    {GPTQ, GPTQ_OF(4, 32, ",\"checkpoint_format\":\"gptq_v2\""), 4, 1, 32, .v2 = true, .ordered = true,
     .scales = SCALES_F16, .type = TENSOR_U4_32},
    {GPTQ, GPTQ_OF(4, -1, ""), 4, 1, 0, .scales = SCALES_F16, .type = TENSOR_U4_64},
    {GPTQ, GPTQ_OF(4, 24, ""), 4, 1, 24, .ordered = true, .scales = SCALES_F16, .type = TENSOR_F32},
    {GPTQ, GPTQ_OF(8, 32, ""), 8, 1, 32, true, .ordered = true, .scales = SCALES_F16, .type = TENSOR_Q8_0},
    {GPTQ, GPTQ_OF(8, 32, ""), 8, 1, 32, .scales = SCALES_F16, .type = TENSOR_F32},
    {AWQ, AWQ_OF(32), 4, 1, 32, .scales = SCALES_F16, .type = TENSOR_U4_32},
    {AWQ, AWQ_OF(64), 4, 1, 64, .mixed = true, .scales = SCALES_F16, .type = TENSOR_U4_64},
};

// --- A matrix ---

enum { ROWS_MAX = WIDTH, GROUPS_MAX = 8 };

// A matrix is a function of its name and the way. The zero points and scales are of [rows / way->rows][groups].
struct made_matrix {
    uint64_t n_rows, n_columns, n_groups, rows_each;
    uint8_t items[ROWS_MAX][WIDTH];
    int zeros[ROWS_MAX][GROUPS_MAX];
    uint32_t scale_bits[ROWS_MAX][GROUPS_MAX];
    float scales[ROWS_MAX][GROUPS_MAX];
    int32_t groups[WIDTH];
};

static uint64_t parts(uint64_t n, uint64_t each)
{
    return each ? (n + each - 1) / each : 1;
}

static void draw_scale(const struct quantized_way *way, uint64_t *state, uint32_t *bits, float *scale)
{
    uint32_t fraction = random_bits(state), exponent = random_bits(state) % 4;
    switch (way->scales) {
    case SCALES_F16:
        *bits = (8 + exponent) << 10 | (fraction & 0x3FF);
        *scale = ldexpf((float)(1024 + (fraction & 0x3FF)), (int)exponent - 17);
        break;
    case SCALES_BF16:
        *bits = (uint32_t)(120 + (int)exponent + way->exponent) << 7 | (fraction & 0x7F);
        *scale = ldexpf((float)(128 + (fraction & 0x7F)), (int)exponent - 14 + way->exponent);
        break;
    default:
        *scale = ldexpf((float)(0x800001u | fraction >> 8), (int)exponent - 30);
        memcpy(bits, scale, sizeof *bits);
        break;
    }
}

static void make(struct made_matrix *made, const struct quantized_way *way, const char *name, uint64_t n_rows,
                 uint64_t n_columns)
{
    uint64_t state = 1;
    for (const char *c = name; *c; c++)
        state = (state ^ (unsigned char)*c) * 0x100000001B3u;
    memset(made, 0, sizeof *made);
    made->n_rows = n_rows;
    made->n_columns = n_columns;
    made->n_groups = parts(n_columns, way->columns);
    made->rows_each = way->rows ? way->rows : n_rows;
    for (uint64_t row = 0; row < n_rows; row++)
        for (uint64_t i = 0; i < n_columns; i++)
            made->items[row][i] = way->format == FP8 ? (uint8_t)((random_bits(&state) % 127) | (row % 2) << 7)
                                                     : (uint8_t)(random_bits(&state) % (1u << way->bits));
    bool symmetric = way->symmetric || (way->mixed && strstr(name, "experts.1"));
    for (uint64_t row = 0; row < parts(n_rows, made->rows_each); row++)
        for (uint64_t group = 0; group < made->n_groups; group++) {
            made->zeros[row][group] =
                symmetric ? 1 << (way->bits - 1) : (int)random_below(&state, 1u << way->bits);
            draw_scale(way, &state, &made->scale_bits[row][group], &made->scales[row][group]);
        }
    for (uint64_t i = 0; i < n_columns; i++)
        made->groups[i] = way->columns ? (int32_t)(i / way->columns) : 0;
    for (uint64_t i = n_columns - 1; way->ordered && i > 0; i--) {
        uint64_t other = random_below(&state, (unsigned)i + 1);
        int32_t group = made->groups[i];
        made->groups[i] = made->groups[other];
        made->groups[other] = group;
    }
}

// OCP's E4M3.
static float e4m3(int byte)
{
    int exponent = byte >> 3 & 15, fraction = byte & 7;
    double value = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return (float)(byte & 0x80 ? -value : value);
}

static float made_weight(const struct quantized_way *way, const struct made_matrix *made, uint64_t row,
                         uint64_t column)
{
    uint64_t at = row / made->rows_each, group = (uint64_t)made->groups[column];
    float item = way->format == FP8 ? e4m3(made->items[row][column])
                                    : (float)(made->items[row][column] - made->zeros[at][group]);
    return item * made->scales[at][group];
}

// --- Writing ---

struct quantized_writer {
    const struct quantized_way *way;
    struct safetensors_writer writer;
    const char *name; // of the matrix
    bool faulty;
};

static void put(struct quantized_writer *out, const char *ending, const char *dtype, uint32_t n_dims,
                uint64_t n_rows, uint64_t n_columns, const void *data, size_t size)
{
    char name[160];
    const uint64_t shape[2] = {n_rows, n_columns};
    snprintf(name, sizeof name, "%s%s", out->name, ending);
    bool is = out->faulty && out->way->dtype_of && strcmp(out->way->dtype_of, ending) == 0;
    if (!out->faulty || !out->way->drop || strcmp(out->way->drop, ending) != 0)
        put_entry(&out->writer, name, is ? out->way->dtype : dtype, n_dims, shape + 2 - n_dims, data, size);
}

// Writes numbers [n_rows, n_columns] as words that pack 32 / bits of them, along the columns or the rows.
static void put_words(struct quantized_writer *out, const char *ending, int bits, uint64_t n_rows,
                      uint64_t n_columns, bool along_rows,
                      uint32_t (*number)(const void *, uint64_t, uint64_t), const void *context)
{
    static uint32_t words[WIDTH * WIDTH];
    uint64_t per = 32 / (uint64_t)bits;
    uint64_t rows = along_rows ? parts(n_rows, per) : n_rows,
             columns = along_rows ? n_columns : parts(n_columns, per);
    memset(words, 0, sizeof words);
    for (uint64_t row = 0; row < n_rows; row++)
        for (uint64_t i = 0; i < n_columns; i++) {
            uint64_t at = along_rows ? row / per * columns + i : row * columns + i / per;
            words[at] |= number(context, row, i) << ((along_rows ? row : i) % per * (uint64_t)bits);
        }
    put(out, ending, "I32", 2, rows, columns, words, rows * columns * 4);
}

static uint32_t item_at(const void *context, uint64_t row, uint64_t column)
{
    return ((const struct made_matrix *)context)->items[row][column];
}

static uint32_t item_of_column(const void *context, uint64_t column, uint64_t row)
{
    return item_at(context, row, column);
}

// AWQ: place i of a word holds the i-th of 0 2 4 6 1 3 5 7.
static uint64_t awq_place(uint64_t place)
{
    static const uint64_t order[] = {0, 2, 4, 6, 1, 3, 5, 7};
    return place / 8 * 8 + order[place % 8];
}

static uint32_t awq_item(const void *context, uint64_t column, uint64_t place)
{
    return item_at(context, awq_place(place), column);
}

static uint32_t zero_at(const void *context, uint64_t row, uint64_t group)
{
    return (uint32_t)((const struct made_matrix *)context)->zeros[row][group];
}

static uint32_t zero_of_group(const void *context, uint64_t group, uint64_t row)
{
    return zero_at(context, row, group);
}

static uint32_t zero_less_one(const void *context, uint64_t group, uint64_t row)
{
    return (zero_at(context, row, group) + 15) & 15;
}

static uint32_t zero_less_one_of_eight(const void *context, uint64_t group, uint64_t row)
{
    return (zero_at(context, row, group) + 255) & 255;
}

static uint32_t awq_zero(const void *context, uint64_t group, uint64_t place)
{
    return zero_at(context, awq_place(place), group);
}

static void put_scales(struct quantized_writer *out, const struct made_matrix *made, bool by_group)
{
    static const char *const dtypes[] = {"F32", "F16", "BF16"};
    struct buffer data = {0};
    const struct quantized_way *way = out->way;
    uint64_t n_rows = parts(made->n_rows, made->rows_each), n = by_group ? made->n_groups : n_rows,
             m = by_group ? n_rows : made->n_groups;
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < m; j++)
            put_integer(&data, made->scale_bits[by_group ? j : i][by_group ? i : j],
                        way->scales == SCALES_F32 ? 4 : 2);
    const char *name = way->scale_name ? way->scale_name : by_group ? ".scales" : ".weight_scale";
    bool whole = n_rows * made->n_groups == 1, odd = out->faulty && way->odd_scales;
    put(out, name, dtypes[way->scales], whole ? 0 : 2, odd ? m : n, odd ? n : m, data.data, data.size);
    buffer_finish(&data);
}

static void put_matrix(struct quantized_writer *out, const char *name, uint64_t n_rows, uint64_t n_columns)
{
    static struct made_matrix made;
    const struct quantized_way *way = out->way;
    make(&made, way, name, n_rows, n_columns);
    out->name = name;
    out->faulty = strstr(name, "q_proj") != NULL;
    uint8_t bytes[WIDTH * WIDTH];
    for (uint64_t i = 0; i < n_rows * n_columns; i++)
        bytes[i] = made.items[i / n_columns][i % n_columns] ^ (way->format == INTEGERS ? 0x80 : 0);
    const int64_t shape[2] = {(int64_t)n_rows, (int64_t)n_columns};
    if (out->faulty && way->bad_group)
        made.groups[5] = (int32_t)made.n_groups;
    switch (way->format) {
    case FP8:
    case INTEGERS:
        put(out, ".weight", way->format == FP8 ? "F8_E4M3" : "I8", 2, n_rows, n_columns, bytes,
            n_rows * n_columns);
        break;
    case COMPRESSED:
        put_words(out, ".weight_packed", way->bits, n_rows, n_columns, false, item_at, &made);
        put(out, ".weight_shape", "I64", 1, 1, 2, shape, sizeof shape);
        for (uint64_t i = 0; i < n_rows * made.n_groups; i++)
            bytes[i] = (uint8_t)(made.zeros[i / made.n_groups][i % made.n_groups] - 8);
        if (way->byte_zeros)
            put(out, ".weight_zero_point", "I8", 2, n_rows, made.n_groups, bytes, n_rows * made.n_groups);
        else if (!way->symmetric)
            put_words(out, ".weight_zero_point", way->bits, n_rows, made.n_groups, true, zero_at, &made);
        if (way->ordered)
            put(out, ".weight_g_idx", "I32", 1, 1, n_columns, made.groups, 4 * n_columns);
        break;
    case GPTQ:
        put_words(out, ".qweight", way->bits, n_columns, n_rows, true, item_of_column, &made);
        put_words(out, ".qzeros", way->bits, made.n_groups, n_rows, false,
                  way->v2          ? zero_of_group
                  : way->bits == 4 ? zero_less_one
                                   : zero_less_one_of_eight,
                  &made);
        put(out, ".g_idx", "I32", 1, 1, n_columns, made.groups, 4 * n_columns);
        break;
    case AWQ:
        put_words(out, ".qweight", 4, n_columns, n_rows, false, awq_item, &made);
        put_words(out, ".qzeros", 4, made.n_groups, n_rows, false, awq_zero, &made);
        break;
    }
    put_scales(out, &made, way->format == GPTQ || way->format == AWQ);
    if (way->format == FP8)
        put(out, ".input_scale", "F32", 0, 1, 1, made.scales, 4);
}

static void put_floats(struct quantized_writer *out, const char *name, uint32_t n_dims, uint64_t n_rows,
                       uint64_t n_columns)
{
    static const float zeros[N_VOCAB * WIDTH];
    out->name = name;
    out->faulty = false;
    put(out, ".weight", "F32", n_dims, n_rows, n_columns, zeros, n_rows * n_columns * 4);
}

// A layer of Mixtral: rows that are reordered (q, k), matrices as they are (v, o), experts.
static void write_folder(const struct quantized_way *way, const char *directory)
{
    static const char config[] =
        "{\"model_type\":\"mixtral\",\"hidden_size\":128,\"intermediate_size\":64,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"max_position_embeddings\":64,\"num_local_experts\":3,"
        "\"num_experts_per_tok\":2,\"quantization_config\":{%s}}";
    struct quantized_writer out = {.way = way};
    struct buffer json = {0};
    char path[128], name[96];
    buffer_add_format(&json, config, way->settings);
    snprintf(path, sizeof path, "%s/config.json", directory);
    write_file(path, json.data, json.size);
    buffer_finish(&json);
    put_floats(&out, "model.embed_tokens", 2, N_VOCAB, WIDTH);
    put_floats(&out, "lm_head", 2, N_VOCAB, WIDTH);
    put_floats(&out, "model.norm", 1, 1, WIDTH);
    put_floats(&out, "model.layers.0.input_layernorm", 1, 1, WIDTH);
    put_floats(&out, "model.layers.0.post_attention_layernorm", 1, 1, WIDTH);
    put_floats(&out, "model.layers.0.block_sparse_moe.gate", 2, N_EXPERTS, WIDTH);
    put_matrix(&out, "model.layers.0.self_attn.q_proj", WIDTH, WIDTH);
    put_matrix(&out, "model.layers.0.self_attn.k_proj", WIDTH / 2, WIDTH);
    put_matrix(&out, "model.layers.0.self_attn.v_proj", WIDTH / 2, WIDTH);
    put_matrix(&out, "model.layers.0.self_attn.o_proj", WIDTH, WIDTH);
    for (int part = 1; part <= 3; part++)
        for (int expert = 0; expert < N_EXPERTS; expert++) {
            snprintf(name, sizeof name, "model.layers.0.block_sparse_moe.experts.%d.w%d", expert, part);
            put_matrix(&out, name, part == 2 ? WIDTH : N_FF, part == 2 ? N_FF : WIDTH);
        }
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    write_safetensors(&out.writer, path);
}

// --- Weights ---

// Their row: by halves of a head where ours are pairs.
static size_t their_row(size_t row, bool rotated)
{
    return rotated ? row / HEAD * HEAD + row % 2 * (HEAD / 2) + row % HEAD / 2 : row;
}

static void assert_matrix(const struct gguf *gguf, const struct quantized_way *way, const char *ours,
                          const char *theirs, size_t expert, bool rotated)
{
    static struct made_matrix made;
    static float items[WIDTH];
    char name[96];
    struct error error;
    snprintf(name, sizeof name, "blk.0.%s.scale", ours);
    const struct tensor *factors = gguf_tensor(gguf, name);
    float factor = 1.0f;
    if (factors)
        memcpy(&factor, (const float *)factors->data + expert, sizeof factor);
    assert_int_equal(factors != NULL, way->exponent != 0 && way->type != TENSOR_F32);
    snprintf(name, sizeof name, "blk.0.%s.weight", ours);
    const struct tensor *tensor = gguf_tensor(gguf, name);
    assert_ok(gguf_load(gguf, tensor, &error), &error);
    assert_string_equal(tensor_traits(tensor->type)->name, tensor_traits(way->type)->name);
    assert_int_equal(tensor->order != NULL,
                     way->ordered && way->type != TENSOR_F32 && way->columns < tensor->dims[0]);
    size_t n_columns = tensor->dims[0], n_rows = tensor->dims[1];
    make(&made, way, theirs, n_rows, n_columns);
    for (size_t row = 0; row < n_rows; row++) {
        tensor_traits(tensor->type)
            ->dequantize((const char *)tensor->data + (expert * n_rows + row) * tensor_row_bytes(tensor),
                         items, n_columns);
        for (size_t i = 0; i < n_columns; i++) {
            size_t column = tensor->order ? (size_t)tensor->order[expert * n_columns + i] : i;
            float expected = made_weight(way, &made, their_row(row, rotated), column);
            if (items[i] * factor != expected)
                fail_msg("%s: %s, row %zu, column %zu: expected %g, got %g", way->settings, theirs, row,
                         column, (double)expected, (double)(items[i] * factor));
        }
    }
}

TEST(weights_are_what_the_formats_say)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const struct quantized_way *way = &ways[i];
        char directory[64], theirs[96];
        struct gguf *gguf;
        struct error error;
        make_directory(directory);
        write_folder(way, directory);
        if (model_folder_open(&gguf, directory, &error) != STATUS_OK)
            fail_msg("%s: %s", way->settings, error.text);
        assert_matrix(gguf, way, "attn_q", "model.layers.0.self_attn.q_proj", 0, true);
        assert_matrix(gguf, way, "attn_k", "model.layers.0.self_attn.k_proj", 0, true);
        assert_matrix(gguf, way, "attn_v", "model.layers.0.self_attn.v_proj", 0, false);
        assert_matrix(gguf, way, "attn_output", "model.layers.0.self_attn.o_proj", 0, false);
        for (int part = 1; part <= 3; part++)
            for (size_t expert = 0; expert < N_EXPERTS; expert++) {
                static const char *const ours[] = {"", "ffn_gate_exps", "ffn_down_exps", "ffn_up_exps"};
                snprintf(theirs, sizeof theirs, "model.layers.0.block_sparse_moe.experts.%zu.w%d", expert,
                         part);
                assert_matrix(gguf, way, ours[part], theirs, expert, false);
            }
        struct text note = {0};
        assert_ok(gguf_text(gguf, MODEL_FOLDER_QUANTIZATION, &note, NULL, &error), &error);
        assert_int_equal(way->format == FP8, note.size && memmem(note.data, note.size, "others): 13", 11));
        assert_int_equal(way->type == TENSOR_F32,
                         note.size && memmem(note.data, note.size, "13 matrices", 11));
        gguf_close(gguf);
        remove_directory(directory);
    }
}

// --- Refusals ---

static void assert_folder_refused(const struct quantized_way *way, const char *words)
{
    char directory[64];
    struct gguf *gguf = NULL;
    struct error error = {0};
    make_directory(directory);
    write_folder(way, directory);
    if (model_folder_open(&gguf, directory, &error) != STATUS_REFUSE || !strstr(error.text, words))
        fail_msg("%s: expected \"%s\" in: %s", way->settings, words, error.text);
    remove_directory(directory);
}

TEST(settings_that_are_not_supported_are_refused_by_key)
{
    static const char *const refused[][2] = {
        {"\"load_in_4bit\":true", "\"quant_method\": expected"},
        {"\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true", "got \"bitsandbytes\""},
        {"\"quant_method\":7", "\"quant_method\": expected \"fp8\""},
        {"\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"", "\"fmt\": expected \"e4m3\", got \"e5m2\""},
        {"\"quant_method\":\"fp8\",\"weight_block_size\":[128]", "\"weight_block_size\": expected"},
        {"\"quant_method\":\"fp8\",\"weight_block_size\":[128,0]", "\"weight_block_size\": expected"},
        {"\"quant_method\":\"fp8\",\"modules_to_not_convert\":[1]", "\"modules_to_not_convert\": expected"},
        {"\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":32", "\"bits\": expected 4 or 8, got 3"},
        {"\"quant_method\":\"gptq\",\"bits\":4",
         "\"group_size\": expected a group's columns, or -1, got nothing"},
        {GPTQ_OF(4, 0, ""), "\"group_size\": expected"},
        {GPTQ_OF(4, 32, ",\"checkpoint_format\":\"marlin\""), "got \"marlin\""},
        {GPTQ_OF(4, 32, ",\"dynamic\":{\"-:.*down.*\":{}}"), "\"dynamic\": expected none"},
        {GPTQ_OF(4, 32, ",\"modules_in_block_to_quantize\":[[\"self_attn.q_proj\"]]"),
         "\"modules_in_block_to_quantize\": expected none"},
        {GPTQ_OF(4, 32, ",\"is_marlin_format\":true"), "\"is_marlin_format\": expected none, got true"},
        {GPTQ_OF(4, 32, ",\"sym\":\"yes\""), "\"sym\": expected true or false"},
        {"\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemv\"",
         "\"version\": expected \"gemm\", got \"gemv\""},
        {"\"quant_method\":\"awq\",\"bits\":8,\"group_size\":32", "\"bits\": expected 4, got 8"},
        {"\"quant_method\":\"compressed-tensors\"", "\"format\": expected \"pack-quantized\""},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"marlin-24\"", "got \"marlin-24\""},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"",
         "\"config_groups\": expected an object of groups, got nothing"},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"config_groups\":{\"g\":{}}",
         "\"config_groups\": \"g\": \"weights\": expected an object, got nothing"},
        {GROUP(2, "true", 32, ""), "\"num_bits\": expected 4 or 8, got 2"},
        {GROUP(4, "1", 32, ""), "\"symmetric\": expected true or false, got 1"},
        {GROUP(4, "true", 32, ",\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}"),
         "\"sparsity_config\": expected none"},
        {GROUP(4, "true", 32, ",\"quantization_status\":\"frozen\""), "\"quantization_status\": expected"},
        {FLOATS("\"strategy\":\"tensor_group\",\"group_size\":16"), "\"strategy\": expected"},
        {"\"quant_method\":\"bitnet\",\"quantization_mode\":\"online\"",
         "\"quantization_mode\": expected \"offline\", got \"online\""},
        {"\"quant_method\":\"bitnet\",\"linear_class\":\"linear\"",
         "\"linear_class\": expected \"bitlinear\""},
        {"\"quant_method\":\"bitnet\",\"use_rms_norm\":true", "\"use_rms_norm\": expected none, got true"},
        {"\"quant_method\":\"modelopt\",\"quant_algo\":\"INT4_AWQ\"", "\"quant_algo\": expected \"FP8\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct quantized_way way = ways[0];
        way.settings = refused[i][0];
        assert_folder_refused(&way, refused[i][1]);
    }
}

TEST(more_groups_of_matrices_than_the_limit_are_refused)
{
    struct buffer settings = {0};
    for (int n = 16; n <= 17; n++) {
        settings.size = 0;
        buffer_add_string(&settings, "\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","
                                     "\"config_groups\":{");
        for (int i = 0; i < n; i++)
            buffer_add_format(&settings,
                              "%s\"g%d\":{\"weights\":{\"num_bits\":4,\"symmetric\":false,\"type\":\"int\","
                              "\"strategy\":\"group\",\"group_size\":%d}}",
                              i ? "," : "", i, 32 << (15 - i > 0 ? 15 - i : 0));
        buffer_add_byte(&settings, '}');
        buffer_add_byte(&settings, '\0');
        struct quantized_way way = ways[8]; // groups of 32: the last of 16
        way.settings = settings.data;
        if (n > 16) {
            assert_folder_refused(&way, "more than 16 groups of matrices");
            continue;
        }
        char directory[64];
        struct gguf *gguf;
        struct error error;
        make_directory(directory);
        write_folder(&way, directory);
        assert_ok(model_folder_open(&gguf, directory, &error), &error);
        gguf_close(gguf);
        remove_directory(directory);
    }
    buffer_finish(&settings);
}

static const struct quantized_way *way_of(enum format format)
{
    const struct quantized_way *way = ways;
    while (way->format != format || (format == COMPRESSED && !way->ordered))
        way++;
    return way;
}

TEST(tensors_that_contradict_the_settings_are_refused_by_name)
{
    static const struct {
        enum format format;
        const char *drop, *dtype_of, *dtype, *settings;
        bool bad_group, odd_scales;
        const char *words;
    } refused[] = {
        {FP8, ".weight_scale", .words = "q_proj.weight_scale is missing"},
        {FP8, .dtype_of = ".weight_scale", .dtype = "I32",
         .words = "q_proj.weight_scale: expected scales of F32"},
        {FP8, .settings = "\"quant_method\":\"fp8\",\"weight_block_size\":[128,64]",
         .words = "q_proj.weight_scale: expected 1x2 scales, as quantization_config says"},
        {FP8,
         .settings = "\"quant_method\":\"fp8\",\"modules_to_not_convert\":[\"lm_head\",\"self_attn.q_proj\"]",
         .words = "\"modules_to_not_convert\" names model.layers.0.self_attn.q_proj"},
        {FP8, .settings = GROUP(4, "true", 32, ""), .words = "q_proj.weight: expected integers"},
        {COMPRESSED, ".weight_shape", .words = "q_proj.weight_shape is missing"},
        {COMPRESSED, ".weight_zero_point", .words = "q_proj.weight_zero_point is missing"},
        {COMPRESSED, .dtype_of = ".weight_packed", .dtype = "F32",
         .words = "q_proj.weight_packed: expected I32"},
        {COMPRESSED, .settings = GROUP(8, "false", 64, ""),
         .words = "q_proj.weight_packed: expected the rows"},
        {COMPRESSED, .settings = GROUP(4, "false", 32, ""),
         .words = "q_proj.weight_scale: expected 128x4 scales"},
        {COMPRESSED, .settings = GROUP(4, "false", 64, ",\"ignore\":[\"model.layers.0.self_attn.q_proj\"]"),
         .words = "\"ignore\" names model.layers.0.self_attn.q_proj"},
        {COMPRESSED, .bad_group = true,
         .words = "q_proj.weight_g_idx: column 5: expected a group below 2, got 2"},
        {COMPRESSED, .odd_scales = true, .words = "q_proj.weight_scale: expected 128x2 scales"},
        {INTEGERS, .settings = FLOATS("\"strategy\":\"channel\""),
         .words = "q_proj.weight: expected F8_E4M3"},
        {GPTQ, ".qzeros", .words = "q_proj.qzeros is missing"},
        {GPTQ, ".qweight", .words = "q_proj.g_idx has no place"},
        {GPTQ, .settings = GPTQ_OF(8, 32, ""), .words = "q_proj."},
        {GPTQ, .settings = GPTQ_OF(4, 64, ""), .words = "q_proj.scales: expected 2x128 scales"},
        {GPTQ, .bad_group = true, .words = "q_proj.g_idx: column 5: expected a group below 4"},
        {GPTQ, .dtype_of = ".g_idx", .dtype = "F32",
         .words = "q_proj.g_idx: expected the group of each column"},
        {AWQ, ".scales", .words = "q_proj.scales is missing"},
        {AWQ, .settings = GPTQ_OF(4, 32, ""), .words = "q_proj."},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct quantized_way way = *way_of(refused[i].format);
        way.drop = refused[i].drop;
        way.dtype_of = refused[i].dtype_of;
        way.dtype = refused[i].dtype;
        way.bad_group = refused[i].bad_group;
        way.odd_scales = refused[i].odd_scales;
        way.settings = refused[i].settings ? refused[i].settings : way.settings;
        assert_folder_refused(&way, refused[i].words);
    }
}

// Modules that are not converted are plain tensors: here the output matrix and the router.
TEST(names_that_no_quantized_matrix_has_may_be_ignored)
{
    struct quantized_way way = *way_of(AWQ);
    char directory[64];
    struct gguf *gguf;
    struct error error;
    way.settings = AWQ_OF(32) ",\"modules_to_not_convert\":[\"lm_head\",\"gate\",\"re:.*vision.*\",\"proj\"]";
    make_directory(directory);
    write_folder(&way, directory);
    assert_ok(model_folder_open(&gguf, directory, &error), &error);
    assert_int_equal(gguf_tensor(gguf, "output.weight")->type, TENSOR_F32);
    gguf_close(gguf);
    remove_directory(directory);
}

// --- BitNet: four rows, n / 4 apart, in a byte; one scale, which multiplies or divides ---

enum { TERNARY_ROWS = 8 };

static int ternary_item(uint64_t row, uint64_t column)
{
    return (int)((row * 7 + column * 5 + row * column) % 3) - 1;
}

static void put_ternary(struct safetensors_writer *writer, const char *name, uint64_t n_columns, float scale)
{
    static uint8_t bytes[TERNARY_ROWS / 4 * 512];
    char other[96];
    const uint64_t n = TERNARY_ROWS / 4;
    memset(bytes, 0, sizeof bytes);
    for (uint64_t row = 0; row < TERNARY_ROWS; row++)
        for (uint64_t i = 0; i < n_columns; i++)
            bytes[row % n * n_columns + i] |= (uint8_t)((ternary_item(row, i) + 1) << 2 * (row / n));
    snprintf(other, sizeof other, "%s_scale", name);
    put_entry(writer, name, "U8", 2, (uint64_t[2]){n, n_columns}, bytes, n * n_columns);
    put_entry(writer, other, "F32", 1, (uint64_t[1]){1}, &scale, sizeof scale);
}

static void assert_ternary(const struct gguf *gguf, const char *name, uint64_t n_columns, float scale,
                           enum tensor_type type)
{
    char whole[96];
    float items[512], factor = 1.0f;
    struct error error;
    snprintf(whole, sizeof whole, "blk.0.%s.scale", name);
    const struct tensor *factors = gguf_tensor(gguf, whole);
    if (factors)
        memcpy(&factor, factors->data, sizeof factor);
    snprintf(whole, sizeof whole, "blk.0.%s.weight", name);
    const struct tensor *tensor = gguf_tensor(gguf, whole);
    assert_ok(gguf_load(gguf, tensor, &error), &error);
    assert_int_equal(tensor->type, type);
    assert_int_equal(tensor->dims[0], n_columns);
    assert_int_equal(tensor->dims[1], TERNARY_ROWS);
    for (uint64_t row = 0; row < TERNARY_ROWS; row++) {
        tensor_traits(type)->dequantize((const char *)tensor->data + row * tensor_row_bytes(tensor), items,
                                        n_columns);
        for (uint64_t i = 0; i < n_columns; i++)
            if (items[i] * factor != (float)ternary_item(row, i) * scale)
                fail_msg("%s: row %d, column %d: %g", name, (int)row, (int)i, (double)(items[i] * factor));
    }
}

TEST(ternary_weights_are_held_exactly)
{
    static const char *const classes[] = {"", ",\"linear_class\":\"autobitlinear\""};
    for (int i = 0; i < 2; i++) {
        char directory[64], path[128], config[512];
        struct safetensors_writer writer = {0};
        struct gguf *gguf;
        struct error error;
        static const float table[512];
        const float scale = 1.7f, expected = i ? scale : 1.0f / scale;
        make_directory(directory);
        snprintf(
            config, sizeof config,
            "{\"model_type\":\"bitnet\",\"hidden_size\":512,\"num_hidden_layers\":1,"
            "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"tie_word_embeddings\":true,\"quantization_config\":{"
            "\"quant_method\":\"bitnet\"%s}}",
            classes[i]);
        snprintf(path, sizeof path, "%s/config.json", directory);
        write_file(path, config, strlen(config));
        put_entry(&writer, "model.embed_tokens.weight", "F32", 2, (uint64_t[2]){1, 512}, table, sizeof table);
        put_ternary(&writer, "model.layers.0.self_attn.q_proj.weight", 512, scale);
        put_ternary(&writer, "model.layers.0.mlp.down_proj.weight", 96, scale);
        snprintf(path, sizeof path, "%s/model.safetensors", directory);
        write_safetensors(&writer, path);
        assert_ok(model_folder_open(&gguf, directory, &error), &error);
        assert_ternary(gguf, "attn_q", 512, expected, TENSOR_TQ2_0);
        assert_ternary(gguf, "ffn_down", 96, expected, TENSOR_F32); // no whole blocks
        gguf_close(gguf);
        put_entry(&writer, "model.embed_tokens.weight", "F32", 2, (uint64_t[2]){1, 512}, table, sizeof table);
        put_entry(&writer, "model.layers.0.self_attn.q_proj.weight", "U8", 2, (uint64_t[2]){1, 512}, table,
                  512);
        write_safetensors(&writer, path);
        assert_int_equal(model_folder_open(&gguf, directory, &error), STATUS_REFUSE);
        assert_non_null(strstr(error.text, "q_proj.weight_scale is missing"));
        remove_directory(directory);
    }
}
