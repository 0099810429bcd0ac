// Folders of DeBERTa (model_type deberta) and DeBERTa V2 and V3 (deberta-v2): tensor names, and the settings of
// disentangled attention. Sources: github.com/huggingface/transformers, modeling_deberta.py, modeling_deberta_v2.py.
#include "engine/model/folder/folder_settings.h"

#include <math.h>

#define END                                                                                                  \
    {                                                                                                        \
        0                                                                                                    \
    }
#define GLOBALS(prefix)                                                                                      \
    {prefix "embeddings.word_embeddings", "token_embd", FORM_AS_IS},                                         \
        {prefix "embeddings.token_type_embeddings", "token_types", FORM_AS_IS},                              \
        {prefix "embeddings.LayerNorm", "token_embd_norm", FORM_AS_IS},                                      \
        {prefix "encoder.rel_embeddings", "attn_rel_embd", FORM_AS_IS},                                      \
        {prefix "encoder.LayerNorm", "attn_rel_embd_norm", FORM_AS_IS},                                      \
        {"=" prefix "encoder.conv.conv.weight", "conv.weight", FORM_TAP_MATRICES},                           \
        {"=" prefix "encoder.conv.conv.bias", "conv.bias", FORM_AS_IS},                                      \
    {                                                                                                        \
        prefix "encoder.conv.LayerNorm", "conv_norm", FORM_AS_IS                                             \
    }
#define POSITIONS(prefix)                                                                                    \
    {                                                                                                        \
        prefix "embeddings.position_embeddings", "position_embd", FORM_POSITIONS                             \
    }
#define LAYER(prefix)                                                                                        \
    {prefix "encoder.layer.*.attention.output.dense", "attn_output", FORM_AS_IS},                            \
        {prefix "encoder.layer.*.attention.output.LayerNorm", "attn_output_norm", FORM_AS_IS},               \
        {prefix "encoder.layer.*.intermediate.dense", "ffn_up", FORM_AS_IS},                                 \
        {prefix "encoder.layer.*.output.dense", "ffn_down", FORM_AS_IS},                                     \
    {                                                                                                        \
        prefix "encoder.layer.*.output.LayerNorm", "layer_output_norm", FORM_AS_IS                           \
    }
#define SELF(prefix)                                                                                         \
    {prefix "encoder.layer.*.attention.self.query_proj", "attn_q", FORM_AS_IS},                              \
        {prefix "encoder.layer.*.attention.self.key_proj", "attn_k", FORM_AS_IS},                            \
        {prefix "encoder.layer.*.attention.self.value_proj", "attn_v", FORM_AS_IS},                          \
        {prefix "encoder.layer.*.attention.self.pos_query_proj", "attn_pos_q", FORM_AS_IS},                  \
    {                                                                                                        \
        prefix "encoder.layer.*.attention.self.pos_key_proj", "attn_pos_k", FORM_AS_IS                       \
    }
// DeBERTa V1: only queries and values have a bias.
#define SELF_1(prefix)                                                                                       \
    {prefix "encoder.layer.*.attention.self.in_proj", "attn_qkv", FORM_ROWS_BY_HEAD},                        \
        {"=" prefix "encoder.layer.*.attention.self.q_bias", "attn_q.bias", FORM_AS_IS},                     \
        {"=" prefix "encoder.layer.*.attention.self.v_bias", "attn_v.bias", FORM_AS_IS},                     \
        {prefix "encoder.layer.*.attention.self.pos_q_proj", "attn_pos_q", FORM_AS_IS},                      \
    {                                                                                                        \
        prefix "encoder.layer.*.attention.self.pos_proj", "attn_pos_k", FORM_AS_IS                           \
    }

const struct folder_rule folder_deberta_globals[] = {GLOBALS("deberta."), GLOBALS(""), END};
const struct folder_rule folder_deberta_positions_globals[] = {GLOBALS("deberta."), POSITIONS("deberta."),
                                                               GLOBALS(""), POSITIONS(""), END};
const struct folder_rule folder_deberta_layers[] = {LAYER("deberta."), SELF_1("deberta."), LAYER(""),
                                                    SELF_1(""), END};
const struct folder_rule folder_deberta_v2_layers[] = {LAYER("deberta."), SELF("deberta."), LAYER(""),
                                                       SELF(""), END};

// Learned positions are added if "position_biased_input" is set; a folder may have them unused.
struct text folder_deberta_type(const struct value *json, struct text model_type)
{
    const struct value *biased = value_get(json, "position_biased_input");
    bool added = !biased || biased->kind != VALUE_BOOL || biased->boolean;
    if (text_equals_string(model_type, "deberta") && added)
        return TEXT("deberta_positions");
    if (text_equals_string(model_type, "deberta-v2") && added)
        return TEXT("deberta-v2_positions");
    return model_type;
}

