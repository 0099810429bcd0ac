// The tensors of hyper-connections and of n-gram embeddings. GGUF has no names for them: these are our own.
#include "engine/model/ngram.h"
#include "engine/model/tensor_search.h"

struct hyper_part {
    const char *name;
    enum layer_slot slot;
    enum width dims[2]; // row length, rows; a vector has ONE row
};

static const struct hyper_part hyper_parts[] = {
    {"hyper_attn_norm", SLOT_HYPER_ATTN_NORM, {STREAMS, ONE}},
    {"hyper_attn_low", SLOT_HYPER_ATTN_LOW, {STREAMS, STREAM_RANK}},
    {"hyper_attn_mix", SLOT_HYPER_ATTN_MIX, {STREAM_RANK, STREAMS}},
    {"hyper_attn_add", SLOT_HYPER_ATTN_ADD, {STREAMS, STREAM_COUNT}},
    {"hyper_ffn_norm", SLOT_HYPER_FFN_NORM, {STREAMS, ONE}},
    {"hyper_ffn_low", SLOT_HYPER_FFN_LOW, {STREAMS, STREAM_RANK}},
    {"hyper_ffn_mix", SLOT_HYPER_FFN_MIX, {STREAM_RANK, STREAMS}},
    {"hyper_ffn_add", SLOT_HYPER_FFN_ADD, {STREAMS, STREAM_COUNT}},
};
static const struct hyper_part ngram_parts[] = {
    {"ngram_key", SLOT_NGRAM_KEY, {NGRAM_WIDTH, STREAMS}},
    {"ngram_value", SLOT_NGRAM_VALUE, {NGRAM_WIDTH, EMBD}},
    {"ngram_key_norm", SLOT_NGRAM_KEY_NORM, {STREAMS, ONE}},
    {"ngram_query_norm", SLOT_NGRAM_QUERY_NORM, {STREAMS, ONE}},
    {"ngram_conv_norm", SLOT_NGRAM_STATE_NORM, {STREAMS, ONE}},
};

// Norms have a row of weights for each stream.
static void set_rows(struct tensor *norm, const struct tensor_search *search)
{
    norm->n_dims = 2;
    norm->dims[0] = (uint64_t)search->widths[EMBD];
    norm->dims[1] = (uint64_t)search->widths[STREAM_COUNT];
}

static enum status take_parts(struct tensor_search *search, int32_t index, const struct hyper_part *parts,
                              size_t n)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        char name[NAME_BYTES];
        struct tensor *out = &search->model->layers[index].tensors[parts[i].slot];
        int64_t dims[3] = {search->widths[parts[i].dims[0]], search->widths[parts[i].dims[1]], 1};
        layer_name(name, index, parts[i].name, "weight");
        if (parts[i].dims[1] == ONE)
            status = take_vector(search, name, true, dims[0], out);
        else
            status = take_matrix(search, name, true, dims, out);
        if (status == STATUS_OK && parts[i].dims[1] == ONE)
            set_rows(out, search);
    }
    return status;
}

static enum status take_ngrams(struct tensor_search *search, int32_t index)
{
    struct model_layer *layer = &search->model->layers[index];
    const struct ngram *ngram = &search->model->ngrams[layer->ngram];
    char name[NAME_BYTES];
    layer_name(name, index, "ngram_embd", "weight");
    const struct tensor *table = gguf_tensor(search->model->gguf, name);
    int64_t n_rows = (int64_t)table->dims[1];
    n_rows = n_rows < ngram->n_rows_all ? ngram->n_rows_all : n_rows; // more rows are padding
    enum status status = take_tensor(search, name, true, (int64_t[3]){search->widths[NGRAM_DIM], n_rows, 1},
                                     &layer->tensors[SLOT_NGRAM_TABLE]);
    layer_name(name, index, "ngram_conv1d", "weight");
    if (status == STATUS_OK)
        status = take_tensor(search, name, true,
                             (int64_t[3]){search->widths[NGRAM_TAPS], search->widths[STREAMS], 1},
                             &layer->tensors[SLOT_NGRAM_CONVOLUTION]);
    if (status == STATUS_OK)
        status = take_parts(search, index, ngram_parts, sizeof ngram_parts / sizeof *ngram_parts);
    return status;
}

enum status take_hyper(struct tensor_search *search, int32_t index)
{
    enum status status = take_parts(search, index, hyper_parts, sizeof hyper_parts / sizeof *hyper_parts);
    if (status == STATUS_OK && search->model->layers[index].ngram >= 0)
        status = take_ngrams(search, index);
    return status;
}

enum status take_hyper_output(struct tensor_search *search)
{
    struct model *model = search->model;
    int64_t streams = search->widths[STREAMS], rank = search->widths[STREAM_RANK];
    enum status status = take_vector(search, "hyper_output_norm.weight", true, streams, &model->hyper_norm);
    if (status == STATUS_OK)
        status = take_matrix(search, "hyper_output_low.weight", true, (int64_t[3]){streams, rank, 1},
                             &model->hyper_low);
    if (status == STATUS_OK)
        status = take_matrix(search, "hyper_output_mix.weight", true, (int64_t[3]){rank, streams, 1},
                             &model->hyper_mix);
    if (status == STATUS_OK)
        set_rows(&model->hyper_norm, search);
    return status;
}
