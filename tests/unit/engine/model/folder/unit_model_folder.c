// Hugging Face folders: the same random weights written as GGUF and as a folder give the same logits, byte
// for byte. The folder is made of the GGUF file here, each tensor turned back into the form that its authors
// store.
#include "engine/cpu/backend.h"
#include "engine/embedding.h"
#include "engine/file/gguf_quantize.h"
#include "engine/logits.h"
#include "engine/model/folder/folder_parts.h"
#include "engine/model/folder/model_folder.h"
#include "tests/support/make_model.h"
#include "tests/support/safetensors_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { N_IDS = 24, N_VOCAB = 320 };

struct folder_case {
    const char *model_type, *made; // the test's name for the made family
    const char *config;            // further settings
    bool larger, tied;
    enum tensor_type experts_type; // the made model's
    // the language model's part of a larger one: its names begin so; "": names without "model."
    const char *prefix;
    bool nvfp4;   // the matrices, with factors; otherwise of each plain type
    int n_output; // rows of an output matrix without the last tokens; 0: all
};

static bool is_part(const struct folder_case *item)
{
    return item->prefix && *item->prefix;
}

struct making {
    const struct folder_case *item;
    const struct gguf *gguf;
    const char *directory;
    const char *name; // GGUF's
    uint32_t n_heads, n_kv_heads, head_dim;
    bool prefixed; // GPT-2: names with "transformer."
};

static uint32_t key_u32(const struct making *making, const char *suffix, uint32_t otherwise)
{
    char key[128];
    struct error error;
    uint32_t value = otherwise;
    snprintf(key, sizeof key, "%s.%s", making->name, suffix);
    return gguf_u32(making->gguf, key, &value, NULL, &error) == STATUS_OK ? value
                                                                          : otherwise; // else an array
}

// --- config.json ---

static void put_factors(const struct making *making, struct buffer *json, const char *name,
                        const char *tensor_name)
{
    const struct tensor *tensor = gguf_tensor(making->gguf, tensor_name);
    buffer_add_format(json, ",\"%s\":[", name);
    for (uint64_t i = 0; i < tensor->dims[0]; i++) {
        float item;
        memcpy(&item, (const char *)tensor->data + 4 * i, 4);
        buffer_add_format(json, "%s%.9g", i ? "," : "", (double)item);
    }
    buffer_add_string(json, "]");
}

static void put_setting(const struct making *making, struct buffer *json, const char *name,
                        const char *suffix)
{
    char key[128];
    struct error error;
    uint32_t integer = 0;
    float number = 0;
    bool found;
    snprintf(key, sizeof key, "%s.%s", making->name, suffix);
    if (gguf_u32(making->gguf, key, &integer, &found, &error) == STATUS_OK && found)
        buffer_add_format(json, ",\"%s\":%u", name, integer);
    else if (gguf_f32(making->gguf, key, &number, &found, &error) == STATUS_OK && found)
        buffer_add_format(json, ",\"%s\":%.9g", name, (double)number);
}

