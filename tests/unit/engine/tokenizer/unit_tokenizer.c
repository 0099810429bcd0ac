// Tokenizers of vocabularies made here, and the shared vocabularies against their ids.
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "schemas/value.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/shared_data.h"
#include "tests/support/vocabulary_file.h"

#include <math.h>

#define BLANK "\xE2\x96\x81"

static struct tokenizer *open_or_fail(struct vocabulary_file *file, const char *model, const char *pre)
{
    struct error error;
    struct tokenizer *tokenizer = vocabulary_file_open(file, model, pre, &error);
    if (!tokenizer)
        fail_msg("refused: %s", error.text);
    return tokenizer;
}

static void assert_refused(struct vocabulary_file *file, const char *model, const char *pre, const char *part)
{
    struct error error;
    assert_null(vocabulary_file_open(file, model, pre, &error));
    if (error.status != STATUS_REFUSE || !strstr(error.text, part))
        fail_msg("expected \"%s\", got \"%s\"", part, error.text);
}

// Ids of `text` as their texts, joined by blanks: "▁ab c".
static void assert_encodes(const struct tokenizer *tokenizer, const char *text, unsigned flags,
                           const char *expected)
{
    struct token_array ids = {0};
    struct buffer got = {0};
    struct error error;
    assert_ok(tokenizer_encode(tokenizer, text_from_string(text), flags, &ids, &error), &error);
    buffer_reserve(&got, 1);
    buffer_add(&got, "", 0);
    for (size_t i = 0; i < ids.n_ids; i++) {
        buffer_add_string(&got, i ? " " : "");
        buffer_add_text(&got, tokenizer_token_text(tokenizer, ids.ids[i]));
    }
    assert_string_equal(got.data, expected);
    buffer_finish(&got);
    token_array_finish(&ids);
}

// Everything decoded, with or without special tokens.
static void assert_decodes(const struct tokenizer *tokenizer, const struct token_array *ids, bool special,
                           struct text expected)
{
    struct buffer got = {0};
    for (size_t i = 0; i < ids->n_ids; i++)
        tokenizer_decode(tokenizer, ids->ids[i], special, &got);
    assert_int_equal(got.size, expected.size);
    assert_memory_equal(got.data ? got.data : "", expected.data, expected.size);
    buffer_finish(&got);
}

// --- SentencePiece ---

TEST(spm_merges_the_highest_score_first_and_the_leftmost_of_equals)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    static const char *const letters[] = {"a", "b", "c", BLANK};
    for (size_t i = 0; i < 4; i++)
        add_token(&file, letters[i], -10, TYPE_NORMAL);
    add_token(&file, "ab", -2, TYPE_NORMAL);
    add_token(&file, "bc", -1, TYPE_NORMAL);
    add_token(&file, "aa", -2, TYPE_NORMAL);
    add_token(&file, BLANK "a", -3, TYPE_NORMAL);
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    assert_encodes(tokenizer, "abc", 0, BLANK "a bc");
    assert_encodes(tokenizer, "ab", 0, BLANK " ab");
    assert_encodes(tokenizer, "aaa", 0, BLANK " aa a");
    assert_encodes(tokenizer, "a a", 0, BLANK "a " BLANK "a");
    assert_encodes(tokenizer, "", 0, "");
    assert_encodes(tokenizer, "", TOKENIZER_ADD_SPECIAL, "<s>");
    assert_encodes(tokenizer, "c", TOKENIZER_ADD_SPECIAL, "<s> " BLANK " c");
    assert_encodes(tokenizer, "c", 0, BLANK " c");
    assert_encodes(tokenizer, "c", TOKENIZER_CONTINUES, "c");
    assert_encodes(tokenizer, "c c", TOKENIZER_CONTINUES, "c " BLANK " c");
    assert_encodes(tokenizer, "a\xC3\xA9\n", 0, BLANK "a <0xC3> <0xA9> <0x0A>");
    assert_encodes(tokenizer, "a\xE2\x96", 0, BLANK "a <0xE2> <0x96>");
    assert_encodes(tokenizer, "<s>", 0, BLANK " <0x3C> <0x73> <0x3E>");
    assert_encodes(tokenizer, "a<s>b</s>", TOKENIZER_PARSE_SPECIAL, BLANK "a <s> " BLANK " b </s>");
    assert_string_equal(tokenizer_model_name(tokenizer), "spm");
    assert_string_equal(tokenizer_pre_name(tokenizer), "");
    assert_true(tokenizer_strips_first_space(tokenizer) && tokenizer_adds_bos(tokenizer));
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), 2);
    tokenizer_close(tokenizer);
}

