// Any bytes as tokenizer.json, after a NUL as tokenizer_config.json, after another as
// special_tokens_map.json. An accepted file must encode any text to ids of its vocabulary.
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
    struct text special = {0};
    const char *second = config.size ? memchr(config.data, 0, config.size) : NULL;
    if (second) {
        special = (struct text){second + 1, config.size - (size_t)(second - config.data) - 1};
        config.size = (size_t)(second - config.data);
    }
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    struct error error = {0};
    const int32_t ends[] = {0, 7};
    const struct vocabulary_json files = {.tokenizer = json,
                                          .config = config,
                                          .special_tokens = special,
                                          .ends = ends,
                                          .n_ends = 1,
                                          .control_ends = ends + 1,
                                          .n_control_ends = 1};
    enum status status = vocabulary_parse_json(&vocabulary, &files, &error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, &error);
    vocabulary_finish(&vocabulary);
    fuzz_check(status == STATUS_OK || (status == STATUS_REFUSE && error.text[0]));
    for (size_t i = 0; tokenizer && i < sizeof texts / sizeof *texts; i++)
        encode_text(tokenizer, text_from_string(texts[i]));
    tokenizer_close(tokenizer);
    return 0;
}
