// Any bytes as tokenizer.json, and after a NUL as tokenizer_config.json. An accepted file must encode any
// text to ids of its vocabulary.
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void encode_text(const struct tokenizer *tokenizer, struct text text)
{
    struct token_array ids = {0};
    struct buffer decoded = {0};
    struct error error;
    enum status status =
        tokenizer_encode(tokenizer, text, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &ids, &error);
    fuzz_check(status == STATUS_OK);
    for (size_t i = 0; i < ids.n_ids; i++) {
        fuzz_check(ids.ids[i] >= 0 && ids.ids[i] < tokenizer_n_tokens(tokenizer));
        tokenizer_decode(tokenizer, ids.ids[i], true, &decoded);
    }
    buffer_finish(&decoded);
    token_array_finish(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const texts[] = {"", "ab  a<s>[T] 11\n", "\xFF\xE2\x96\x81 \xE4\xB8\xAD\x65\xCC\x81",
                                        "AAAAAAAAA"};
    const char *start = size ? (const char *)data : "", *nul = memchr(start, 0, size);
    struct text json = {start, nul ? (size_t)(nul - start) : size};
    struct text config = nul ? (struct text){nul + 1, size - json.size - 1} : (struct text){0};
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    struct error error = {0};
    enum status status = vocabulary_parse_json(&vocabulary, json, config, (int32_t[]){0, 7}, 2, NULL, &error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, &error);
    vocabulary_finish(&vocabulary);
    fuzz_check(status == STATUS_OK || (status == STATUS_REFUSE && error.text[0]));
    for (size_t i = 0; tokenizer && i < sizeof texts / sizeof *texts; i++)
        encode_text(tokenizer, text_from_string(texts[i]));
    tokenizer_close(tokenizer);
    return 0;
}
