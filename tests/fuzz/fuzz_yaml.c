// Any bytes as YAML: the value is written as JSON, which reads back to the same JSON.
#include "schemas/yaml_decode.h"
#include "tests/fuzz/fuzz.h"

static void read_again(const struct value *value)
{
    struct buffer json = {0}, again = {0};
    struct arena arena = {0};
    struct value back;
    struct error error;
    json_encode(value, &json);
    struct text text = {json.data, json.size};
    fuzz_check(json_decode(text, &arena, &back, &error) == STATUS_OK);
    json_encode(&back, &again);
    fuzz_check(text_equal(text, (struct text){again.data, again.size}));
    buffer_finish(&json);
    buffer_finish(&again);
    arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct value value;
    struct error error;
    enum status status = yaml_decode((struct text){(const char *)data, size}, &arena, &value, &error);
    if (status == STATUS_OK)
        read_again(&value);
    else
        fuzz_check(status == STATUS_REJECT && error.text[0]);
    arena_finish(&arena);
    return 0;
}
