// Any bytes as a record of the control topic: one byte of key length, the key, the value. A marker that is
// accepted survives being written and read again; so does a search, which is never a marker too.
#include "consumer/queue/kafka/client/marker.h"
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

static void write_and_read_search(const struct marker_search *search, struct arena *arena)
{
    struct buffer key = {0}, value = {0}, unmarked = {0};
    struct marker_search back;
    struct error error;
    for (size_t i = 0; i < search->n_unmarked; i++) {
        buffer_add_string(&unmarked, i ? "," : "");
        json_encode_string(search->unmarked[i].text, &unmarked);
    }
    marker_search_encode(search->topic, search->start, (struct text){unmarked.data, unmarked.size}, &key,
                         &value);
    struct text key_text = {key.data, key.size}, value_text = {value.data, value.size};
    back = *search;
    if (value.size <= MARKER_SEARCH_BYTES_MAX)
        fuzz_check(marker_search_decode(key_text, value_text, arena, &back, &error) == STATUS_OK);
    fuzz_check(text_equal(back.topic, search->topic) && back.start == search->start &&
               back.n_unmarked == search->n_unmarked);
    for (size_t i = 0; i < back.n_unmarked; i++)
        fuzz_check(text_equal(back.unmarked[i].text, search->unmarked[i].text));
    buffer_finish(&key);
    buffer_finish(&value);
    buffer_finish(&unmarked);
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
    bool is_marker = marker_decode(key, value, &arena, &marker, &error) == STATUS_OK;
    if (is_marker)
        write_and_read(&marker, &arena);
    else
        fuzz_check(error.status == STATUS_REJECT);
    struct marker_search search;
    if (marker_search_decode(key, value, &arena, &search, &error) == STATUS_OK) {
        fuzz_check(!is_marker);
        write_and_read_search(&search, &arena);
    } else {
        fuzz_check(error.status == STATUS_REJECT);
    }
    arena_finish(&arena);
    return 0;
}
