// Any bytes as a line of sheaf classify and of sheaf rerank: two decodings give the same, valid input.
#include "consumer/command/files/score_line.h"
#include "tests/fuzz/fuzz.h"

static void decode_twice(enum status (*decode)(struct text line, struct arena *arena,
                                               struct score_line *decoded, struct buffer *ids,
                                               struct error *error),
                         struct text line)
{
    struct arena arenas[2] = {{0}};
    struct score_line decoded[2];
    struct buffer ids[2] = {{0}};
    struct error errors[2] = {{0}};
    enum status statuses[2];
    for (int i = 0; i < 2; i++)
        statuses[i] = decode(line, &arenas[i], &decoded[i], &ids[i], &errors[i]);
    fuzz_check(statuses[0] == statuses[1] && (statuses[0] == STATUS_OK || statuses[0] == STATUS_REJECT));
    fuzz_check(text_equal((struct text){ids[0].data, ids[0].size}, (struct text){ids[1].data, ids[1].size}));
    if (statuses[0] == STATUS_OK) {
        fuzz_check(decoded[0].n_documents == decoded[1].n_documents && decoded[0].top_n >= 0);
        fuzz_check(text_equal(decoded[0].text, decoded[1].text) &&
                   text_equal(decoded[0].query, decoded[1].query));
        fuzz_check(!decoded[0].is_single || decoded[0].n_documents == 1);
        for (size_t i = 0; i < decoded[0].n_documents; i++)
            fuzz_check(text_equal(decoded[0].documents[i], decoded[1].documents[i]));
    }
    for (int i = 0; i < 2; i++) {
        arena_finish(&arenas[i]);
        buffer_finish(&ids[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct text line = {(const char *)data, size};
    decode_twice(score_line_decode_text, line);
    decode_twice(score_line_decode_query, line);
    return 0;
}