static void write_config(const struct making *making)
{
    // intermediate_size is the experts'
    bool blocks =
        strcmp(making->item->made, "minimax-m3") == 0 || strcmp(making->item->made, "cohere2moe") == 0;
    const char *const keys[][2] = {
        {"hidden_size", "embedding_length"},
        {"num_hidden_layers", "block_count"},
        {blocks ? "dense_intermediate_size" : "intermediate_size", "feed_forward_length"},
        {"num_attention_heads", "attention.head_count"},
        {"num_key_value_heads", "attention.head_count_kv"},
        {"max_position_embeddings", "context_length"},
        {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
        {"layer_norm_eps", "attention.layer_norm_epsilon"},
        {"rope_theta", "rope.freq_base"},
        {"sliding_window", "attention.sliding_window"},
        {"attn_logit_softcapping", "attn_logit_softcapping"},
        {"final_logit_softcapping", "final_logit_softcapping"},
        {"num_experts", "expert_count"},
        {"n_shared_experts", "expert_shared_count"},
        {"first_k_dense_replace", "leading_dense_block_count"},
        {"routed_scaling_factor", "expert_weights_scale"},
        {"n_group", "expert_group_count"},
        {"topk_group", "expert_group_used_count"},
        {"kv_lora_rank", "attention.kv_lora_rank"},
        {"q_lora_rank", "attention.q_lora_rank"},
        {"index_n_heads", "attention.indexer.head_count"},
        {"index_head_dim", "attention.indexer.key_length"},
        {"index_topk", "attention.indexer.top_k"},
        {"num_nextn_predict_layers", "nextn_predict_layers"},
        {"num_experts_per_tok", "expert_used_count"},
        {blocks ? "intermediate_size" : "moe_intermediate_size", "expert_feed_forward_length"},
        {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
        // Muse Glimmer's is qk_scale_factor
        {strcmp(making->item->model_type, "muse_glimmer_text") ? "attention_multiplier" : "unknown",
         "attention.scale"},
        {"embedding_multiplier", "embedding_scale"},
        {"residual_multiplier", "residual_scale"},
        {strncmp(making->item->model_type, "cohere", 6) ? "logits_scaling" : "logit_scale", "logit_scale"},
    };
    struct buffer json = {0};
    char path[128];
    if (is_part(making->item))
        buffer_add_format(&json, "{\"model_type\":\"%.*s\",\"vision_config\":{},\"text_config\":",
                          (int)(strlen(making->item->model_type) - strlen("_text")),
                          making->item->model_type);
    buffer_add_format(&json, "{\"model_type\":\"%s\"%s", making->item->model_type, making->item->config);
    bool latent = key_u32(making, "attention.kv_lora_rank", 0) > 0;
    if (!latent)
        buffer_add_format(&json, ",\"head_dim\":%u", making->head_dim);
    else
        buffer_add_format(&json, ",\"qk_rope_head_dim\":8,\"qk_nope_head_dim\":%u", making->head_dim - 8);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put_setting(making, &json, keys[i][0], keys[i][1]);
    uint32_t n_rope = key_u32(making, "rope.dimension_count", making->head_dim);
    if (n_rope < making->head_dim && !latent)
        buffer_add_format(&json, ",\"partial_rotary_factor\":%.9g", (double)n_rope / making->head_dim);
    if (gguf_tensor(making->gguf, "rope_factors_long.weight")) {
        buffer_add_format(&json,
                          ",\"original_max_position_embeddings\":%u,\"rope_scaling\":{\"type\":\"longrope\"",
                          key_u32(making, "rope.scaling.original_context_length", 0));
        put_factors(making, &json, "short_factor", "rope_factors_short.weight");
        put_factors(making, &json, "long_factor", "rope_factors_long.weight");
        buffer_add_string(&json, "}");
    }
    buffer_add_format(&json, ",\"tie_word_embeddings\":%s}",
                      gguf_tensor(making->gguf, "output.weight") ? "false" : "true");
    if (is_part(making->item))
        buffer_add_string(&json, "}");
    snprintf(path, sizeof path, "%s/config.json", making->directory);
    write_file(path, json.data, json.size);
    buffer_finish(&json);
}

// --- Weights: the inverse of what opening does ---

// The row of theirs that is row `row` of ours: written for the test, from the reshapes of the
// authors' code.
static size_t their_row(const struct making *making, enum folder_form form, size_t row, size_t n_rows)
{
    size_t heads = form == FORM_ROWS_K ? making->n_kv_heads : making->n_heads, d = making->head_dim;
    if (form == FORM_ROWS_TURNED)
        return row - row % d + (row % d + d / 2) % d;
    if (form == FORM_ROWS_Q || form == FORM_ROWS_K) {
        size_t half = n_rows / heads / 2, head = row / (2 * half), pair = row % (2 * half) / 2;
        return head * 2 * half + (row % 2 ? half : 0) + pair;
    }
    size_t n = making->n_heads, kv = making->n_kv_heads, head = row / d, at = row % d;
    if (form == FORM_ROWS_PAIRED)
        return head < n + kv ? head * d + at % 2 * (d / 2) + at / 2 : row;
    if (form == FORM_ROWS_BY_HEAD) // [heads][q, k, v][head_dim]
        return (head % n * 3 + head / n) * d + at;
    if (form == FORM_ROWS_BY_GROUP_PAIRED && head < n + kv)
        at = at % 2 * (d / 2) + at / 2;
    size_t share = n / kv; // [key-value heads][its queries, k, v][head_dim]
    if (head < n)
        return (head / share * (share + 2) + head % share) * d + at;
    return ((head - n) % kv * (share + 2) + share + (head - n) / kv) * d + at;
}

static void put_transformed(const struct making *making, struct safetensors_writer *writer, const char *name,
                            enum folder_form form, const struct tensor *tensor, const char *data, bool bias)
{
    static const char *const dtypes[] = {[TENSOR_F32] = "F32", [TENSOR_F16] = "F16", [TENSOR_BF16] = "BF16"};
    uint64_t shape[2] = {tensor->dims[1], tensor->dims[0]};
    uint32_t n_dims = tensor->n_dims == 1 ? 1 : 2;
    if (tensor->n_dims == 3) { // of all experts, as they are
        uint64_t dims[3] = {tensor->dims[2], tensor->dims[1], tensor->dims[0]};
        put_entry(writer, name, dtypes[tensor->type], 3, dims, data, tensor->size_bytes);
        return;
    }
    size_t item = tensor_traits(tensor->type)->block_bytes;
    size_t n_rows = tensor->n_dims == 1 ? tensor->dims[0] : tensor->dims[1];
    size_t row_bytes = tensor->n_dims == 1 ? item : tensor->dims[0] * item, size = n_rows * row_bytes;
    char *out = malloc(size);
    memcpy(out, data, size);
    if (form == FORM_ADD_ONE && !bias) {
        for (size_t i = 0; i < n_rows; i++) {
            float value;
            memcpy(&value, data + 4 * i, 4);
            value -= 1.0f; // exact for numbers between 1/2 and 2
            memcpy(out + 4 * i, &value, 4);
        }
    } else if (form == FORM_TRANSPOSED && !bias) {
        for (size_t r = 0; r < tensor->dims[1]; r++)
            for (size_t c = 0; c < tensor->dims[0]; c++)
                memcpy(out + (c * tensor->dims[1] + r) * item, data + (r * tensor->dims[0] + c) * item, item);
        shape[0] = tensor->dims[0];
        shape[1] = tensor->dims[1];
    } else if (form >= FORM_ROWS_Q && form <= FORM_ROWS_BY_GROUP_PAIRED) {
        for (size_t r = 0; r < n_rows; r++)
            memcpy(out + their_row(making, form, r, n_rows) * row_bytes, data + r * row_bytes, row_bytes);
    }
    if (form == FORM_PADDED && making->item->n_output) {
        shape[0] = (uint64_t)making->item->n_output;
        size = shape[0] * row_bytes;
    }
    put_entry(writer, name, dtypes[tensor->type], n_dims, n_dims == 1 ? shape + 1 : shape, out, size);
    free(out);
}

// NVFP4 as ModelOpt stores it: GGUF's blocks taken apart into items, two neighbors a byte, and scales; the
// factor beside them.
static void put_nvfp4(const struct making *making, struct safetensors_writer *writer, const char *name,
                      enum folder_form form, const struct tensor *tensor, const unsigned char *blocks,
                      float factor)
{
    size_t n_rows = tensor->dims[1], n_blocks = tensor->dims[0] / 64;
    unsigned char *items = calloc(n_rows * n_blocks, 32), *scales = calloc(n_rows * n_blocks, 4);
    for (size_t i = 0; i < n_rows * n_blocks; i++, blocks += 36) {
        size_t row = i / n_blocks;
        if (form >= FORM_ROWS_Q && form <= FORM_ROWS_BY_GROUP_PAIRED)
            row = their_row(making, form, row, n_rows);
        size_t at = row * n_blocks + i % n_blocks;
        memcpy(scales + 4 * at, blocks, 4);
        for (int j = 0; j < 64; j++) {
            int byte = blocks[4 + j / 16 * 8 + j % 8], item = j % 16 < 8 ? byte & 15 : byte >> 4;
            items[32 * at + (size_t)j / 2] |= (unsigned char)(item << (j % 2 * 4));
        }
    }
    char other[160];
    put_entry(writer, name, "U8", 2, (uint64_t[2]){n_rows, n_blocks * 32}, items, n_rows * n_blocks * 32);
    snprintf(other, sizeof other, "%s_scale", name);
    put_entry(writer, other, "F8_E4M3", 2, (uint64_t[2]){n_rows, n_blocks * 4}, scales,
              n_rows * n_blocks * 4);
    snprintf(other, sizeof other, "%s_scale_2", name);
    put_entry(writer, other, "F32", 0, NULL, &factor, sizeof factor);
    snprintf(other, sizeof other, "%.*s.input_scale", (int)(strlen(name) - strlen(".weight")), name);
    put_entry(writer, other, "F32", 0, NULL, &factor, sizeof factor);
    free(items);
    free(scales);
}

// The embedding, which stays in float32.
static void put_dequantized(struct safetensors_writer *writer, const char *name, const struct tensor *tensor)
{
    size_t n = tensor->dims[0] * tensor->dims[1];
    float *items = malloc(n * sizeof *items);
    tensor_traits(tensor->type)->dequantize(tensor->data, items, n);
    put_entry(writer, name, "F32", 2, (uint64_t[2]){tensor->dims[1], tensor->dims[0]}, items,
              n * sizeof *items);
    free(items);
}

// The factor of matrix i beside ours.
static float factor_of(const struct making *making, const char *ours, uint64_t i)
{
    char name[64];
    float factor = 1.0f;
    snprintf(name, sizeof name, "%.*s.scale", (int)(strlen(ours) - strlen(".weight")), ours);
    const struct tensor *tensor = gguf_tensor(making->gguf, name);
    if (tensor)
        memcpy(&factor, (const char *)tensor->data + i * sizeof factor, sizeof factor);
    return factor;
}

// Phi's q, k and v stand one by one there and in one tensor here.
static bool cut_fused(const struct making *making, const char *to, int layer, const char *suffix,
                      struct tensor *part)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    char name[64];
    snprintf(name, sizeof name, "blk.%d.attn_qkv%s", layer, suffix);
    const struct tensor *whole = gguf_tensor(making->gguf, name);
    uint64_t rows[3] = {making->n_heads, making->n_kv_heads, making->n_kv_heads}, first = 0;
    for (int i = 0; i < 3 && whole; first += rows[i] * making->head_dim, i++) {
        if (strcmp(parts[i], to) != 0)
            continue;
        int dim = whole->n_dims == 1 ? 0 : 1;
        uint64_t row_bytes = whole->size_bytes / whole->dims[dim];
        *part = *whole;
        part->data = (const char *)whole->data + first * row_bytes;
        part->dims[dim] = rows[i] * making->head_dim;
        part->size_bytes = part->dims[dim] * row_bytes;
        return true;
    }
    return false;
}

// Experts' matrices in one tensor, of ours: `gate` and perhaps `up`, mixed as the form says; the reverse of
// folder_experts.c, written item by item.
static void put_mixed(struct safetensors_writer *writer, const char *name, enum folder_form form,
                      const struct tensor *gate, const struct tensor *up)
{
    static const char *const dtypes[] = {[TENSOR_F32] = "F32", [TENSOR_F16] = "F16", [TENSOR_BF16] = "BF16"};
    bool vectors = gate->n_dims == 2, turned = form >= FORM_EVEN && !vectors;
    size_t item = tensor_traits(gate->type)->block_bytes, n_parts = up ? 2 : 1;
    size_t n_cols = vectors ? 1 : gate->dims[0], n_rows = vectors ? gate->dims[0] : gate->dims[1];
    size_t n_experts = vectors ? gate->dims[1] : gate->dims[2], all = n_rows * n_parts;
    char *out = malloc(n_parts * gate->size_bytes);
    for (size_t e = 0; e < n_experts; e++)
        for (size_t r = 0; r < all; r++)
            for (size_t c = 0; c < n_cols; c++) {
                bool halves = form == FORM_FIRST_HALF || form == FORM_FIRST_COLUMNS;
                const struct tensor *from = (halves ? r >= n_rows : r % n_parts != 0) ? up : gate;
                size_t row = halves ? r % n_rows : r / n_parts;
                size_t to = turned ? (e * n_cols + c) * all + r : (e * all + r) * n_cols + c;
                memcpy(out + to * item, (const char *)from->data + ((e * n_rows + row) * n_cols + c) * item,
                       item);
            }
    uint64_t shape[3] = {n_experts, turned ? n_cols : all, turned ? all : n_cols};
    put_entry(writer, name, dtypes[gate->type], vectors ? 2 : 3, shape, out, n_parts * gate->size_bytes);
    free(out);
}

// MXFP4: GGUF's blocks of 17 bytes taken apart into 16 bytes of items, two neighbors each, and the
// exponents.
static void put_blocks(struct safetensors_writer *writer, const char *name, const struct tensor *gate,
                       const struct tensor *up)
{
    size_t n_parts = up ? 2 : 1, n_blocks = gate->dims[0] / 32, n_rows = gate->dims[1] * n_parts;
    size_t n_experts = gate->dims[2], n = n_experts * n_rows * n_blocks;
    unsigned char *items = calloc(n, 16), *scales = calloc(n, 1);
    for (size_t i = 0; i < n; i++) {
        size_t row = i / n_blocks % n_rows, expert = i / n_blocks / n_rows;
        const struct tensor *from = row % n_parts ? up : gate;
        const unsigned char *block = from->data;
        block += ((expert * gate->dims[1] + row / n_parts) * n_blocks + i % n_blocks) * 17;
        scales[i] = block[0];
        for (int j = 0; j < 32; j++) {
            int nibble = j < 16 ? block[1 + j] & 15 : block[1 + j - 16] >> 4;
            items[i * 16 + (size_t)j / 2] |= (unsigned char)(nibble << (j % 2 * 4));
        }
    }
    char other[128];
    snprintf(other, sizeof other, "%.*sscales", (int)(strlen(name) - strlen("blocks")), name);
    put_entry(writer, name, "U8", 4, (uint64_t[4]){n_experts, n_rows, n_blocks, 16}, items, n * 16);
    put_entry(writer, other, "U8", 3, (uint64_t[3]){n_experts, n_rows, n_blocks}, scales, n);
    free(items);
    free(scales);
}

// A rule whose names are whole.
// A row for texts, and one for images.
static void put_two_rows(struct safetensors_writer *writer, const char *name, const struct tensor *tensor)
{
    float rows[2][4] = {{0}, {9.0f, -9.0f, 9.0f, -9.0f}};
    assert_true(tensor->type == TENSOR_F32 && tensor->dims[0] == 4);
    memcpy(rows[0], tensor->data, sizeof rows[0]);
    put_entry(writer, name, "F32", 2, (uint64_t[2]){2, 4}, rows, sizeof rows);
}

static void put_whole(const struct making *making, struct safetensors_writer *writer,
                      const struct folder_rule *rule, int layer)
{
    char name[128], ours[64];
    const char *star = strchr(rule->from, '*');
    const char *from = rule->from + 1, *prefix = is_part(making->item) ? making->item->prefix : "";
    from += *prefix ? strlen("model.") : 0;
    snprintf(name, sizeof name, "%s%.*s%d%s", prefix, (int)(star - from), from, layer, star + 1);
    snprintf(ours, sizeof ours, "blk.%d.%s", layer, rule->to);
    const struct tensor *tensor = gguf_tensor(making->gguf, ours), *up = NULL;
    enum folder_form form = rule->form;
    if (!tensor || form == FORM_ODD || form == FORM_ODD_MXFP4 || form == FORM_SECOND_HALF ||
        form == FORM_SECOND_COLUMNS || (tensor->type == TENSOR_MXFP4) != (form >= FORM_EVEN_MXFP4))
        return;
    if (form == FORM_EVEN || form == FORM_EVEN_MXFP4 || form == FORM_FIRST_HALF ||
        form == FORM_FIRST_COLUMNS) {
        snprintf(ours, sizeof ours, "blk.%d.ffn_up_exps%s", layer, strrchr(rule->to, '.'));
        up = gguf_tensor(making->gguf, ours);
    }
    if (form == FORM_FIRST_ROWS) {
        put_two_rows(writer, name, tensor);
    } else if (form >= FORM_EVEN_MXFP4) {
        put_blocks(writer, name, tensor, up);
    } else if (form == FORM_AS_IS || form == FORM_FLOAT32) {
        static const char *const dtypes[] = {
            [TENSOR_F32] = "F32", [TENSOR_F16] = "F16", [TENSOR_BF16] = "BF16"};
        uint64_t shape[3] = {0};
        for (uint32_t i = 0; i < tensor->n_dims; i++)
            shape[i] = tensor->dims[tensor->n_dims - 1 - i];
        put_entry(writer, name, dtypes[tensor->type], tensor->n_dims, shape, tensor->data,
                  tensor->size_bytes);
    } else {
        put_mixed(writer, name, form, tensor, up);
    }
}

static void put_rule(const struct making *making, struct safetensors_writer *writer,
                     const struct folder_rule *rule, int layer, const char *suffix)
{
    char name[128], ours[64];
    if (*rule->from == '=') {
        if (strcmp(suffix, ".weight") == 0)
            put_whole(making, writer, rule, layer);
        return;
    }
    if (layer < 0)
        snprintf(ours, sizeof ours, "%s%s", rule->to, suffix);
    else
        snprintf(ours, sizeof ours, "blk.%d.%s%s", layer, rule->to, suffix);
    const struct tensor *tensor = gguf_tensor(making->gguf, ours);
    struct tensor cut;
    if (!tensor && cut_fused(making, rule->to, layer, suffix, &cut))
        tensor = &cut;
    if (!tensor)
        return;
    struct tensor part = *tensor;
    uint64_t n_parts = 1;
    if (rule->form == FORM_STACKED)
        n_parts = tensor->dims[--part.n_dims];
    for (uint64_t i = 0; i < n_parts; i++) {
        size_t size = 0;
        const char *prefix = making->item->prefix;
        bool model = strncmp(rule->from, "model.", 6) == 0;
        if (is_part(making->item)) // of a model of images and text
            size = (size_t)sprintf(name, "%s",
                                   model                               ? prefix
                                   : strncmp(prefix, "model.", 6) == 0 ? ""
                                                                       : "language_model.");
        for (const char *from = rule->from + (prefix && model ? 6 : 0); *from; from++) {
            if (*from == '*')
                size += (size_t)sprintf(name + size, "%d", layer);
            else if (*from == '{')
                size += (size_t)sprintf(name + size, "%llu", (unsigned long long)i), from++;
            else
                name[size++] = *from;
        }
        sprintf(name + size, "%s", suffix);
        const char *data = (const char *)tensor->data + tensor->size_bytes / n_parts * i;
        if (part.type == TENSOR_NVFP4 && layer < 0 && strcmp(rule->to, "token_embd") == 0)
            put_dequantized(writer, name, &part);
        else if (part.type == TENSOR_NVFP4)
            put_nvfp4(making, writer, name, rule->form, &part, (const unsigned char *)data,
                      factor_of(making, ours, i));
        else
            put_transformed(making, writer, name, rule->form, &part, data, strcmp(suffix, ".bias") == 0);
    }
}

// Of several names for one tensor the first that fits the model: with and without GPT-2's prefix, Falcon's
// two kinds, Mistral 4's experts.
static bool is_meant(const struct making *making, const struct folder_rule *rule)
{
    if ((strcmp(making->name, "gpt2") == 0 || strcmp(making->name, "bloom") == 0) &&
        strcmp(rule->to, "output"))
        return (strncmp(rule->from, "transformer.", 12) == 0) == making->prefixed;
    if (strcmp(making->name, "mistral4") == 0) // the experts' matrices together
        return strstr(rule->from, ".experts.{}") == NULL;
    if (strcmp(making->name, "laguna") == 0 || strcmp(making->name, "mimo2") == 0) // transformers' own names
        return strstr(rule->from, "mlp.experts.e_score") == NULL && strstr(rule->from, "sink_bias") == NULL;
    if (strcmp(making->name, "minimax-m3") == 0) // the authors' names
        return strstr(rule->from, ".indexer.") == NULL && strstr(rule->from, "gate_up_proj") == NULL &&
               strstr(rule->from, "mlp.experts.") == NULL &&
               strstr(rule->from, "mlp.shared_experts.") == NULL &&
               strstr(rule->from, "mlp.gate.e_score") == NULL &&
               strcmp(rule->from, "model.layers.*.mlp.gate") != 0;
    if (strcmp(making->name, "falcon") == 0 && strcmp(rule->to, "attn_norm") == 0)
        return (strstr(rule->from, "ln_mlp") != NULL) == making->item->larger;
    return true;
}

// Parameters of Apertus's activation: keys of ours, tensors of one item of theirs.
static void write_xielu(const struct making *making, struct safetensors_writer *writer, int layer)
{
    static const char *const names[] = {"alpha_p", "alpha_n", "beta", "eps"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[64], name[128];
        struct gguf_array items = {0};
        struct error error;
        snprintf(key, sizeof key, "xielu.%s", names[i]);
        snprintf(name, sizeof name, "%slayers.%d.mlp.act_fn.%s", making->item->prefix, layer, names[i]);
        assert_int_equal(gguf_array(making->gguf, key, &items, NULL, &error), STATUS_OK);
        put_entry(writer, name, "F32", 1, (uint64_t[1]){1}, (const char *)items.data + 4 * layer, 4);
    }
}

static void write_weights(const struct making *making)
{
    const struct folder_family *family = folder_family_find(text_from_string(making->item->model_type));
    struct safetensors_writer writer = {0};
    char path[128];
    for (const struct folder_rule *rule = family->globals; rule->from; rule++)
        for (int bias = 0; bias < 2 && is_meant(making, rule); bias++)
            put_rule(making, &writer, rule, -1, bias ? ".bias" : ".weight");
    for (int layer = 0; layer < (int)key_u32(making, "block_count", 0); layer++)
        for (const struct folder_rule *rule = family->layers; rule->from; rule++)
            for (int bias = 0; bias < 2 && is_meant(making, rule); bias++)
                put_rule(making, &writer, rule, layer, bias ? ".bias" : ".weight");
    if (strcmp(making->item->model_type, "ernie4_5_vl_moe_text") == 0) { // experts and a router for images
        put_entry(&writer, "model.layers.1.mlp.gate.weight_1", "F32", 1, (uint64_t[1]){1}, "\0\0\0\0", 4);
        put_entry(&writer, "model.layers.1.mlp.experts.4.up_proj.weight", "F32", 1, (uint64_t[1]){1},
                  "\0\0\0\0", 4);
    }
    for (int layer = 0; layer < 3 && strcmp(making->name, "apertus") == 0; layer++)
        write_xielu(making, &writer, layer);
    static const char *const towers[] = {// what sees images
                                         "vision_tower.x.weight",
                                         "model.vision_encoder.x.weight",
                                         "model.visual_embeddings_table.weight",
                                         "model.layerwise_projectors.0.query",
                                         "model.spatial_projectors.0.query",
                                         "model.density_router.x.weight",
                                         "mlp_AR.x.weight",
                                         "vit.x.weight",
                                         "model.vision_tokenizer.x.weight",
                                         "model.audio_tokenizer.x.weight"};
    for (size_t i = 0; i < sizeof towers / sizeof *towers && is_part(making->item); i++)
        put_entry(&writer, towers[i], "F32", 1, (uint64_t[1]){1}, "\0\0\0\0", 4);
    snprintf(path, sizeof path, "%s/model.safetensors", making->directory);
    write_safetensors(&writer, path);
}

// --- Logits ---

static void compute_logits(const char *path, enum tensor_type type, float logits[N_IDS * N_VOCAB])
{
    struct error error;
    struct gguf *gguf;
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 97 + 13) % N_VOCAB;
    if (model_folder_open(&gguf, path, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    if (type != TENSOR_F32)
        assert_int_equal(gguf_quantize(&gguf, gguf, type, NULL, &error), STATUS_OK);
    if (model_open_taking(&model, gguf, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_int_equal(pool_create(&pool, 2, &error), STATUS_OK);
    assert_int_equal(cpu_backend_create(&backend, pool, CPU_AVX512, &error), STATUS_OK);
    if (logits_of_text(model, backend, KV_F32, ids, N_IDS, logits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
}

// Writes the made model as a folder.
static void write_folder(const struct folder_case *item, const char *path, const char *directory,
                         bool prefixed)
{
    struct making making = {.item = item, .directory = directory, .prefixed = prefixed};
    struct gguf *gguf;
    struct error error;
    struct text name = {0};
    static char copy[32];
    assert_int_equal(gguf_open(&gguf, path, &error), STATUS_OK);
    assert_int_equal(gguf_text(gguf, "general.architecture", &name, NULL, &error), STATUS_OK);
    snprintf(copy, sizeof copy, "%.*s", (int)name.size, name.data);
    making.gguf = gguf;
    making.name = copy;
    making.n_heads = key_u32(&making, "attention.head_count", 1); // an array where layers differ
    making.n_kv_heads = key_u32(&making, "attention.head_count_kv", making.n_heads);
    making.head_dim =
        key_u32(&making, "attention.key_length", key_u32(&making, "embedding_length", 0) / making.n_heads);
    making.head_dim = key_u32(&making, "attention.key_length_swa", making.head_dim);
    write_config(&making);
    write_weights(&making);
    gguf_close(gguf);
}

// Normalized squared error.
static double distance_of(const float *logits, const float *expected)
{
    double error = 0, norm = 0;
    for (int i = 0; i < N_IDS * N_VOCAB; i++) {
        double off = (double)logits[i] - (double)expected[i];
        error += off * off;
        norm += (double)expected[i] * (double)expected[i];
    }
    return error / norm;
}

// As an output matrix without the last tokens has them.
static void prune(const struct folder_case *item, float *logits)
{
    for (int i = 0; i < N_IDS * N_VOCAB && item->n_output; i++)
        if (i % N_VOCAB >= item->n_output)
            logits[i] = -1e30f;
}

static void logits_equal_those_of_the_same_weights_as_gguf(void **state)
{
    static float logits[2][N_IDS * N_VOCAB];
    const struct folder_case *item = *state;
    static const enum tensor_type stored[] = {TENSOR_F32, TENSOR_BF16, TENSOR_F16};
    for (int i = 0; i < (item->nvfp4 ? 1 : 3); i++) {
        char directory[64], path[96];
        make_directory(directory);
        snprintf(path, sizeof path, "%s/model.gguf", directory);
        make_model(path, &(struct model_recipe){.family = item->made,
                                                .seed = 7,
                                                .type = item->nvfp4 ? TENSOR_NVFP4 : stored[i],
                                                .scaled = item->nvfp4,
                                                .n_embd = item->nvfp4 ? 128 : 0,
                                                .larger = item->larger,
                                                .tied = item->tied,
                                                .n_layers = 3,
                                                .n_ff = item->experts_type || item->nvfp4 ? 128 : 0,
                                                .experts_type = item->experts_type,
                                                .head_dim = strstr("qwen3 gemma", item->made) ? 32 : 0});
        write_folder(item, path, directory, i == 0);
        compute_logits(path, TENSOR_F32, logits[0]);
        compute_logits(directory, TENSOR_F32, logits[1]);
        prune(item, logits[0]);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        if (i == 1 || item->nvfp4) { // quantized when they are loaded
            static float stored_as[N_IDS * N_VOCAB];
            memcpy(stored_as, logits[0], sizeof stored_as);
            compute_logits(path, TENSOR_Q8_0, logits[0]);
            compute_logits(directory, TENSOR_Q8_0, logits[1]);
            prune(item, logits[0]);
            assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
            double distance = distance_of(logits[0], stored_as);
            if (!(distance < 0.3)) // experts may be routed otherwise
                fail_msg("%s: quantized, the logits are %g from those before", item->made, distance);
        }
        remove_directory(directory);
    }
}

#define MXFP4 "\"quantization_config\":{\"quant_method\":\"mxfp4\"},"

#define NVFP4                                                                                                \
    ",\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"group_size\":16}"

#define LAYER_TYPES "[\"sliding_attention\",\"sliding_attention\",\"full_attention\"]"
#define TWO_HEADS   ",\"num_key_value_heads\":2,\"intermediate_size\":96"
#define GEMMA4                                                                                               \
    ",\"global_head_dim\":32,\"layer_types\":" LAYER_TYPES TWO_HEADS                                         \
    ",\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":10000.0},\"full_attention\":"               \
    "{\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.5,\"rope_theta\":1000000.0}}"

#define THREE_KINDS ",\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\"]"
#define TWO_ROPES                                                                                            \
    ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":10000.0,\"partial_rotary_factor\":0.5},"       \
    "\"sliding_attention\":{\"rope_theta\":500.0,\"partial_rotary_factor\":1.0}}"
#define INDEXED ",\"v_head_dim\":12,\"n_group\":1,\"topk_group\":1,\"routed_scaling_factor\":1.0"

static struct folder_case cases[] = {
    {"mimo_v2_flash", "mimo2",
     ",\"num_attention_heads\":4,\"num_key_value_heads\":2,\"v_head_dim\":9,\"attention_value_scale\":0.625,"
     "\"swa_rope_theta\":500.0,\"hybrid_layer_pattern\":[0,1,1],\"moe_layer_freq\":[0,1,1]",
     false, false},
    {"step3p5", "step35",
     ",\"num_attention_heads\":4,\"num_attention_groups\":2,\"attention_other_setting\":{"
     "\"num_attention_heads\":8,\"num_attention_groups\":2},\"swiglu_limits\":[null,0.25,0.5],"
     "\"swiglu_limits_shared\":[0.0,0,0.125],\"share_expert_dim\":96" THREE_KINDS TWO_ROPES,
     false, false},
    {"laguna", "laguna",
     ",\"num_attention_heads\":4,\"num_key_value_heads\":2,\"num_attention_heads_per_layer\":[4,8,8],"
     "\"shared_expert_intermediate_size\":96" THREE_KINDS TWO_ROPES,
     false, false},
    {"deepseek_v32", "deepseek32", INDEXED, false, false},
    {"glm_moe_dsa", "glm-dsa", INDEXED ",\"indexer_types\":[\"full\",\"shared\",\"full\"]", false, false},
    {"llama", "llama", NVFP4, .nvfp4 = true},
    {"mixtral", "mixtral", NVFP4, .nvfp4 = true},
    {"qwen3_moe", "qwen3moe", ",\"norm_topk_prob\":true" NVFP4, .nvfp4 = true},
    {"phi3", "phi3", NVFP4, .nvfp4 = true},
    {"llama", "llama", ",\"hidden_act\":\"silu\"", false, false},
    {"llama", "llama", ",\"rope_scaling\":null", false, true},
    {"mistral", "mistral", "", false, false},
    {"mixtral", "mixtral", "", false, false},
    {"qwen2", "qwen2", ",\"use_sliding_window\":false,\"max_window_layers\":1", false, false},
    {"qwen2_moe", "qwen2moe", ",\"norm_topk_prob\":false,\"decoder_sparse_step\":1,\"mlp_only_layers\":[]",
     false, false},
    {"mimo", "qwen2", "", false, false},
    {"qwen3", "qwen3", "", false, false},
    {"qwen3", "qwen3", "", false, true, .prefix = ""},
    {"qwen3_moe", "qwen3moe", ",\"norm_topk_prob\":true", false, false},
    {"gemma", "gemma", ",\"hidden_act\":\"gelu\"", false, false},
    {"gemma2", "gemma2", ",\"hidden_activation\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":16", false,
     false},
    {"gemma3_text", "gemma3", ",\"query_pre_attn_scalar\":16", false, false},
    {"gemma3_text", "gemma3", ",\"query_pre_attn_scalar\":16", false, false, TENSOR_F32,
     "language_model.model."},
    {"gemma3_text", "gemma3", ",\"query_pre_attn_scalar\":16", false, false, TENSOR_F32,
     "model.language_model."},
    {"gemma4_text", "gemma4", GEMMA4 ",\"hidden_size_per_layer_input\":12", false, false},
    {"gemma4_text", "gemma4", GEMMA4 ",\"hidden_size_per_layer_input\":12", false, false, TENSOR_F32,
     "model.language_model."},
    {"gemma4_text", "gemma4",
     GEMMA4 ",\"hidden_size_per_layer_input\":0,\"enable_moe_block\":true,\"attention_k_eq_v\":true,"
            "\"num_global_key_value_heads\":1",
     true, false},
    {"gemma3n_text", "gemma3n",
     ",\"hidden_size_per_layer_input\":12,\"num_kv_shared_layers\":0,\"altup_num_inputs\":3,"
     "\"altup_active_idx\":1,\"activation_sparsity_pattern\":[0.6914624612740131,0.6914624612740131,0.0],"
     "\"layer_types\":" LAYER_TYPES TWO_HEADS,
     false, false},
    {"gpt_oss", "gpt-oss", ",\"rope_scaling\":{\"rope_type\":\"default\"}", false, false},
    {"gpt_oss", "gpt-oss", "," MXFP4 "\"rope_scaling\":{\"rope_type\":\"default\"}", false, false,
     TENSOR_MXFP4, NULL},
    {"gpt_oss", "gpt-oss",
     "," MXFP4 "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8.0,\"truncate\":false,"
     "\"original_max_position_embeddings\":16}",
     true, false, TENSOR_MXFP4, NULL},
    {"ministral3", "mistral3",
     ",\"rope_parameters\":{\"type\":\"yarn\",\"factor\":8.0,\"mscale\":1.0,\"mscale_all_dim\":1.0,"
     "\"llama_4_scaling_beta\":0.1,\"original_max_position_embeddings\":16,\"rope_theta\":10000.0}",
     true, false},
    {"smollm3", "smollm3", ",\"no_rope_layers\":[1,1,1,0]", false, false},
    {"glm4", "glm4", "", false, false},
    {"glm4_moe", "glm4moe", "", true, false},
    {"dots1", "dots1", ",\"norm_topk_prob\":true", false, false},
    {"deepseek_v2", "deepseek2", ",\"scoring_func\":\"softmax\",\"v_head_dim\":12", false, false},
    {"deepseek_v3", "deepseek2",
     ",\"v_head_dim\":12,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":8,\"mscale\":0.707,"
     "\"mscale_all_dim\":0.707,\"original_max_position_embeddings\":16}",
     true, false},
    {"seed_oss", "seed_oss", "", false, false},
    {"ernie4_5", "ernie4_5", "", false, false},
    {"cohere", "command-r", "", true, false},
    {"cohere2", "cohere2", "", false, false},
    {"cohere2_moe", "cohere2moe",
     ",\"expert_selection_fn\":\"sigmoid\",\"prefix_dense_intermediate_size\":96,\"sliding_window_pattern\":4,"
     "\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\"]",
     false, false},
    {"granitemoe", "granitemoe", "", false, false},
    {"olmo3", "olmo2", "", true, false},
    {"bloom", "bloom", "", false, true},
    {"phi3", "phi3", "", false, false},
    {"phi3", "phi3", "", true, false},
    {"phi", "phi2", ",\"hidden_act\":\"gelu_new\"", false, false},
    {"gpt2", "gpt2", ",\"activation_function\":\"gelu_new\"", false, true},
    {"gpt_neox", "gptneox", "", false, false},
    {"starcoder2", "starcoder2", "", false, false},
    {"stablelm", "stablelm", "", false, false},
    {"stablelm", "stablelm", "", true, false},
    {"falcon", "falcon", ",\"new_decoder_architecture\":true,\"num_kv_heads\":2,\"alibi\":false", false,
     false},
    {"falcon", "falcon", ",\"new_decoder_architecture\":true,\"num_kv_heads\":2", true, false},
    {"olmo2", "olmo2", "", false, false},
    {"internlm2", "internlm2", "", false, false},
    {"qwen3_vl_moe_text", "qwen3vlmoe", "", false, false},
    {"nemotron", "nemotron", ",\"hidden_act\":\"relu2\",\"partial_rotary_factor\":1.0", false, false},
    {"phimoe", "phimoe", "", false, false},
    {"llama4_text", "llama4",
     ",\"interleave_moe_layer_step\":2,\"floor_scale\":10,\"intermediate_size_mlp\":96", false, false},
    {"afmoe", "afmoe", ",\"mup_enabled\":true,\"num_dense_layers\":1,\"num_shared_experts\":2", false, false},
    {"exaone4", "exaone4", "", false, false},
    {"hunyuan_v1_moe", "hunyuan-moe", ",\"num_shared_expert\":[1,1]", false, false},
    {"minimax_m2", "minimax-m2", "", false, false},
    {"minimax_m3_vl_text", "minimax-m3",
     ",\"index_topk_blocks\":3,\"index_block_size\":5,\"shared_intermediate_size\":96,"
     "\"routed_scaling_factor\":1.0,\"layer_types\":[\"full_attention\",\"minimax_m3_sparse\","
     "\"minimax_m3_sparse\"]",
     false, false},
    {"minimax_m3_vl_text", "minimax-m3",
     ",\"sparse_attention_config\":{\"sparse_topk_blocks\":3,\"sparse_block_size\":5,\"sparse_local_block\":1,"
     "\"sparse_attention_freq\":[0,1,1]},\"shared_intermediate_size\":96,\"routed_scaling_factor\":1.0",
     false, false, .prefix = "language_model.model."},
    {"ernie4_5_moe", "ernie4_5-moe", ",\"moe_layer_end_index\":-1", false, false},
    {"granite", "granite", "", false, false},
    {"muse_glimmer_text", "muse-glimmer",
     ",\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\"],"
     "\"layer_rope_theta\":[0,10000.0,10000.0],\"post_norm_eps\":0.01,\"output_multiplier\":0.25,"
     "\"qk_scale_factor\":2.0",
     false, false, TENSOR_F32, "model.language_model."},
    {"granite_swa", "granite-swa", ",\"layer_rope_theta\":[0,10000.0,10000.0]", false, false},
    {"ministral", "mistral", "", false, false},
    {"exaone", "exaone", "", false, false},
    {"exaone_moe", "exaone-moe", ",\"routed_scaling_factor\":1.0", false, false},
    {"hy_v3", "hy_v3", ",\"router_scaling_factor\":1.0,\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\"]",
     false, false},
    {"hyperclovax", "hyperclovax", "", false, false},
    {"glm", "chatglm", "", false, false},
    {"mellum", "mellum",
     ",\"rope_parameters\":{\"rope_theta\":10000.0},\"layer_types\":[\"sliding_attention\","
     "\"sliding_attention\",\"sliding_attention\"]",
     false, false},
    {"sarvam_moe", "bailingmoe2", ",\"routed_scaling_factor\":1.0", false, false},
    {"bailing_moe", "bailingmoe2",
     ",\"score_function\":\"sigmoid\",\"n_group\":1,\"topk_group\":1,\"routed_scaling_factor\":1.0", false,
     false},
    {"flex_olmo", "flex_olmo", "", false, false},
    {"jais2", "jais2", "", false, false},
    {"vaultgemma", "vaultgemma", ",\"query_pre_attn_scalar\":16", false, false},
    {"mistral4", "mistral4", ",\"v_head_dim\":12,\"rope_parameters\":{\"rope_theta\":10000.0}", false, false},
    {"mistral4", "mistral4",
     ",\"v_head_dim\":12,\"rope_parameters\":{\"type\":\"yarn\",\"factor\":8.0,\"mscale\":1.0,\"mscale_all_dim\":1.0,"
     "\"llama_4_scaling_beta\":0.1,\"original_max_position_embeddings\":16,\"rope_theta\":10000.0}",
     true, false},
    {"minicpm", "minicpm", ",\"scale_emb\":12,\"scale_depth\":1.4,\"dim_model_base\":256", false, false},
    {"gpt_bigcode", "starcoder", "", false, false},
    {"gptj", "gptj", ",\"rotary_dim\":8", false, false},
    {"gpt_neo", "gpt_neo", ",\"attention_layers\":[\"local\",\"local\",\"local\"]", false, false},
    {"qwen2_vl_text", "qwen2vl", ",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[2,3,3]}", false,
     false, TENSOR_F32, "model."},
    {"qwen2_5_vl_text", "qwen2vl", "", false, false, TENSOR_F32, "model.language_model."},
    {"glm4v_text", "glm4", "", false, false, TENSOR_F32, "model.language_model."},
    {"apertus1p5_text", "apertus", ",\"vocab_size\":320,\"rope_parameters\":{\"rope_theta\":10000.0}", false,
     false, TENSOR_F32, "model.language_model."},
    {"apertus1p5_text", "apertus", ",\"vocab_size\":320,\"rope_parameters\":{\"rope_theta\":10000.0}", false,
     false, TENSOR_F32, "model.language_model.", .n_output = 250},
    {"bitnet", "bitnet", ",\"hidden_act\":\"silu\"", false, false},
    {"bitnet", "bitnet", ",\"hidden_act\":\"relu2\"", true, true},
    {"bailing_moe_softmax", "bailingmoe", ",\"norm_topk_prob\":false", false, false},
    {"modernbert-decoder", "modernbert-decoder",
     ",\"local_attention\":48,\"norm_eps\":1e-5,\"global_rope_theta\":10000.0,\"local_rope_theta\":500.0",
     false, false},
    {"modernbert-decoder", "modernbert-decoder", ",\"local_attention\":49,\"local_rope_theta\":500.0", true,
     true},
    {"olmo", "olmo", "", false, false},
    {"nanochat", "nanochat", ",\"final_logit_softcapping\":null", false, false},
    {"ernie4_5_vl_moe_text", "ernie4_5-moe", ",\"moe_layer_end_index\":-1,\"moe_num_experts\":[4,4]", false,
     false, TENSOR_F32, "model."},
    {"glm_ocr_text", "glm4", "", false, false, TENSOR_F32, "model.language_model."},
    {"granite4_vision_text", "granite", "", false, false, TENSOR_F32, "model.language_model."},
    {"granite_docling_text", "granite", "", false, true, TENSOR_F32, "model.text_model."},
    {"hunyuan_vl_text", "hunyuan-dense",
     ",\"rope_scaling\":{\"type\":\"xdrope\",\"alpha\":1,\"xdrope_section\":[2,2,2,2]}", false, false,
     TENSOR_F32, "model."},
    {"paddleocr_vl_text", "ernie4_5", "", false, false, TENSOR_F32, "model."},
};

// --- Folders ---

#define SIZES                                                                                                \
    "\"hidden_size\":2048,\"num_hidden_layers\":2,\"num_attention_heads\":32,\"max_position_embeddings\":"   \
    "131072"

static void assert_folder_refused(const char *directory, const char *words)
{
    struct gguf *gguf;
    struct error error = {0};
    assert_int_equal(model_folder_open(&gguf, directory, &error), STATUS_REFUSE);
    if (!strstr(error.text, words))
        fail_msg("expected \"%s\" in: %s", words, error.text);
}

static void an_output_of_more_rows_than_the_vocabulary_is_refused(void **state)
{
    static const struct folder_case item = {
        "apertus1p5_text",
        "apertus",
        ",\"vocab_size\":310,\"rope_parameters\":{\"rope_theta\":10000.0}",
        false,
        false,
        TENSOR_F32,
        "model."};
    char directory[64], path[96];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &(struct model_recipe){.family = item.made, .seed = 7, .n_layers = 3});
    write_folder(&item, path, directory, false);
    assert_folder_refused(directory, "at most 310 rows");
    remove_directory(directory);
    (void)state;
}

static void folders_that_lack_something_or_hold_too_much_are_refused(void **state)
{
    static const char config[] = "{\"model_type\":\"llama\"," SIZES "}";
    char directory[64], path[128];
    uint64_t shape[2] = {4, 4};
    static const float zeros[16];
    make_directory(directory);
    assert_folder_refused(directory, "without config.json");
    snprintf(path, sizeof path, "%s/config.json", directory);
    write_file(path, config, strlen(config));
    assert_folder_refused(directory, "model.safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    struct safetensors_writer writer = {0};
    put_entry(&writer, "model.surprise.weight", "F32", 2, shape, zeros, sizeof zeros);
    write_safetensors(&writer, path);
    assert_folder_refused(directory, "model.surprise.weight has no place in model_type llama");
    put_entry(&writer, "model.layers.0.rotary_emb.inv_freq", "F32", 2, shape, zeros, sizeof zeros);
    write_safetensors(&writer, path);
    assert_folder_refused(directory, "output matrix is missing");
    put_entry(&writer, "model.layers.0.self_attn.q_proj.weight", "F32", 2, shape, zeros, sizeof zeros);
    write_safetensors(&writer, path);
    assert_folder_refused(directory, "q_proj.weight: expected rows of as many heads");
    put_entry(&writer, "lm_head.weight", "F8_E4M3", 2, shape, zeros, 16);
    write_safetensors(&writer, path);
    assert_folder_refused(directory, "lm_head.weight: dtype F8_E4M3");
    remove_directory(directory);
}

// A llama as a folder, with further settings in config.json.
static void make_llama_folder(char directory[64], const char *config)
{
    char path[128];
    const struct folder_case item = {"llama", "llama", config, false, false};
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &(struct model_recipe){.seed = 1});
    write_folder(&item, path, directory, false);
}

static void assert_rows(const char *directory, const char *name, uint64_t n_cols, const float *items,
                        size_t n)
{
    struct gguf *gguf;
    struct error error = {0};
    if (model_folder_open(&gguf, directory, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    const struct tensor *tensor = gguf_tensor(gguf, name);
    assert_non_null(tensor);
    assert_int_equal(tensor->dims[0], n_cols);
    assert_int_equal(tensor->dims[1], n / n_cols);
    assert_int_equal(gguf_load(gguf, tensor, &error), STATUS_OK);
    assert_memory_equal(tensor->data, items, n * sizeof *items);
    gguf_close(gguf);
}

// OLMo Hybrid's projections; the parts may be cut anywhere.
static void rows_of_several_tensors_are_joined(void **state)
{
    static const char config[] =
        "{\"model_type\":\"olmo_hybrid\",\"hidden_size\":4,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":1,\"intermediate_size\":4,\"linear_key_head_dim\":2,"
        "\"linear_value_head_dim\":3}";
    static const uint64_t n_rows[] = {2, 1, 4};
    char directory[64], path[128], name[80];
    float rows[28], taps[14];
    struct safetensors_writer writer = {0};
    for (int i = 0; i < 28; i++)
        rows[i] = (float)i, taps[i / 2] = (float)-i;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/config.json", directory);
    write_file(path, config, strlen(config));
    put_entry(&writer, "model.embed_tokens.weight", "F32", 2, (uint64_t[2]){1, 4}, rows, 16);
    put_entry(&writer, "lm_head.weight", "F32", 2, (uint64_t[2]){1, 4}, rows, 16);
    for (size_t i = 0, first = 0; i < 3; first += n_rows[i++]) {
        snprintf(name, sizeof name, "model.layers.0.linear_attn.%c_proj.weight", "qkv"[i]);
        put_entry(&writer, name, "F32", 2, (uint64_t[2]){n_rows[i], 4}, rows + 4 * first, 16 * n_rows[i]);
        snprintf(name, sizeof name, "model.layers.0.linear_attn.%c_conv1d.weight", "qkv"[i]);
        put_entry(&writer, name, "F32", 3, (uint64_t[3]){n_rows[i], 1, 2}, taps + 2 * first, 8 * n_rows[i]);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    write_safetensors(&writer, path);
    assert_rows(directory, "blk.0.attn_qkv.weight", 4, rows, 28);
    assert_rows(directory, "blk.0.ssm_conv1d.weight", 2, taps, 14);
    put_entry(&writer, "model.embed_tokens.weight", "F32", 2, (uint64_t[2]){1, 4}, rows, 16);
    put_entry(&writer, "model.layers.0.linear_attn.q_proj.weight", "F32", 2, (uint64_t[2]){1, 4}, rows, 16);
    put_entry(&writer, "model.layers.0.linear_attn.k_proj.weight", "F32", 2, (uint64_t[2]){1, 3}, rows, 12);
    write_safetensors(&writer, path);
    assert_folder_refused(directory, "k_proj.weight: expected the shape and type of the others");
    remove_directory(directory);
}

// Lara's inputs of a recurrence: 2 key heads of 1 dimension, 2 value heads of 3.
static void rows_of_one_tensor_are_taken_apart(void **state)
{
    static const char config[] =
        "{\"model_type\":\"lara_mini\",\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":1,"
        "\"num_key_value_heads\":1,\"linear_num_key_heads\":2,\"linear_num_value_heads\":2,"
        "\"linear_key_head_dim\":1,\"linear_value_head_dim\":3,\"layer_types\":[\"linear_attention\"]}";
    static const char *const names[] = {"attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha"};
    static const size_t n_rows[] = {10, 6, 2, 2};
    char directory[64], path[128], name[80];
    float rows[80];
    struct safetensors_writer writer = {0};
    (void)state;
    for (int i = 0; i < 80; i++)
        rows[i] = (float)i;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/config.json", directory);
    write_file(path, config, strlen(config));
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    for (uint64_t extra = 0; extra < 2; extra++) {
        put_entry(&writer, "model.embed_tokens.weight", "F32", 2, (uint64_t[2]){1, 4}, rows, 16);
        put_entry(&writer, "model.layers.0.linear_attn.in_proj.weight", "F32", 2,
                  (uint64_t[2]){20 - extra, 4}, rows, 16 * (20 - extra));
        write_safetensors(&writer, path);
        for (size_t i = 0, first = 0; i < 4 && !extra; first += n_rows[i++]) {
            snprintf(name, sizeof name, "blk.0.%s.weight", names[i]);
            assert_rows(directory, name, 4, rows + 4 * first, 4 * n_rows[i]);
        }
    }
    assert_folder_refused(directory, "in_proj.weight: expected rows of as many heads");
    remove_directory(directory);
}

// Ling 1's norm_head: columns of the output matrix of length 5 and 2.
static void an_output_norm_is_divided_by_the_columns_norms(void **state)
{
    static const char config[] =
        "{\"model_type\":\"bailing_moe\",\"hidden_size\":2,\"num_hidden_layers\":1,\"num_attention_heads\":1,"
        "\"norm_head\":true}";
    static const float norm[] = {10.0f, 3.0f}, output[] = {3.0f, 2.0f, -4.0f, 0.0f};
    char directory[64], path[128];
    struct safetensors_writer writer = {0};
    struct gguf *gguf;
    struct error error = {0};
    (void)state;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/config.json", directory);
    write_file(path, config, strlen(config));
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    put_entry(&writer, "model.word_embeddings.weight", "F32", 2, (uint64_t[2]){2, 2}, output, sizeof output);
    put_entry(&writer, "model.norm.weight", "F32", 1, (uint64_t[1]){2}, norm, sizeof norm);
    put_entry(&writer, "lm_head.weight", "F32", 2, (uint64_t[2]){2, 2}, output, sizeof output);
    write_safetensors(&writer, path);
    if (model_folder_open(&gguf, directory, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    const float *made = gguf_tensor(gguf, "output_norm.weight")->data;
    assert_true(fabsf(made[0] - 2.0f) < 1e-5f && fabsf(made[1] - 1.5f) < 1e-5f);
    gguf_close(gguf);
    put_entry(&writer, "model.word_embeddings.weight", "F32", 2, (uint64_t[2]){2, 2}, output, sizeof output);
    put_entry(&writer, "model.norm.weight", "F32", 1, (uint64_t[1]){2}, norm, sizeof norm);
    write_safetensors(&writer, path);
    assert_folder_refused(directory, "norm_head: expected a matrix lm_head.weight of 2 columns");
    remove_directory(directory);
}

static void tokenizer_files_and_ends_become_keys(void **state)
{
    static const char *const files[][2] = {
        {"tokenizer.json", "{\"model\":{}}"},
        {"tokenizer_config.json", "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},"
                                  "{\"name\":\"default\",\"template\":\"D\"}]}"},
        {"generation_config.json", "{\"eos_token_id\":[7,9]}"},
        {"chat_template.jinja", "J"},
    };
    char directory[64], path[128];
    make_llama_folder(directory, "");
    for (int n = 2; n <= 4; n++) {
        for (int i = 0; i < n; i++) {
            snprintf(path, sizeof path, "%s/%s", directory, files[i][0]);
            write_file(path, files[i][1], strlen(files[i][1]));
        }
        struct gguf *gguf;
        struct error error;
        struct text text = {0};
        struct gguf_array ends = {0};
        if (model_folder_open(&gguf, directory, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        assert_int_equal(gguf_text(gguf, "tokenizer.chat_template", &text, NULL, &error), STATUS_OK);
        assert_true(text_equals_string(text, n == 4 ? "J" : "D"));
        assert_int_equal(gguf_text(gguf, "tokenizer.huggingface.json", &text, NULL, &error), STATUS_OK);
        assert_true(text_equals_string(text, files[0][1]));
        assert_int_equal(gguf_array(gguf, "tokenizer.huggingface.eos_token_ids", &ends, NULL, &error),
                         STATUS_OK);
        assert_int_equal(ends.n_items, n > 2 ? 2 : 0);
        gguf_close(gguf);
    }
    remove_directory(directory);
}

static void put_file(const char *directory, const char *name, const char *content)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    write_file(path, content, strlen(content));
}

static void how_a_model_makes_vectors_becomes_keys(void **state)
{
    char directory[64], path[128];
    struct error error = {0};
    struct model *model = NULL;
    struct gguf *gguf;
    struct embedding_defaults defaults;
    enum pooling pooling;
    (void)state;
    make_llama_folder(directory, "");
    snprintf(path, sizeof path, "%s/1_Pooling", directory);
    assert_int_equal(mkdir(path, 0777), 0);
    put_file(directory, "modules.json", "[{\"type\":\"Transformer\"},{\"type\":\"Pooling\"}]");
    put_file(directory, "config_sentence_transformers.json",
             "{\"prompts\":{\"q\":\"Q: \"},\"default_prompt_name\":\"q\",\"truncate_dim\":2}");
    put_file(directory, "sentence_bert_config.json", "{\"max_seq_length\":5}");
    for (int i = 0; i < 2; i++) {
        put_file(directory, "1_Pooling/config.json",
                 i == 0 ? "{\"pooling_mode\":\"mean\"}" : "{\"pooling_mode\":\"zebra\"}");
        if (model_folder_open(&gguf, directory, &error) != STATUS_OK ||
            model_open_taking(&model, gguf, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        assert_int_equal(embedding_check_model(model, &error), STATUS_OK);
        assert_int_equal(embedding_check_dimensions(model, &error), STATUS_REFUSE);
        assert_non_null(strstr(error.text, "truncate_dim is not built"));
        assert_int_equal(embedding_read_defaults(&defaults, model, &error), STATUS_OK);
        assert_true(text_equals_string(defaults.prompt, "Q: "));
        assert_int_equal(defaults.n_tokens_max, 5);
        assert_false(defaults.normalize);
        assert_int_equal(pooling_of_model(model, &pooling, &error), i == 0 ? STATUS_OK : STATUS_REFUSE);
        if (i == 0)
            assert_int_equal(pooling, POOLING_MEAN);
        else
            assert_non_null(strstr(error.text, "pooling_mode \"zebra\" is not built"));
        model_close(model);
    }
    remove_directory(directory);
}

static void config_says_whether_a_decoder_looks_both_ways(void **state)
{
    static const struct {
        const char *settings;
        bool both, logits;
    } rows[] = {
        {",\"use_bidirectional_attention\":true", true, false},
        {",\"is_causal\":false", true, false},
        {",\"architectures\":[\"LlamaBidirectionalModel\"]", true, false},
        {",\"is_causal\":true,\"use_bidirectional_attention\":false,\"architectures\":[\"LlamaForCausalLM\"]",
         false, true},
        {",\"architectures\":[\"LlamaModel\"]", false, true}, // there is one all the same
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char directory[64];
        struct model *model = NULL;
        struct gguf *gguf;
        struct error error = {0};
        make_llama_folder(directory, rows[i].settings);
        if (model_folder_open(&gguf, directory, &error) != STATUS_OK ||
            model_open_taking(&model, gguf, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        assert_int_equal(model->shape.bidirectional, rows[i].both);
        assert_int_equal(model_has_logits(model), rows[i].logits);
        model_close(model);
        remove_directory(directory);
    }
}

int main(void)
{
    enum { N_CASES = sizeof cases / sizeof *cases };
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(an_output_of_more_rows_than_the_vocabulary_is_refused),
        cmocka_unit_test(folders_that_lack_something_or_hold_too_much_are_refused),
        cmocka_unit_test(rows_of_several_tensors_are_joined),
        cmocka_unit_test(rows_of_one_tensor_are_taken_apart),
        cmocka_unit_test(an_output_norm_is_divided_by_the_columns_norms),
        cmocka_unit_test(tokenizer_files_and_ends_become_keys),
        cmocka_unit_test(how_a_model_makes_vectors_becomes_keys),
        cmocka_unit_test(config_says_whether_a_decoder_looks_both_ways),
    };
    enum { N_OTHERS = sizeof others / sizeof *others };
    static struct CMUnitTest tests[N_CASES + N_OTHERS];
    for (int i = 0; i < N_CASES; i++)
        tests[i] = (struct CMUnitTest){cases[i].model_type, logits_equal_those_of_the_same_weights_as_gguf,
                                       NULL, NULL, &cases[i]};
    memcpy(tests + N_CASES, others, sizeof others);
    return _cmocka_run_group_tests("unit_model_folder", tests, N_CASES + N_OTHERS, NULL, NULL);
}
