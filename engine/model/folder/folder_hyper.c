// Qwen4-Exp's folder: hyper-connections and n-gram embeddings. Settings: configuration_qwen4_exp.py.
#include "engine/model/folder/folder_settings.h"
#include "engine/model/ngram.h"

#include <stdlib.h>

static void put_ngrams(struct config *config)
{
    struct ngram_shape *shape = &config->out->shape.ngram;
    const struct value *end = find_setting(config, "eos_token_id"),
                       *layers = find_setting(config, "ple_layer_ids");
    if (!layers || layers->kind != VALUE_ARRAY || layers->array.n_items == 0)
        return;
    end = end && end->kind == VALUE_ARRAY && end->array.n_items ? end->array.items
                                                                : end; // the first of several
    if (!end || end->kind != VALUE_INTEGER || end->integer < 0 || end->integer >= MODEL_VOCABULARY_MAX) {
        refuse_setting(config, ERROR_MODEL_FILE, "eos_token_id", end);
        return;
    }
    shape->size = (int32_t)read_integer(config, "ngram_size", 3);
    shape->n_heads_each = (int32_t)read_integer(config, "heads_per_ngram", 8);
    shape->n_taps = (int32_t)read_integer(config, "ple_conv_kernel_size", 4);
    shape->end = (int32_t)end->integer;
    shape->seed = read_integer(config, "seed", 1234);
    shape->n_rows_least = read_integer(config, "ngram_vocab_size_base", 20000000);
    int64_t width = read_integer(config, "ple_embed_dim", read_integer(config, "hidden_size", 0)), n_heads;
    if (config->status == STATUS_OK && (shape->size < 2 || shape->size > MODEL_NGRAM_MAX))
        refuse_setting(config, ERROR_LIMIT_EXCEEDED, "ngram_size", find_setting(config, "ngram_size"));
    if (config->status == STATUS_OK &&
        (shape->n_heads_each < 1 || shape->n_heads_each > MODEL_NGRAM_HEADS_MAX / MODEL_NGRAM_MAX))
        refuse_setting(config, ERROR_LIMIT_EXCEEDED, "heads_per_ngram",
                       find_setting(config, "heads_per_ngram"));
    if (config->status != STATUS_OK)
        return;
    n_heads = (int64_t)(shape->size - 1) * shape->n_heads_each;
    if (width < n_heads || width % n_heads != 0)
        refuse_setting(config, ERROR_MODEL_FILE, "ple_embed_dim", find_setting(config, "ple_embed_dim"));
    put_integer(config, "ngram.size", shape->size);
    put_integer(config, "ngram.head_count", shape->n_heads_each);
    put_integer(config, "ngram.head_length", width / n_heads);
    put_integer(config, "ngram.conv_kernel", shape->n_taps);
    put_integer(config, "ngram.end_token_id", shape->end);
    put_integer(config, "ngram.seed", shape->seed);
    put_integer(config, "ngram.vocabulary", shape->n_rows_least);
}

void folder_put_hyper(struct config *config)
{
    const struct value *gate = find_setting(config, "output_gate_type");
    char name[128];
    put_integer(config, "hyper_connection.count", read_integer(config, "hc_count", 4));
    put_integer(config, "hyper_connection.rank", read_integer(config, "hc_lowrank", 320));
    if (gate && !is_text(gate, "silu") && !is_text(gate, "swish") && !is_text(gate, "sigmoid"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "output_gate_type", gate);
    gguf_writer_bool(config->keys, format_key(config, "ssm.sigmoid_gate", name), is_text(gate, "sigmoid"));
    config->out->shape.n_vocab = read_integer(config, "vocab_size", 0);
    if (config->status == STATUS_OK)
        put_ngrams(config);
}

// --- The buffers of the hash functions, which follow from the settings ---

static bool has_items(const struct safetensors_tensor *found, const int64_t *items, size_t n)
{
    return strcmp(found->dtype, "I64") == 0 && found->tensor.size_bytes == n * sizeof *items &&
           memcmp(found->tensor.data, items, n * sizeof *items) == 0;
}

enum status folder_check_ngrams(const struct safetensors *weights, const struct folder_shape *shape,
                                const struct folder_names *names, bool *used, struct error *error)
{
    struct ngram *ngram = malloc(sizeof *ngram);
    if (!ngram)
        return error_memory(error, STATUS_REFUSE, "n-grams");
    int32_t number = 0;
    enum status status = STATUS_OK;
    for (int64_t layer = 0; layer < shape->n_layers && shape->ngram.size && status == STATUS_OK; layer++) {
        static const char *const buffers[] = {"layer_multipliers", "ngram_heads_vocab_sizes",
                                              "ngram_heads_offsets"};
        bool any = false;
        for (int i = 0; i < 3 && status == STATUS_OK; i++) {
            char name[512];
            struct text whole =
                folder_expand_name(names, "model.layers.*.ple.ple_embedding.", layer, 0, buffers[i], name);
            size_t index = safetensors_find(weights, whole);
            if (index == SIZE_MAX)
                continue;
            if (!any)
                ngram_init(ngram, &shape->ngram, (int32_t)shape->n_vocab, number);
            any = used[index] = true;
            const int64_t *items[] = {ngram->multipliers, ngram->n_rows, ngram->first};
            if (!has_items(safetensors_at(weights, index), items[i],
                           (size_t)(i ? ngram->n_heads : ngram->size)))
                status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "tensor %s: expected the numbers that follow from \"seed\" and "
                                   "\"ngram_vocab_size_base\"",
                                   name);
        }
        number += any;
    }
    free(ngram);
    return status;
}