TEST(spm_characters_that_are_no_tokens_still_merge_into_tokens)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    add_token(&file, "\xC3\xA9t", -1, TYPE_NORMAL);         // neither é nor t is a token
    add_token(&file, "\xC3\xA9t\xC3\xA9", -2, TYPE_NORMAL); // été
    add_key_bool(&file, "tokenizer.ggml.add_space_prefix", false);
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    assert_encodes(tokenizer, "\xC3\xA9t\xC3\xA9", 0, "\xC3\xA9t\xC3\xA9");
    assert_encodes(tokenizer, "t\xC3\xA9t\xC3\xA9\xC3\xA9", 0, "<0x74> \xC3\xA9t\xC3\xA9 <0xC3> <0xA9>");
    assert_false(tokenizer_strips_first_space(tokenizer));
    tokenizer_close(tokenizer);
}

TEST(without_byte_tokens_spm_gives_the_unknown_token)
{
    struct vocabulary_file file = {0};
    add_token(&file, "<unk>", 0, TYPE_UNKNOWN);
    add_token(&file, "<s>", 0, TYPE_CONTROL);
    add_token(&file, "</s>", 0, TYPE_CONTROL);
    add_token(&file, BLANK "a", 0, TYPE_NORMAL);
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    assert_encodes(tokenizer, "a", 0, BLANK "a");
    assert_encodes(tokenizer, "\xE4\xB8\xAD", 0,
                   "<unk> <unk> <unk> <unk>"); // the blank's symbol, three bytes'
    tokenizer_close(tokenizer);
}

TEST(user_defined_tokens_are_found_in_any_text_the_longest_first)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    add_token(&file, "a", -1, TYPE_NORMAL);
    add_token(&file, BLANK, -1, TYPE_NORMAL);
    add_token(&file, "[x", 0, TYPE_USER);
    add_token(&file, "[x]", 0, TYPE_USER);
    add_token(&file, "[x]y", 0, TYPE_CONTROL);
    add_token(&file, "  ", 0, TYPE_USER);
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    assert_encodes(tokenizer, "a[x]ya", 0, BLANK " a [x] " BLANK " <0x79> a");
    assert_encodes(tokenizer, "a[x]ya", TOKENIZER_PARSE_SPECIAL, BLANK " a [x]y " BLANK " a");
    assert_encodes(tokenizer, "[x[x]", 0, "[x [x]");
    assert_encodes(tokenizer, "a   a", 0, BLANK " a    " BLANK " " BLANK " a");
    tokenizer_close(tokenizer);
}

TEST(phi_3_s_special_tokens_take_the_space_after_them)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    add_token(&file, "a", -1, TYPE_NORMAL);
    add_token(&file, BLANK, -1, TYPE_NORMAL);
    add_token(&file, "<|user|>", 0, TYPE_CONTROL);
    add_token(&file, "<|endoftext|>", 0, TYPE_CONTROL);
    add_key_string(&file, "general.name", "Phi3");
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    assert_encodes(tokenizer, "<|user|>\n a", TOKENIZER_PARSE_SPECIAL, "<|user|> " BLANK " a");
    assert_encodes(tokenizer, "<|user|> \n<|user|>", TOKENIZER_PARSE_SPECIAL, "<|user|> <|user|>");
    assert_encodes(tokenizer, "<|endoftext|> a", TOKENIZER_PARSE_SPECIAL,
                   "<|endoftext|> " BLANK " " BLANK " a");
    tokenizer_close(tokenizer);
}

