// Any bytes as a record of the control topic: one byte of key length, the key, the value. A marker that is
// accepted survives being written and read again.
#include "consumer/kafka/marker.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void write_and_read(const struct marker *marker, struct arena *arena)
{
    struct buffer key = {0}, value = {0};
    struct marker back;
    struct error error;
    marker_encode(marker, &key, &value);
    struct text key_text = {key.data, key.size}, value_text = {value.data, value.size};
    fuzz_check(marker_is_key(key_text));
    fuzz_check(marker_decode(key_text, value_text, arena, &back, &error) == STATUS_OK);
    fuzz_check(text_equal(back.topic, marker->topic) && text_equal(back.dataset, marker->dataset));
    fuzz_check(back.n_lines == marker->n_lines && back.n_jobs == marker->n_jobs &&
               back.fingerprint == marker->fingerprint && back.complete == marker->complete &&
               back.created_s == marker->created_s && back.partition == marker->partition &&
               back.offset == marker->offset && back.is_withdrawn == marker->is_withdrawn);
    buffer_finish(&key);
    buffer_finish(&value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t key_size = data[0] < size - 1 ? data[0] : size - 1;
    struct text key = {(const char *)data + 1, key_size}, value = {key.data + key_size, size - 1 - key_size};
    struct arena arena = {0};
    struct marker marker;
    struct error error;
    if (marker_decode(key, value, &arena, &marker, &error) == STATUS_OK)
        write_and_read(&marker, &arena);
    else
        fuzz_check(error.status == STATUS_REJECT);
    arena_finish(&arena);
    return 0;
}
