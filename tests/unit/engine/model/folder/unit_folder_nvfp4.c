// Folders of NVFP4: each weight is what the authors' formats say, computed here from the bytes of the files;
// settings and tensors that are otherwise are refused by name.
#include "engine/model/folder/model_folder.h"
#include "tests/support/cases.h"
#include "tests/support/safetensors_writer.h"

#include <math.h>

enum { WIDTH = 128, N_HEADS = 4, HEAD = WIDTH / N_HEADS, N_VOCAB = 8, N_EXPERTS = 3, N_FF = 64 };

// One way of storing, and one fault in it.
struct storing {
    bool packed;             // compressed-tensors; else ModelOpt
    const char *config;      // of config.json, after the sizes
    const char *more_config; // hf_quant_config.json
    const char *faulty;      // the matrix with the fault
    const char *drop;        // an ending that it lacks
    const char *items_dtype, *scales_dtype;
    uint64_t n_columns; // of its items
};

static const char modelopt[] =
    ",\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\","
    "\"config_groups\":{},\"ignore\":[\"lm_head\"]}",
                  compressed[] =
                      ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
                      "\"nvfp4-pack-quantized\",\"config_groups\":{},\"transform_config\":{},"
                      "\"sparsity_config\":{},\"kv_cache_scheme\":null}";

// --- Writing ---

static uint32_t next_word(uint64_t *state) // xorshift64*
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(*state * 0x2545F4914F6CDD1Du >> 32);
}

static uint64_t seed_of(const char *name)
{
    uint64_t sum = 0xCBF29CE484222325u;
    while (*name)
        sum = (sum ^ (unsigned char)*name++) * 0x100000001B3u;
    return sum;
}

// A matrix is a function of its name: items, scales (each but NaN, a few negative), and the factor.
struct stored {
    unsigned char items[N_FF * 4 * WIDTH / 2], scales[N_FF * 4 * WIDTH / 16];
    float factor;
};

static void store(struct stored *stored, const char *name)
{
    uint64_t state = seed_of(name);
    for (size_t i = 0; i < sizeof stored->items; i++)
        stored->items[i] = (unsigned char)next_word(&state);
    for (size_t i = 0; i < sizeof stored->scales; i++) {
        uint32_t word = next_word(&state);
        stored->scales[i] = (unsigned char)((word & 0x7F) % 0x7F | (word % 5 == 0 ? 0x80 : 0));
    }
    stored->factor = 0.25f + (float)next_word(&state) * 0x1p-32f;
}

static void put_part(struct safetensors_writer *writer, const struct storing *storing, bool faulty,
                     const char *name, const char *ending, const char *dtype, uint32_t n_dims,
                     const uint64_t *shape, const void *data, size_t size)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s%s", name, ending);
    if (!faulty || !storing->drop || strcmp(storing->drop, ending) != 0)
        put_entry(writer, whole, dtype, n_dims, shape, data, size);
}

static void put_matrix(struct safetensors_writer *writer, const struct storing *storing, const char *name,
                       uint64_t n_rows, uint64_t n_columns)
{
    static struct stored stored;
    bool faulty = storing->faulty && strcmp(storing->faulty, name) == 0, packed = storing->packed;
    const char *items_dtype = faulty && storing->items_dtype ? storing->items_dtype : "U8",
               *scales_dtype = faulty && storing->scales_dtype ? storing->scales_dtype : "F8_E4M3";
    n_columns = faulty && storing->n_columns ? storing->n_columns : n_columns;
    store(&stored, name);
    uint64_t items[2] = {n_rows, n_columns / 2}, scales[2] = {n_rows, n_columns / 16}, one[1] = {1};
    put_part(writer, storing, faulty, name, packed ? ".weight_packed" : ".weight", items_dtype, 2, items,
             stored.items, n_rows * n_columns / 2);
    put_part(writer, storing, faulty, name, ".weight_scale", scales_dtype, 2, scales, stored.scales,
             n_rows * n_columns / 16);
    put_part(writer, storing, faulty, name, packed ? ".weight_global_scale" : ".weight_scale_2", "F32",
             packed, one, &stored.factor, 4);
    put_part(writer, storing, faulty, name, packed ? ".input_global_scale" : ".input_scale", "F32", packed,
             one, &stored.factor, 4);
}

static void put_floats(struct safetensors_writer *writer, const char *name, uint32_t n_dims, uint64_t n_rows,
                       uint64_t n_columns)
{
    static const float zeros[N_VOCAB * WIDTH];
    uint64_t shape[2] = {n_rows, n_columns};
    put_entry(writer, name, "F32", n_dims, shape + 2 - n_dims, zeros, n_rows * n_columns * 4);
}