// --- Byte-level BPE ---

TEST(bpe_merges_by_rank_within_words)
{
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    static const char *const tokens[] = {"ab", "bc", "\304\240a", "abc", "zz"};
    static const char *const merges[] = {"b c", "a b", "\xC4\xA0 a", "a bc", "b c"};
    for (size_t i = 0; i < 5; i++)
        add_token(&file, tokens[i], 0, TYPE_NORMAL);
    for (size_t i = 0; i < 5; i++)
        add_merge(&file, merges[i]);
    int32_t end = add_token(&file, "<|im_end|>", 0, TYPE_NORMAL);
    add_key_u32(&file, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "gpt-2");
    assert_encodes(tokenizer, "abc", 0, "abc");
    assert_encodes(tokenizer, "ab abb", 0, "ab \xC4\xA0 ab b");
    assert_encodes(tokenizer, "ab ac", 0,
                   "ab \xC4\xA0"
                   "a c");
    assert_encodes(tokenizer, "zz", 0, "z z"); // no merge leads there
    assert_encodes(tokenizer, "<|im_end|>", 0, "< | i m _ e n d | >");
    assert_encodes(tokenizer, "a<|im_end|>", TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL, "a <|im_end|>");
    assert_true(tokenizer_ends_generation(tokenizer, end) && tokenizer_is_control(tokenizer, end));
    assert_int_equal(tokenizer_bos(tokenizer), -1);
    assert_int_equal(tokenizer_eos(tokenizer), end);
    assert_int_equal(tokenizer_n_tokens(tokenizer), end + 1);
    assert_string_equal(tokenizer_model_name(tokenizer), "bpe");
    assert_string_equal(tokenizer_pre_name(tokenizer), "gpt-2");
    tokenizer_close(tokenizer);
}

TEST(some_pre_tokenizers_take_whole_words_without_merges)
{
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    int32_t bos = add_token(&file, "<bos>", 0, TYPE_CONTROL);
    add_token(&file, "zz", 0, TYPE_NORMAL);
    add_key_u32(&file, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    add_key_string(&file, "tokenizer.ggml.pre", "llama3");
    struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", NULL);
    assert_encodes(tokenizer, "zz z", TOKENIZER_ADD_SPECIAL, "<bos> zz \xC4\xA0 z");
    assert_string_equal(tokenizer_pre_name(tokenizer), "llama3");
    tokenizer_close(tokenizer);
}

TEST(merges_may_name_symbols_that_are_no_tokens)
{
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    add_token(&file, "abcd", 0, TYPE_NORMAL);
    add_merge(&file, "a b");
    add_merge(&file, "c d");
    add_merge(&file, "ab cd");
    struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "gpt-2");
    assert_encodes(tokenizer, "abcd", 0, "abcd");
    assert_encodes(tokenizer, "abc", 0, "a b c");
    tokenizer_close(tokenizer);
}

TEST(any_bytes_round_trip_through_byte_level_bpe)
{
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    add_token(&file, "\304\240a", 0, TYPE_NORMAL);
    add_merge(&file, "\xC4\xA0 a");
    struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "qwen2");
    uint64_t seed = random_seed(5);
    for (int round = 0; round < 2000; round++) {
        char bytes[80];
        struct text text = {bytes, (size_t)round % sizeof bytes};
        for (size_t i = 0; i < text.size; i++) {
            uint32_t kind = random_below(&seed, 16);
            bytes[i] = (char)(kind < 6 ? " a\n.1'"[kind] : (char)random_bits(&seed));
        }
        struct token_array ids = {0};
        struct error error;
        assert_ok(tokenizer_encode(tokenizer, text, 0, &ids, &error), &error);
        assert_decodes(tokenizer, &ids, false, text);
        token_array_finish(&ids);
    }
    tokenizer_close(tokenizer);
}

