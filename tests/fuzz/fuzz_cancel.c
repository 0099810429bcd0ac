// Any bytes as a record of the control topic: one byte of key length, the key, the value. An accepted record
// must be found in the set and survive being written and read again.
#include "consumer/queue/kafka/client/cancel.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static struct text text_of(const struct buffer *buffer)
{
    return (struct text){buffer->data, buffer->size};
}

static void write_and_read(const struct cancel *cancel, struct arena *arena)
{
    struct buffer key = {0}, value = {0};
    struct cancel back;
    struct error error;
    cancel_encode(cancel, &key, &value);
    fuzz_check(cancel_decode(text_of(&key), text_of(&value), arena, &back, &error) == STATUS_OK);
    fuzz_check(text_equal(back.dataset, cancel->dataset) && text_equal(back.job_id, cancel->job_id) &&
               back.at_s == cancel->at_s && back.n_ends == cancel->n_ends);
    fuzz_check(cancel_decode(text_of(&key), (struct text){0}, arena, &back, &error) == STATUS_OK);
    fuzz_check(text_equal(back.dataset, cancel->dataset) && text_equal(back.job_id, cancel->job_id));
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
    struct cancel_set set = {0};
    struct cancel cancel;
    struct error error;
    if (cancel_decode(key, value, &arena, &cancel, &error) == STATUS_OK) {
        fuzz_check(cancel_set_put(&set, &cancel, &error) == STATUS_OK);
        fuzz_check(cancel_set_has(&set, cancel.dataset, cancel.job_id, cancel.at_s) ==
                   (cancel.at_s != CANCEL_NEVER));
        write_and_read(&cancel, &arena);
    } else {
        fuzz_check(error.status == STATUS_REJECT);
    }
    cancel_set_finish(&set);
    arena_finish(&arena);
    return 0;
}