// Whether a text such as "p2c|c2p", or a list of texts, contains the name.
static bool has_term(const struct value *terms, const char *name, int *n_terms)
{
    bool found = false;
    *n_terms = 0;
    if (terms && terms->kind == VALUE_STRING) {
        struct text rest = terms->text;
        while (rest.size) {
            const char *bar = memchr(rest.data, '|', rest.size);
            struct text term = {rest.data, bar ? (size_t)(bar - rest.data) : rest.size};
            rest = bar ? (struct text){bar + 1, rest.size - term.size - 1} : (struct text){0};
            found = found || text_equals_string(term, name);
            *n_terms += 1;
        }
    }
    for (size_t i = 0; terms && terms->kind == VALUE_ARRAY && i < terms->array.n_items; i++) {
        found = found || is_text(&terms->array.items[i], name);
        *n_terms += 1;
    }
    return found;
}

// Reads a setting whose values below 1 mean `otherwise`.
static int64_t read_positive(struct config *config, const char *name, int64_t otherwise)
{
    const struct value *value = find_setting(config, name);
    return value && value->kind == VALUE_INTEGER && value->integer < 1
               ? otherwise
               : read_integer(config, name, otherwise);
}

static void put_truth(struct config *config, const char *suffix, bool value)
{
    char name[128];
    gguf_writer_bool(config->keys, format_key(config, suffix, name), value);
}

static void put_convolution(struct config *config)
{
    char name[128];
    const struct value *activation = find_setting(config, "conv_act");
    int64_t n_taps = read_positive(config, "conv_kernel_size", 0);
    if (n_taps == 0)
        return;
    if (read_integer(config, "conv_groups", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "conv_groups", find_setting(config, "conv_groups"));
    put_integer(config, "convolution_taps", n_taps);
    gguf_writer_text(config->keys, format_key(config, "convolution_activation", name),
                     activation && activation->kind == VALUE_STRING ? activation->text : TEXT("tanh"));
}

void folder_put_disentangled(struct config *config)
{
    if (!family_of(config)->disentangled)
        return;
    bool first = strncmp(config->out->family->model_type, "deberta-v2", 10) != 0;
    const struct value *terms = find_setting(config, "pos_att_type"),
                       *norm = find_setting(config, "norm_rel_ebd");
    int n_terms;
    bool to_position = has_term(terms, "c2p", &n_terms), to_content = has_term(terms, "p2c", &n_terms);
    int64_t n_positions = read_integer(config, "max_position_embeddings", 512);
    if (n_terms != to_position + to_content)
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "pos_att_type", terms);
    if (norm && !is_text(norm, "layer_norm") && !is_text(norm, "none"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "norm_rel_ebd", norm);
    if (first && read_truth(config, "talking_head", false))
        refuse_setting(config, ERROR_MODEL_FILE, "talking_head", find_setting(config, "talking_head"));
    put_number(config, "attention.scale",
               1.0 / sqrt((double)config->out->shape.head_dim * (1 + to_position + to_content)));
    if (!first)
        put_convolution(config);
    if (!read_truth(config, "relative_attention", false))
        return;
    put_truth(config, "attention.content_to_position", to_position);
    put_truth(config, "attention.position_to_content", to_content);
    put_truth(config, "attention.relative_projections_shared",
              !first && read_truth(config, "share_att_key", false));
    put_truth(config, "attention.relative_embedding_normed", !first && is_text(norm, "layer_norm"));
    put_integer(config, "attention.relative_distance_max",
                read_positive(config, "max_relative_positions", n_positions));
    if (!first && read_positive(config, "position_buckets", 0))
        put_integer(config, "attention.relative_buckets_count", read_positive(config, "position_buckets", 0));
}

// FORM_TAP_MATRICES: [outputs, inputs, taps] -> [taps, outputs, inputs].
bool folder_taps_shape(const struct tensor *from, struct tensor *out)
{
    if (from->n_dims != 3 || tensor_traits(from->type)->block_items != 1)
        return false;
    out->dims[0] = from->dims[1];
    out->dims[1] = from->dims[2];
    out->dims[2] = from->dims[0];
    return true;
}

void folder_taps_make(const struct tensor *from, char *data)
{
    size_t item = tensor_traits(from->type)->block_bytes;
    uint64_t n_taps = from->dims[0], n = from->dims[1] * from->dims[2];
    for (uint64_t tap = 0; tap < n_taps; tap++)
        for (uint64_t i = 0; i < n; i++, data += item)
            memcpy(data, (const char *)from->data + (i * n_taps + tap) * item, item);
}