// --- Decoding, known tokens ---

TEST(decoding_hides_control_tokens_and_unused_ones)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    int32_t word = add_token(&file, BLANK "a" BLANK, 0, TYPE_NORMAL);
    int32_t user = add_token(&file, "<" BLANK "u>", 0, TYPE_USER);
    int32_t unused = add_token(&file, "unused", 0, TYPE_UNUSED);
    int32_t odd = add_token(&file, "<0xG1>", 0, TYPE_BYTE); // no byte: its own text
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    int32_t all[] = {0, 1, word, user, unused, 3 + 0xC3, 3 + 0xA9, odd};
    struct token_array ids = {.ids = all, .n_ids = sizeof all / sizeof *all};
    assert_decodes(tokenizer, &ids, false, TEXT(" a <" BLANK "u>\xC3\xA9<0xG1>"));
    assert_decodes(tokenizer, &ids, true, TEXT("<unk><s> a <" BLANK "u>\xC3\xA9<0xG1>"));
    assert_false(tokenizer_is_control(tokenizer, -1) || tokenizer_ends_generation(tokenizer, odd + 1));
    tokenizer_close(tokenizer);
}

// Output matrices are padded to more rows than there are tokens: such ids are drawn, and logprobs name them.
TEST(ids_outside_the_vocabulary_decode_to_nothing)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    int32_t n_tokens = tokenizer_n_tokens(tokenizer);
    int32_t outside[] = {n_tokens, n_tokens + 1, INT32_MAX, -1, INT32_MIN};
    struct token_array ids = {.ids = outside, .n_ids = sizeof outside / sizeof *outside};
    assert_decodes(tokenizer, &ids, false, TEXT(""));
    assert_decodes(tokenizer, &ids, true, TEXT(""));
    for (size_t i = 0; i < ids.n_ids; i++) {
        assert_int_equal(tokenizer_token_text(tokenizer, outside[i]).size, 0);
        assert_false(tokenizer_is_control(tokenizer, outside[i]));
        assert_false(tokenizer_ends_generation(tokenizer, outside[i]));
    }
    tokenizer_close(tokenizer);
}

TEST(a_byte_level_token_outside_the_alphabet_decodes_to_its_text)
{
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    int32_t id = add_token(&file, "\xE4\xB8\xAD", 0, TYPE_NORMAL);
    struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "gpt-2");
    struct token_array ids = {.ids = &id, .n_ids = 1};
    assert_decodes(tokenizer, &ids, false, TEXT("\xE4\xB8\xAD"));
    tokenizer_close(tokenizer);
}

static struct tokenizer *open_with_tokens(const char *const *tokens, size_t n_tokens)
{
    struct vocabulary_file file = {0};
    for (size_t i = 0; i < n_tokens; i++)
        add_token(&file, tokens[i], 0, TYPE_NORMAL);
    return open_or_fail(&file, "gpt2", "gpt-2");
}

TEST(tokens_known_to_end_a_turn_end_the_generation)
{
    static const char *const ends[] = {"<|eot_id|>",
                                       "<|im_end|>",
                                       "<end_of_turn>",
                                       "<|endoftext|>",
                                       "</s>",
                                       "<|end|>",
                                       "<|fim_pad|>",
                                       "<\xEF\xBD\x9C"
                                       "end" BLANK "of" BLANK "sentence\xEF\xBD\x9C>"};
    struct tokenizer *tokenizer = open_with_tokens(ends, 8);
    for (int32_t id = 0; id < 8; id++)
        assert_true(tokenizer_ends_generation(tokenizer, id) && tokenizer_is_control(tokenizer, id));
    tokenizer_close(tokenizer);
    static const char *const others[] = {"<|im_start|>", "hello", "<|fim_prefix|>"};
    tokenizer = open_with_tokens(others, 3);
    for (int32_t id = 0; id < 3; id++)
        assert_false(tokenizer_ends_generation(tokenizer, id));
    assert_true(tokenizer_is_control(tokenizer, 2));
    tokenizer_close(tokenizer);
    // gpt-oss: <|end|> ends one message of several.
    static const char *const harmony[] = {"<|return|>", "<|call|>", "<|end|>", "<|channel|>"};
    tokenizer = open_with_tokens(harmony, 4);
    assert_true(tokenizer_ends_generation(tokenizer, 0) && tokenizer_ends_generation(tokenizer, 1));
    assert_false(tokenizer_ends_generation(tokenizer, 2) || tokenizer_is_control(tokenizer, 3));
    tokenizer_close(tokenizer);
}

