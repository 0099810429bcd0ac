// Keys of a family in a file, with their limits.
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
