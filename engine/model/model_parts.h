// The steps of opening a model, in the order model_open calls them. Each fills its part of the model and
// refuses what does not fit. Private to engine/model/.
#pragma once

#include "engine/file/gguf.h"
#include "engine/model/model.h"

// Keys of one family in a file; the first error is latched in `status` and every later read gives the
// default.
struct key_reader {
    const struct gguf *gguf;
    const char *family;
    enum status status;
    struct error *error;
};

// model_keys.c. "FAMILY.SUFFIX"; `found` may be NULL.
void key_name(const struct key_reader *reader, const char *suffix, char key[128]);
// model_layers.c: hyper-connections, and n-gram embeddings.
void read_hyper(struct key_reader *reader, struct model *model);
int32_t read_integer(struct key_reader *reader, const char *suffix, int32_t otherwise, bool *found);
float read_number(struct key_reader *reader, const char *suffix, float otherwise, bool *found);
bool read_bool(struct key_reader *reader, const char *suffix, bool otherwise);
// An integer within [least, most]; `otherwise` below 0: the key is required.
int32_t read_size(struct key_reader *reader, const char *suffix, int32_t otherwise, int32_t least,
                  int32_t most);
// The same of a key that llama.cpp's own files have with 0 where they mean none.
int32_t read_size_or_none(struct key_reader *reader, const char *suffix, int32_t otherwise, int32_t least,
                          int32_t most);

// Whether the sizes may be arrays with an item for each layer.
bool sizes_vary(const struct family *family);
// A size that may be such an array, in families whose layers vary.
int32_t read_layer_size(struct key_reader *reader, const struct model *model, const char *suffix,
                        int32_t layer, int32_t otherwise, int32_t least, int32_t most);
// Finds a key with a truth value, or 0 and 1, for each of n_layers layers, and maybe n_beyond further ones. False: no
// such array; a wrong one is an error.
bool find_layer_truths(struct key_reader *reader, const char *suffix, int32_t n_layers, int32_t n_beyond,
                       struct gguf_array *truths);

// model_layers.c
void read_layers(struct key_reader *reader, struct model *model);
void read_limits(struct key_reader *reader, struct model *model, const char *suffix, bool shared);
// In a bidirectional model whose layers differ in heads, layers with the same heads use the pages of the first one.
void share_pages(struct key_reader *reader, struct model *model);
void read_altup(struct key_reader *reader, struct model *model);
void read_index(struct key_reader *reader, struct model *model);

// Sets model->shape except the rope fields, and allocates model->layers with `windowed` and `unrotated` set.
enum status model_read_shape(struct model *model, struct error *error) WARN_UNUSED;
// The rope fields and tables.
enum status model_read_rope(struct model *model, struct error *error) WARN_UNUSED;
// The tensors. Every tensor of the file must have a place: a tensor left over would make the results wrong.
enum status model_read_tensors(struct model *model, struct error *error) WARN_UNUSED;

// model_recurrent.c: the recurrent layers' sizes, in families that have these.
void read_recurrent(struct key_reader *reader, const struct family *family, struct model_shape *shape);