// gpt-oss and Solar: where a vocabulary has both of its marks, at whichever ids, <|end|> ends one message of
// several.
TEST(an_end_of_a_part_ends_no_answer)
{
    static const struct {
        const char *tokens[3];
        bool ends; // <|end|>, the last
    } cases[] = {
        {{"<|return|>", "<|call|>", "<|end|>"}, false}, {{"<|call|>", "<|return|>", "<|end|>"}, false},
        {{"<|flush|>", "<|calls|>", "<|end|>"}, false}, {{"<|calls|>", "<|flush|>", "<|end|>"}, false},
        {{"<|return|>", "other", "<|end|>"}, true},     {{"<|call|>", "other", "<|end|>"}, true},
        {{"<|flush|>", "other", "<|end|>"}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = open_with_tokens(cases[i].tokens, 3);
        if (tokenizer_ends_generation(tokenizer, 2) != cases[i].ends)
            fail_msg("case %zu", i);
        tokenizer_close(tokenizer);
    }
    static const char *const gemma[] = {"<|tool_response>", "</s>", "<end_of_turn>"};
    struct tokenizer *tokenizer = open_with_tokens(gemma, 3);
    assert_false(tokenizer_ends_generation(tokenizer, 1));
    assert_true(tokenizer_ends_generation(tokenizer, 2));
    tokenizer_close(tokenizer);
}

TEST(spelling_decides_only_the_ends_that_no_key_decides)
{
    static const struct {
        const char *text;
        uint32_t type;
    } tokens[] = {{"<|endoftext|>", TYPE_CONTROL}, {"<|im_end|>", TYPE_CONTROL}, {"<|eom_id|>", TYPE_CONTROL},
                  {"</s>", TYPE_CONTROL},          {"[EOS]", TYPE_CONTROL},      {"<PAD>", TYPE_CONTROL},
                  {"<|end|>", TYPE_USER}};
    enum { N = sizeof tokens / sizeof *tokens };
    static const struct {
        const char *key; // of token `id`; NULL: none
        uint32_t id;
        const char *ends; // '1': the token at that place ends an answer
    } cases[] = {
        {NULL, 0, "1111110"},                          // nothing else decides
        {"tokenizer.ggml.eos_token_id", 0, "1110000"}, // the text's end: turns and messages are open
        {"tokenizer.ggml.eos_token_id", 1, "1111100"}, // a turn's end as eos: the text's is open
        {"tokenizer.ggml.eot_token_id", 6, "1011101"}, // a key's word counts for a user-defined token too
        {"tokenizer.ggml.eom_token_id", 2, "1111100"},
        {"tokenizer.ggml.eos_token_id", 999, "1111110"}, // outside the vocabulary: as if absent
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_file file = {0};
        for (int token = 0; token < N; token++)
            add_token(&file, tokens[token].text, 0, tokens[token].type);
        if (cases[i].key)
            add_key_u32(&file, cases[i].key, cases[i].id);
        struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "gpt-2");
        char ends[N + 1] = {0};
        for (int token = 0; token < N; token++)
            ends[token] = tokenizer_ends_generation(tokenizer, token) ? '1' : '0';
        if (strcmp(ends, cases[i].ends) != 0)
            fail_msg("case %zu: expected %s, got %s", i, cases[i].ends, ends);
        tokenizer_close(tokenizer);
    }
}