// A layer of Mixtral: rows that are reordered (q, k), matrices as they are (v, o), experts.
static void write_folder(const struct storing *storing, const char *directory)
{
    static const char config[] =
        "{\"model_type\":\"mixtral\",\"hidden_size\":128,\"intermediate_size\":64,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"max_position_embeddings\":64,\"num_local_experts\":3,"
        "\"num_experts_per_tok\":2%s}";
    struct safetensors_writer writer = {0};
    struct buffer json = {0};
    char path[128], name[96];
    buffer_add_format(&json, config, storing->config);
    snprintf(path, sizeof path, "%s/config.json", directory);
    write_file(path, json.data, json.size);
    buffer_finish(&json);
    snprintf(path, sizeof path, "%s/hf_quant_config.json", directory);
    if (storing->more_config)
        write_file(path, storing->more_config, strlen(storing->more_config));
    put_floats(&writer, "model.embed_tokens.weight", 2, N_VOCAB, WIDTH);
    put_floats(&writer, "lm_head.weight", 2, N_VOCAB, WIDTH);
    put_floats(&writer, "model.norm.weight", 1, 1, WIDTH);
    put_floats(&writer, "model.layers.0.input_layernorm.weight", 1, 1, WIDTH);
    put_floats(&writer, "model.layers.0.post_attention_layernorm.weight", 1, 1, WIDTH);
    put_floats(&writer, "model.layers.0.block_sparse_moe.gate.weight", 2, N_EXPERTS, WIDTH);
    put_floats(&writer, "model.layers.0.self_attn.k_proj.k_scale", 1, 1, 1);
    put_floats(&writer, "model.layers.0.self_attn.v_proj.v_scale", 1, 1, 1);
    put_matrix(&writer, storing, "model.layers.0.self_attn.q_proj", WIDTH, WIDTH);
    put_matrix(&writer, storing, "model.layers.0.self_attn.k_proj", WIDTH / 2, WIDTH);
    put_matrix(&writer, storing, "model.layers.0.self_attn.v_proj", WIDTH / 2, WIDTH);
    put_matrix(&writer, storing, "model.layers.0.self_attn.o_proj", WIDTH, WIDTH);
    for (int part = 1; part <= 3; part++)
        for (int expert = 0; expert < N_EXPERTS; expert++) {
            snprintf(name, sizeof name, "model.layers.0.block_sparse_moe.experts.%d.w%d", expert, part);
            put_matrix(&writer, storing, name, part == 2 ? WIDTH : N_FF, part == 2 ? N_FF : WIDTH);
        }
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    write_safetensors(&writer, path);
}

// --- Weights ---

// OCP's 8-bit floating point E4M3: bias 7, no infinities.
static float e4m3(int byte)
{
    int exponent = byte >> 3 & 15, fraction = byte & 7;
    double value = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return (float)(byte & 0x80 ? -value : value);
}

// Microscaling formats' E2M1.
static float e2m1(int item)
{
    static const float magnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return item & 8 ? -magnitudes[item & 7] : magnitudes[item & 7];
}

static float stored_weight(const struct stored *stored, size_t row, size_t column, size_t n_columns)
{
    size_t at = row * n_columns + column;
    return e2m1(stored->items[at / 2] >> (column % 2 * 4) & 15) * e4m3(stored->scales[at / 16]);
}

// Their row: by halves of a head where ours are pairs.
static size_t their_row(size_t row, bool rotated)
{
    return rotated ? row / HEAD * HEAD + row % 2 * (HEAD / 2) + row % HEAD / 2 : row;
}

static void assert_matrix(const struct gguf *gguf, bool packed, const char *ours, const char *theirs,
                          int expert, bool rotated)
{
    static struct stored stored;
    static float got[N_EXPERTS * WIDTH * WIDTH];
    char name[96];
    struct error error;
    snprintf(name, sizeof name, "blk.0.%s.weight", ours);
    const struct tensor *tensor = gguf_tensor(gguf, name);
    assert_ok(gguf_load(gguf, tensor, &error), &error);
    assert_int_equal(tensor->type, TENSOR_NVFP4);
    size_t n_columns = tensor->dims[0], n_rows = tensor->dims[1];
    tensor_traits(tensor->type)->dequantize(tensor->data, got, n_columns * n_rows * tensor->dims[2]);
    store(&stored, theirs);
    for (size_t i = 0; i < n_rows * n_columns; i++) {
        float expected = stored_weight(&stored, their_row(i / n_columns, rotated), i % n_columns, n_columns);
        if (got[(size_t)expert * n_rows * n_columns + i] != expected)
            fail_msg("%s, item %zu: expected %g, got %g", theirs, i, (double)expected,
                     (double)got[(size_t)expert * n_rows * n_columns + i]);
    }
    float factor, expected = packed ? 1.0f / stored.factor : stored.factor;
    snprintf(name, sizeof name, "blk.0.%s.scale", ours);
    const struct tensor *factors = gguf_tensor(gguf, name);
    assert_int_equal(factors->type, TENSOR_F32);
    assert_int_equal(factors->dims[0], tensor->dims[2]);
    memcpy(&factor, (const char *)factors->data + 4 * (size_t)expert, 4);
    assert_true(factor == expected);
}

