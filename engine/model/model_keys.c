// Keys of a family in a file, with their limits.
#include "engine/model/family.h"
#include "engine/model/model_parts.h"

#include <math.h>
#include <stdio.h>

void key_name(const struct key_reader *reader, const char *suffix, char key[128])
{
    snprintf(key, 128, "%s.%s", reader->family, suffix);
}

int32_t read_integer(struct key_reader *reader, const char *suffix, int32_t otherwise, bool *found)
{
    char key[128];
    key_name(reader, suffix, key);
    uint32_t value = 0;
    bool there = false;
    if (reader->status == STATUS_OK)
        reader->status = gguf_u32(reader->gguf, key, &value, &there, reader->error);
    if (reader->status == STATUS_OK && there && value > INT32_MAX)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                                   "%s: at most %d, file has %u", key, INT32_MAX, value);
    there = there && reader->status == STATUS_OK;
    if (found)
        *found = there;
    return there ? (int32_t)value : otherwise;
}

float read_number(struct key_reader *reader, const char *suffix, float otherwise, bool *found)
{
    char key[128];
    key_name(reader, suffix, key);
    float value = otherwise;
    bool there = false;
    if (reader->status == STATUS_OK)
        reader->status = gguf_f32(reader->gguf, key, &value, &there, reader->error);
    if (reader->status == STATUS_OK && there && !isfinite(value))
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s: not a finite number", key);
    there = there && reader->status == STATUS_OK;
    if (found)
        *found = there;
    return there ? value : otherwise;
}

bool read_bool(struct key_reader *reader, const char *suffix, bool otherwise)
{
    char key[128];
    key_name(reader, suffix, key);
    bool value = otherwise;
    if (reader->status == STATUS_OK)
        reader->status = gguf_bool(reader->gguf, key, &value, NULL, reader->error);
    return value;
}

int32_t read_size(struct key_reader *reader, const char *suffix, int32_t otherwise, int32_t least,
                  int32_t most)
{
    bool found;
    int32_t value = read_integer(reader, suffix, otherwise, &found);
    if (reader->status != STATUS_OK)
        return least;
    if (!found && otherwise < 0) {
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE, "key %s.%s is missing",
                                   reader->family, suffix);
        return least;
    }
    if (value < least || value > most) {
        reader->status =
            error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s.%s: expected %d to %d, got %d",
                      reader->family, suffix, least, most, value);
        return least;
    }
    return value;
}

int32_t read_size_or_none(struct key_reader *reader, const char *suffix, int32_t otherwise, int32_t least,
                          int32_t most)
{
    bool is_none = read_integer(reader, suffix, otherwise, NULL) == 0;
    return is_none ? otherwise : read_size(reader, suffix, otherwise, least, most);
}

// Whether the sizes may be arrays with an item for each layer.
bool sizes_vary(const struct family *family)
{
    return family->layers_vary || family->heads_vary || family->layer_kinds == LAYERS_BY_HEADS ||
           family->layer_kinds == LAYERS_SINGLE;
}

// A size that may be an array with an item for each layer, in families whose layers vary.
int32_t read_layer_size(struct key_reader *reader, const struct model *model, const char *suffix,
                        int32_t layer, int32_t otherwise, int32_t least, int32_t most)
{
    struct gguf_array array = {0};
    bool is_array = false;
    struct error ignored;
    char key[128];
    key_name(reader, suffix, key);
    if (!sizes_vary(model->family) ||
        gguf_array(reader->gguf, key, &array, &is_array, &ignored) != STATUS_OK || !is_array)
        return read_size(reader, suffix, otherwise, least, most);
    size_t n_layers = (size_t)model->shape.n_layers, n_beyond = (size_t)model->shape.n_layers_beyond;
    bool fits = (array.kind == GGUF_I32 || array.kind == GGUF_U32) &&
                (array.n_items == n_layers || array.n_items == n_layers + n_beyond);
    int64_t item = fits ? gguf_array_integer(&array, (size_t)layer) : -1;
    if ((item < least || item > most) && reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%s: expected an integer of %d to %d for each of %d layers", key, least,
                                   most, model->shape.n_layers);
    return item >= least && item <= most ? (int32_t)item : least;
}

// Finds a key with a truth value, or 0 and 1, for each of n_layers layers, and maybe n_beyond further ones. False:
// no such array; a wrong one is an error.
bool find_layer_truths(struct key_reader *reader, const char *suffix, int32_t n_layers, int32_t n_beyond,
                       struct gguf_array *truths)
{
    bool is_array = false;
    struct error ignored;
    char key[128];
    key_name(reader, suffix, key);
    if (reader->status != STATUS_OK ||
        gguf_array(reader->gguf, key, truths, &is_array, &ignored) != STATUS_OK || !is_array)
        return false;
    bool fits = truths->kind == GGUF_BOOL || truths->kind == GGUF_I32 || truths->kind == GGUF_U32;
    if (fits && (truths->n_items == (size_t)n_layers || truths->n_items == (size_t)(n_layers + n_beyond)))
        return true;
    reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                               "%s: expected a truth value for each of %d layers", key, n_layers);
    return false;
}