// The ids that llama's tokenizers have where no key names any are absent too where there are no such tokens.
TEST(ids_outside_a_small_vocabulary_are_absent)
{
    for (int32_t n = 1; n <= 3; n++) {
        static const char *const tokens[] = {"<unk>", "<s>", "</s>"};
        struct vocabulary_file file = {0};
        for (int32_t i = 0; i < n; i++)
            add_token(&file, tokens[i], 0, i ? TYPE_CONTROL : TYPE_UNKNOWN);
        struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
        assert_int_equal(tokenizer_bos(tokenizer), n > 1 ? 1 : -1);
        assert_int_equal(tokenizer_eos(tokenizer), n > 2 ? 2 : -1);
        tokenizer_close(tokenizer);
    }
}

// Gemma's vocabulary has the tags of HTML as user-defined tokens.
TEST(a_user_defined_token_ends_nothing_by_its_spelling)
{
    struct vocabulary_file file = {0};
    int32_t tag = add_token(&file, "</s>", 0, TYPE_USER);
    int32_t turn = add_token(&file, "<end_of_turn>", 0, TYPE_CONTROL);
    struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "gpt-2");
    assert_false(tokenizer_ends_generation(tokenizer, tag) || tokenizer_is_control(tokenizer, tag));
    assert_true(tokenizer_ends_generation(tokenizer, turn));
    tokenizer_close(tokenizer);
}

TEST(keys_name_further_ends_and_additions)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    int32_t turn = add_token(&file, "[turn]", 0, TYPE_CONTROL);
    add_key_u32(&file, "tokenizer.ggml.eot_token_id", (uint32_t)turn);
    add_key_u32(&file, "tokenizer.ggml.eom_token_id", 99999); // outside the vocabulary: as if absent
    add_key_bool(&file, "tokenizer.ggml.add_eos_token", true);
    add_key_bool(&file, "tokenizer.ggml.add_bos_token", false);
    struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
    assert_true(tokenizer_ends_generation(tokenizer, turn) && tokenizer_ends_generation(tokenizer, 2));
    assert_encodes(tokenizer, "", TOKENIZER_ADD_SPECIAL, "</s>");
    tokenizer_close(tokenizer);
}

// What llama.cpp's converter writes for Gemma 4: no text is cut into words, and some settings are not
// written.
TEST(gemma4_merges_characters_by_rank_and_keeps_line_breaks_together)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    static const char *const tokens[] = {"a", "b", BLANK, "\n", "\n\n", "ab", (BLANK "a"), ("b" BLANK)};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        add_token(&file, tokens[i], 0, TYPE_NORMAL);
    int32_t turn = add_token(&file, "<turn|>", 0, TYPE_CONTROL);
    int32_t answer = add_token(&file, "<|tool_response>", 0, TYPE_USER);
    add_merge(&file, "b " BLANK);
    add_merge(&file, BLANK " a");
    add_merge(&file, "a b");
    add_key_u32(&file, "tokenizer.ggml.bos_token_id", 1);
    add_key_u32(&file, "tokenizer.ggml.eos_token_id", 2);
    add_key_bool(&file, "tokenizer.ggml.add_bos_token", false);
    add_key_bool(&file, "tokenizer.ggml.add_space_prefix", false);
    struct tokenizer *tokenizer = open_or_fail(&file, "gemma4", NULL);
    assert_encodes(tokenizer, "ab ab", 0, "a b" BLANK " ab");
    assert_encodes(tokenizer, " a", TOKENIZER_ADD_SPECIAL, "<s> " BLANK "a");
    assert_encodes(tokenizer, "a\n\n\nb\xC3\xA9", 0, "a \n\n \n b <0xC3> <0xA9>");
    assert_true(tokenizer_ends_generation(tokenizer, turn) && tokenizer_ends_generation(tokenizer, answer));
    assert_false(tokenizer_is_control(tokenizer, answer) || tokenizer_strips_first_space(tokenizer));
    tokenizer_close(tokenizer);
}

