// Qwen4-Exp: hyper-connections, n-gram embeddings in two layers, an indexer with one key a block.
#include "tests/support/make_model_parts.h"

#include <string.h>

enum { STREAMS = 3, RANK = 10, INDEX_HEADS = 3, INDEX_DIM = 20, BLOCK = 4, SELECTED = 12 };
enum { NGRAM = 3, NGRAM_HEADS = 2, NGRAM_DIM = 8, NGRAM_TAPS = 3, NGRAM_ROWS = 320, NGRAM_LEAST = 50 };

void add_hyper_keys(struct maker *maker)
{
    add_key(maker, "hyper_connection.count", GGUF_U32, STREAMS);
    add_key(maker, "hyper_connection.rank", GGUF_U32, RANK);
    add_key(maker, "ssm.sigmoid_gate", GGUF_BOOL, maker->recipe.larger);
    add_key(maker, "attention.indexer.head_count", GGUF_U32, INDEX_HEADS);
    add_key(maker, "attention.indexer.key_length", GGUF_U32, INDEX_DIM);
    add_key(maker, "attention.indexer.top_k", GGUF_U32, SELECTED);
    add_key(maker, "attention.indexer.block_size", GGUF_U32, BLOCK);
    add_key(maker, "ngram.size", GGUF_U32, NGRAM);
    add_key(maker, "ngram.head_count", GGUF_U32, NGRAM_HEADS);
    add_key(maker, "ngram.head_length", GGUF_U32, NGRAM_DIM);
    add_key(maker, "ngram.conv_kernel", GGUF_U32, NGRAM_TAPS);
    add_key(maker, "ngram.end_token_id", GGUF_U32, 2);
    add_key(maker, "ngram.seed", GGUF_U32, 1234);
    add_key(maker, "ngram.vocabulary", GGUF_U32, NGRAM_LEAST);
}

static void add_connection(struct maker *maker, const char *prefix, const char *part, bool adds)
{
    int32_t width = STREAMS * maker->recipe.n_embd;
    char name[48];
    snprintf(name, sizeof name, "hyper_%s_norm.weight", part);
    add_vector(maker, prefix, name, MADE_NORM, (uint64_t)width);
    snprintf(name, sizeof name, "hyper_%s_low", part);
    add_matrix(maker, prefix, name, RANK, width, false);
    snprintf(name, sizeof name, "hyper_%s_mix", part);
    add_matrix(maker, prefix, name, width, RANK, false);
    snprintf(name, sizeof name, "hyper_%s_add", part);
    if (adds)
        add_matrix(maker, prefix, name, STREAMS, width, false);
}

void add_hyper_globals(struct maker *maker)
{
    add_connection(maker, "", "output", false);
}

static void add_ngrams(struct maker *maker, const char *prefix)
{
    int32_t width = STREAMS * maker->recipe.n_embd, n_in = (NGRAM - 1) * NGRAM_HEADS * NGRAM_DIM;
    char name[64];
    snprintf(name, sizeof name, "%sngram_embd.weight", prefix);
    add_tensor(maker, name, MADE_PLAIN_MATRIX, NGRAM_DIM, NGRAM_ROWS, 1);
    add_matrix(maker, prefix, "ngram_key", width, n_in, false);
    add_matrix(maker, prefix, "ngram_value", maker->recipe.n_embd, n_in, false);
    add_vector(maker, prefix, "ngram_key_norm.weight", MADE_NORM, (uint64_t)width);
    add_vector(maker, prefix, "ngram_query_norm.weight", MADE_NORM, (uint64_t)width);
    add_vector(maker, prefix, "ngram_conv_norm.weight", MADE_NORM, (uint64_t)width);
    snprintf(name, sizeof name, "%sngram_conv1d.weight", prefix);
    add_tensor(maker, name, MADE_PLAIN_MATRIX, NGRAM_TAPS, (uint64_t)width, 1);
}

void add_hyper_layer(struct maker *maker, const char *prefix, int32_t layer)
{
    add_connection(maker, prefix, "attn", true);
    add_connection(maker, prefix, "ffn", true);
    if (made_attends(maker, layer)) {
        add_matrix(maker, prefix, "indexer.qk_proj", (INDEX_HEADS + 1) * INDEX_DIM, maker->recipe.n_embd,
                   false);
        add_vector(maker, prefix, "indexer.q_norm.weight", MADE_NORM, INDEX_DIM);
        add_vector(maker, prefix, "indexer.k_norm.weight", MADE_NORM, INDEX_DIM);
    }
    if (layer == 0 || layer == 2)
        add_ngrams(maker, prefix);
}
