// Any bytes as a JSON Schema, compiled to rules: a refusal has its reason in one line.
#include "engine/json_schema/json_schema.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rules *rules = rules_create(NULL);
    struct schema_refusal refusal;
    struct error error = {0};
    uint32_t start;
    if (!rules)
        return 0;
    enum status status =
        json_schema_compile((struct text){(const char *)data, size}, NULL, rules, &start, &refusal, &error);
    if (status != STATUS_OK && !error.text[0])
        abort();
    rules_destroy(rules);
    return 0;
}