// --- What is refused ---

TEST(vocabularies_that_make_no_sense_are_refused)
{
    struct vocabulary_file file = {0};
    add_token(&file, "a", 0, TYPE_NORMAL);
    assert_refused(&file, "rwkv", NULL,
                   "unknown tokenizer \"rwkv\", expected llama, gpt2, gemma4, bert or t5");
    add_token(&file, "a", 0, TYPE_NORMAL);
    assert_refused(&file, "gpt2", "klingon", "unknown pre-tokenizer \"klingon\"");
    assert_refused(&file, "gpt2", NULL, "tokenizer.ggml.tokens: missing or empty");
    add_token(&file, "a", NAN, TYPE_NORMAL);
    assert_refused(&file, "llama", NULL, "scores: item 0 is not a number");
    add_token(&file, "a", 0, TYPE_NORMAL);
    file.n_tokens = 1;
    add_key_u32(&file, "tokenizer.ggml.bos_token_id", 7);
    add_key_bool(&file, "tokenizer.ggml.add_bos_token", true);
    assert_refused(&file, "gpt2", NULL, "add_bos_token: true, but there is no bos_token_id");
    add_token(&file, "a", 0, TYPE_NORMAL);
    add_key_bool(&file, "tokenizer.ggml.add_eos_token", true);
    assert_refused(&file, "gpt2", NULL, "add_eos_token: true, but there is no eos_token_id");
    static const char *const bad_merges[] = {"ab", "a ", " b", "", " "};
    for (size_t i = 0; i < 5; i++) {
        add_token(&file, "a", 0, TYPE_NORMAL);
        add_merge(&file, bad_merges[i]);
        assert_refused(&file, "gpt2", NULL, "merges: item 0 is not two symbols");
    }
}

TEST(a_vocabulary_s_sizes_are_limited)
{
    struct vocabulary_file file = {0};
    static char text[VOCABULARY_TOKEN_BYTES_MAX + 2];
    memset(text, 'x', VOCABULARY_TOKEN_BYTES_MAX);
    add_token(&file, text, 0, TYPE_NORMAL);
    tokenizer_close(open_or_fail(&file, "llama", NULL));
    text[VOCABULARY_TOKEN_BYTES_MAX] = 'x';
    add_token(&file, text, 0, TYPE_NORMAL);
    assert_refused(&file, "llama", NULL, "token 0 has 4097 bytes, at most 4096");
    static char merge[2 * VOCABULARY_TOKEN_BYTES_MAX + 3];
    memset(merge, 'x', 2 * VOCABULARY_TOKEN_BYTES_MAX + 1);
    merge[VOCABULARY_TOKEN_BYTES_MAX] = ' ';
    add_token(&file, "x", 0, TYPE_NORMAL);
    add_merge(&file, merge);
    tokenizer_close(open_or_fail(&file, "gpt2", NULL));
    merge[2 * VOCABULARY_TOKEN_BYTES_MAX + 1] = 'x';
    add_token(&file, "x", 0, TYPE_NORMAL);
    add_merge(&file, merge);
    assert_refused(&file, "gpt2", NULL, "merges: item 0 is not two symbols");
    for (int beyond = 0; beyond < 2; beyond++) {
        for (int i = 0; i < VOCABULARY_TOKENS_MAX + beyond; i++)
            add_token(&file, "", 0, TYPE_NORMAL);
        if (beyond)
            assert_refused(&file, "gpt2", NULL, "1048577 tokens, at most 1048576");
        else
            tokenizer_close(open_or_fail(&file, "gpt2", NULL));
        add_token(&file, "a", 0, TYPE_NORMAL);
        for (int i = 0; i < VOCABULARY_MERGES_MAX + beyond; i++)
            add_merge(&file, "a b");
        if (beyond)
            assert_refused(&file, "gpt2", NULL, "2097153 merges, at most 2097152");
        else
            tokenizer_close(open_or_fail(&file, "gpt2", NULL));
    }
}