TEST(weights_are_what_the_formats_say)
{
    static const struct storing ways[] = {
        {.config = modelopt},
        {.config = "",
         .more_config = "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":"
                        "\"NVFP4\",\"kv_cache_quant_algo\":\"FP8\",\"group_size\":16}}"},
        {.config = compressed, .packed = true},
    };
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        char directory[64], theirs[96];
        struct gguf *gguf;
        struct error error;
        bool packed = ways[way].packed;
        make_directory(directory);
        write_folder(&ways[way], directory);
        if (model_folder_open(&gguf, directory, &error) != STATUS_OK)
            fail_msg("way %zu: %s", way, error.text);
        assert_matrix(gguf, packed, "attn_q", "model.layers.0.self_attn.q_proj", 0, true);
        assert_matrix(gguf, packed, "attn_k", "model.layers.0.self_attn.k_proj", 0, true);
        assert_matrix(gguf, packed, "attn_v", "model.layers.0.self_attn.v_proj", 0, false);
        assert_matrix(gguf, packed, "attn_output", "model.layers.0.self_attn.o_proj", 0, false);
        for (int part = 1; part <= 3; part++)
            for (int expert = 0; expert < N_EXPERTS; expert++) {
                static const char *const ours[] = {"", "ffn_gate_exps", "ffn_down_exps", "ffn_up_exps"};
                snprintf(theirs, sizeof theirs, "model.layers.0.block_sparse_moe.experts.%d.w%d", expert,
                         part);
                assert_matrix(gguf, packed, ours[part], theirs, expert, false);
            }
        gguf_close(gguf);
        remove_directory(directory);
    }
}

// The largest, the least normal and the least numbers that OCP names, and others worked out by hand.
TEST(scales_are_e4m3)
{
    static const struct {
        int byte;
        float value;
    } known[] = {{0x00, 0.0f},  {0x01, 0.001953125f}, {0x07, 0.013671875f}, {0x08, 0.015625f},
                 {0x38, 1.0f},  {0x3C, 1.5f},         {0x45, 3.25f},        {0x7E, 448.0f},
                 {0xB8, -1.0f}, {0xFE, -448.0f},      {0x81, -0.001953125f}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(e4m3(known[i].byte) == known[i].value);
}

// --- Refusals ---

TEST(what_is_stored_otherwise_is_refused_by_name)
{
    static const char q[] = "model.layers.0.self_attn.q_proj";
    static const struct {
        struct storing storing;
        const char *words;
    } refused[] = {
        {{.config = ""}, "q_proj.weight: dtype U8"},
        {{.config = ",\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4_AWQ\"}"},
         "quantization_config"},
        {{.config = ",\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\","
                    "\"group_size\":32}"},
         "quantization_config"},
        {{.config = ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
                    "\"pack-quantized\"}",
          .packed = true},
         "quantization_config"},
        {{.config = ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
                    "\"nvfp4-pack-quantized\",\"transform_config\":{\"config_groups\":{\"u\":{}}}}",
          .packed = true},
         "quantization_config"},
        {{.config = ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":"
                    "\"mixed-precision\",\"config_groups\":{\"a\":{\"format\":\"float-quantized\"}}}",
          .packed = true},
         "quantization_config"},
        {{.config = "", .more_config = "{\"quantization\":{\"quant_algo\":\"W4A8_AWQ\"}}"},
         "hf_quant_config.json: \"quant_algo\" is \"W4A8_AWQ\""},
        {{.config = "", .more_config = "{}"}, "hf_quant_config.json: \"quant_algo\" is missing"},
        {{.config = modelopt, .faulty = q, .drop = ".weight_scale"}, "q_proj.weight_scale is missing"},
        {{.config = modelopt, .faulty = q, .drop = ".weight_scale_2"}, "q_proj.weight_scale_2 is missing"},
        {{.config = modelopt, .faulty = q, .drop = ".weight"}, "q_proj.weight_scale has no place"},
        {{.config = compressed, .packed = true, .faulty = q, .drop = ".weight_global_scale"},
         "q_proj.weight_global_scale is missing"},
        {{.config = compressed, .packed = true, .faulty = q, .items_dtype = "I8"},
         "q_proj.weight_packed: expected dtype U8, file has I8"},
        {{.config = modelopt, .faulty = q, .items_dtype = "F8_E4M3"}, "q_proj.weight: dtype F8_E4M3"},
        {{.config = modelopt, .faulty = q, .scales_dtype = "F8_E8M0"},
         "q_proj.weight_scale: expected dtype F8_E4M3, file has F8_E8M0"},
        {{.config = modelopt, .faulty = q, .n_columns = 96}, "rows of a multiple of 64 items"},
        {{.config = modelopt, .faulty = "model.layers.0.block_sparse_moe.experts.1.w1", .n_columns = 64},
         "experts.1.w1.weight: expected the shape and type of the others"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char directory[64];
        struct gguf *gguf = NULL;
        struct error error = {0};
        make_directory(directory);
        write_folder(&refused[i].storing, directory);
        if (model_folder_open(&gguf, directory, &error) != STATUS_REFUSE ||
            !strstr(error.text, refused[i].words))
            fail_msg("case %zu: expected \"%s\" in: %s", i, refused[i].words, error.text);
        remove_directory(directory);
    }
}