TEST(a_text_s_size_is_limited)
{
    struct vocabulary_file file = {0};
    static char token[4096 + 1];
    memset(token, '[', 4096);
    add_token(&file, token, 0, TYPE_USER);
    struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "gpt-2");
    struct text text = {malloc(TOKENIZER_TEXT_BYTES_MAX + 1), TOKENIZER_TEXT_BYTES_MAX};
    struct token_array ids = {0};
    struct error error;
    memset((char *)text.data, '[', text.size);
    assert_ok(tokenizer_encode(tokenizer, text, 0, &ids, &error), &error);
    assert_int_equal(ids.n_ids, TOKENIZER_TEXT_BYTES_MAX / 4096);
    text.size++;
    assert_int_equal(tokenizer_encode(tokenizer, text, 0, &ids, &error), STATUS_REJECT);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    token_array_finish(&ids);
    free((char *)text.data);
    tokenizer_close(tokenizer);
}

// --- The shared vocabularies ---

static bool same_ids(const struct token_array *got, const struct value *expected)
{
    if (got->n_ids != expected->array.n_items)
        return false;
    for (size_t i = 0; i < got->n_ids; i++)
        if (got->ids[i] != expected->array.items[i].integer)
            return false;
    return true;
}

static size_t compare_vocabulary(const char *name, const struct value *cases)
{
    char path[512], relative[256];
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct error error;
    snprintf(relative, sizeof relative, "vocab/%s.gguf", name);
    assert_true(shared_path(path, sizeof path, relative));
    assert_ok(gguf_open(&gguf, path, &error), &error);
    if (tokenizer_open(&tokenizer, gguf, NULL, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.text);
    gguf_close(gguf);
    const struct value *texts = value_get(cases, "texts");
    size_t n_compared = 0;
    for (int special = 0; special < 2; special++) {
        const struct value *expected = value_get(value_get(cases, special ? "ids_special" : "ids"), name);
        for (size_t i = 0; i < texts->array.n_items; i++, n_compared++) {
            struct token_array ids = {0};
            struct text text = texts->array.items[i].text;
            unsigned flags = special ? TOKENIZER_PARSE_SPECIAL : 0;
            assert_ok(tokenizer_encode(tokenizer, text, flags, &ids, &error), &error);
            if (!same_ids(&ids, &expected->array.items[i]))
                fail_msg("%s: text %zu differs: %.*s", name, i, (int)text.size, text.data);
            if (tokenizer_strips_first_space(tokenizer) && ids.n_ids)
                assert_int_equal(tokenizer_token_text(tokenizer, ids.ids[0]).data[0], BLANK[0]);
            else
                assert_decodes(tokenizer, &ids, true, text);
            token_array_finish(&ids);
        }
    }
    tokenizer_close(tokenizer);
    return n_compared;
}

TEST(the_shared_vocabularies_give_the_expected_ids)
{
    char path[512];
    if (!shared_path(path, sizeof path, "vocab/cases.json"))
        skip();
    FILE *file = fopen(path, "rb");
    struct buffer json = {0};
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        buffer_add(&json, block, n);
    fclose(file);
    struct arena arena = {0};
    struct value cases;
    struct error error;
    assert_ok(json_decode((struct text){json.data, json.size}, &arena, &cases, &error), &error);
    const struct value *ids = value_get(&cases, "ids");
    size_t n_compared = 0;
    for (size_t i = 0; i < ids->object.n_members; i++) {
        char name[64];
        struct text key = ids->object.members[i].key;
        snprintf(name, sizeof name, "%.*s", (int)key.size, key.data);
        n_compared += compare_vocabulary(name, &cases);
    }
    assert_true(n_compared >= 1000);
    arena_finish(&arena);
    buffer_finish(&json);
}
