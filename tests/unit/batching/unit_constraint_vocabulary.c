// The vocabulary of constraints, made of a tokenizer: what each token spells, which end an answer, and the
// names of special ones.
#include "batching/constraint.h"
#include "engine/grammar/recognizer.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/vocabulary_file.h"

static struct tokenizer *open_tokenizer(struct vocabulary_file *file, const char *model, const char *pre)
{
    struct error error;
    struct tokenizer *tokenizer = vocabulary_file_open(file, model, pre, &error);
    if (!tokenizer)
        fail_msg("%s", error.text);
    return tokenizer;
}

static void add_specials(struct vocabulary_file *file)
{
    static const char *const names[] = {"<tool>", "</tool>", "<tool", "<to", "<t", "zz", "!"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add_token(file, names[i], 0, TYPE_CONTROL);
}

// 256 bytes, words of their letters, and special tokens; the last of them, <|im_end|>, ends an answer.
static struct tokenizer *open_usual(void)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    add_token(&file, "ab", 0, TYPE_NORMAL);
    add_token(&file, "b", 0, TYPE_NORMAL);
    add_token(&file,
              "\xE2\x96\x81"
              "a",
              0, TYPE_NORMAL); // a blank before it
    add_specials(&file);
    add_key_u32(&file, "tokenizer.ggml.eos_token_id",
                (uint32_t)add_token(&file, "<|im_end|>", 0, TYPE_CONTROL));
    return open_tokenizer(&file, "llama", NULL);
}

static struct constraint_cache make_cache(struct tokenizer *tokenizer)
{
    struct constraint_cache cache = {.tokenizer = tokenizer, .n_vocab = tokenizer_n_tokens(tokenizer)};
    constraint_vocabulary_make(&cache);
    return cache;
}

static void finish_cache(struct constraint_cache *cache)
{
    constraint_vocabulary_finish(cache);
    assert_null(cache->specials);
    assert_null(cache->vocabulary);
    tokenizer_close((struct tokenizer *)cache->tokenizer);
}

// ---- names ----

TEST(special_tokens_are_known_by_their_names_alone)
{
    struct constraint_cache cache = make_cache(open_usual());
    size_t n_control = 0;
    for (int32_t id = 0; id < cache.n_vocab; id++) {
        struct text name = tokenizer_token_text(cache.tokenizer, id);
        bool is_control = tokenizer_is_control(cache.tokenizer, id);
        if (constraint_cache_is_special(&cache, name) != is_control)
            fail_msg("%.*s", (int)name.size, name.data);
        n_control += is_control;
    }
    assert_true(n_control >= 8);
    assert_int_equal(cache.n_specials, n_control);
    static const char *const others[] = {"", "<", "<too", "<tool>>", "tool>", "z", "zzz", "~", "\x01"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (constraint_cache_is_special(&cache, text_from_string(others[i])))
            fail_msg("%s", others[i]);
    finish_cache(&cache);
}

TEST(a_vocabulary_without_special_tokens_knows_none)
{
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    struct constraint_cache cache = make_cache(open_tokenizer(&file, "gpt2", "gpt-2"));
    assert_int_equal(cache.making.error.status, STATUS_OK);
    assert_non_null(cache.vocabulary);
    assert_int_equal(cache.n_specials, 0);
    assert_false(constraint_cache_is_special(&cache, text_from_string("")));
    assert_false(constraint_cache_is_special(&cache, text_from_string("<s>")));
    finish_cache(&cache);
}

// ---- tokens ----

struct bounded_text {
    struct grammar *grammar;
    struct recognizer *recognizer;
    struct matcher matcher;
    uint32_t mask[16];
};

// A special token, then texts of these letters, which <unk> is no token of, then another.
static struct bounded_text begin_text(const struct constraint_cache *cache, const char *before,
                                      const char *after)
{
    struct bounded_text bounded;
    struct error error;
    struct grammar *letters;
    uint32_t start;
    assert_ok(grammar_compile_regex(&letters, text_from_string("[abknu<> ]*"), NULL, &error), &error);
    struct rules *rules = grammar_release(letters, &start);
    uint32_t symbols[] = {rules_special(rules, text_from_string(before)), start,
                          rules_special(rules, text_from_string(after))};
    assert_ok(grammar_create(&bounded.grammar, rules, rules_sequence(rules, symbols, 3), &error), &error);
    assert_ok(recognizer_create(&bounded.recognizer, bounded.grammar, cache->vocabulary, &error), &error);
    assert_ok(matcher_init(&bounded.matcher, bounded.recognizer, &error), &error);
    assert_true(grammar_mask_words((size_t)cache->n_vocab) <= 16);
    return bounded;
}

static void finish_text(struct bounded_text *bounded)
{
    matcher_finish(&bounded->matcher);
    recognizer_destroy(bounded->recognizer);
    grammar_destroy(bounded->grammar);
}

enum place { BEFORE, INSIDE, BEHIND };

static bool is_allowed(const struct constraint_cache *cache, int32_t id, enum place place,
                       const char *special)
{
    struct buffer text = {0};
    struct text name = tokenizer_token_text(cache->tokenizer, id);
    if (tokenizer_ends_generation(cache->tokenizer, id))
        return place == BEHIND;
    if (tokenizer_is_control(cache->tokenizer, id))
        return place != BEHIND && text_equal(name, text_from_string(special));
    tokenizer_decode(cache->tokenizer, id, false, &text);
    bool is_letters = text.size > 0;
    for (size_t i = 0; i < text.size; i++)
        is_letters &= strchr("abknu<> ", text.data[i]) && text.data[i];
    buffer_finish(&text);
    return is_letters && place == INSIDE;
}

static void check_mask(struct bounded_text *bounded, const struct constraint_cache *cache, enum place place,
                       const char *special)
{
    struct error error;
    int32_t n_allowed = 0;
    assert_ok(matcher_mask(&bounded->matcher, bounded->mask, &error), &error);
    for (int32_t id = 0; id < cache->n_vocab; id++) {
        bool has = bounded->mask[id / 32] >> id % 32 & 1;
        if (has != is_allowed(cache, id, place, special))
            fail_msg("place %d: token %d is %s", place, (int)id, has ? "allowed" : "forbidden");
        n_allowed += has;
    }
    assert_true(n_allowed > 0);
}

static void accept(struct bounded_text *bounded, const struct constraint_cache *cache, const char *name)
{
    struct error error;
    bool accepted = false;
    for (int32_t id = 0; id < cache->n_vocab && !accepted; id++)
        if (text_equal(tokenizer_token_text(cache->tokenizer, id), text_from_string(name)))
            assert_ok(matcher_accept_token(&bounded->matcher, (uint32_t)id, &accepted, &error), &error);
    assert_true(accepted);
}

// Every token of the vocabulary, at every place.
TEST(tokens_are_allowed_where_what_they_spell_is)
{
    struct constraint_cache cache = make_cache(open_usual());
    assert_int_equal(cache.making.error.status, STATUS_OK);
    struct bounded_text bounded = begin_text(&cache, "<tool>", "</tool>");
    check_mask(&bounded, &cache, BEFORE, "<tool>");
    accept(&bounded, &cache, "<tool>");
    check_mask(&bounded, &cache, INSIDE, "</tool>");
    accept(&bounded, &cache, "ab");
    check_mask(&bounded, &cache, INSIDE, "</tool>");
    accept(&bounded, &cache, "</tool>");
    check_mask(&bounded, &cache, BEHIND, "");
    finish_text(&bounded);
    bounded = begin_text(&cache, "<s>", "zz"); // the first and the last but one of the vocabulary's
    check_mask(&bounded, &cache, BEFORE, "<s>");
    accept(&bounded, &cache, "<s>");
    check_mask(&bounded, &cache, INSIDE, "zz");
    finish_text(&bounded);
    finish_cache(&cache);
}

// Their numbers are the first, the last but one, and behind what the model computes; not in their names' order.
TEST(special_tokens_count_from_the_first_to_the_last_of_the_model)
{
    struct vocabulary_file file = {0};
    add_token(&file, "<z first>", 0, TYPE_CONTROL);
    add_byte_alphabet(&file);
    add_token(&file, "<a last>", 0, TYPE_CONTROL);
    add_token(&file, "<beyond>", 0, TYPE_CONTROL);
    struct tokenizer *tokenizer = open_tokenizer(&file, "gpt2", "gpt-2");
    struct constraint_cache cache = {.tokenizer = tokenizer, .n_vocab = tokenizer_n_tokens(tokenizer) - 1};
    constraint_vocabulary_make(&cache);
    assert_int_equal(cache.making.error.status, STATUS_OK);
    assert_int_equal(cache.n_specials, 2);
    assert_true(constraint_cache_is_special(&cache, text_from_string("<z first>")));
    assert_true(constraint_cache_is_special(&cache, text_from_string("<a last>")));
    assert_false(constraint_cache_is_special(&cache, text_from_string("<beyond>")));
    struct bounded_text bounded = begin_text(&cache, "<z first>", "<a last>");
    check_mask(&bounded, &cache, BEFORE, "<z first>");
    accept(&bounded, &cache, "<z first>");
    check_mask(&bounded, &cache, INSIDE, "<a last>");
    finish_text(&bounded);
    finish_cache(&cache);
}

// ---- memory ----

TEST(a_vocabulary_without_memory_is_to_be_made_again)
{
    struct tokenizer *tokenizer = open_usual();
    for (long n_good = 0;; n_good++) {
        struct constraint_cache cache = {.tokenizer = tokenizer, .n_vocab = tokenizer_n_tokens(tokenizer)};
        failing_memory_after(n_good);
        constraint_vocabulary_make(&cache);
        bool has_failed = failing_memory.has_failed;
        failing_memory_after(-1);
        if (!has_failed) {
            assert_true(n_good > 4);
            constraint_vocabulary_finish(&cache);
            break;
        }
        assert_int_equal(cache.making.error.status, STATUS_RETRY);
        assert_null(cache.vocabulary);
        assert_null(cache.specials);
        assert_int_equal(cache.n_specials, 0);
    }
    tokenizer_close(tokenizer);
}

// ---- what is made of it beforehand ----

// Steps do not wait for the first mask, nor for the distance to the end after each of its tokens.
TEST(an_answers_first_mask_is_made_with_its_constraint)
{
    struct constraint_cache cache = make_cache(open_usual());
    for (int closes = 0; closes < 2; closes++) {
        struct compiled_constraint entry = {
            .source = {.constraint = {.kind = CONSTRAINT_REGEX,
                                      .source = TEXT("([a-z]*a[a-z]{9}|[0-9]{3}é)*zz")},
                       .closes = closes}};
        uint32_t mask[64];
        struct matcher matcher;
        struct error error;
        constraint_compile(&entry, &cache);
        assert_int_equal(entry.error.status, STATUS_OK);
        assert_in_range(grammar_mask_words((size_t)cache.n_vocab), 1, sizeof mask / sizeof *mask);
        assert_ok(matcher_init(&matcher, entry.recognizer, &error), &error);
        const size_t n_sets = entry.recognizer->sets.n;
        const uint64_t n_steps = entry.recognizer->pool->steps;
        assert_int_equal(closes ? matcher_mask_within(&matcher, 100, mask, &error)
                                : matcher_mask(&matcher, mask, &error),
                         STATUS_OK);
        assert_int_equal(entry.recognizer->sets.n, n_sets);
        assert_int_equal(entry.recognizer->pool->steps, n_steps);
        matcher_finish(&matcher);
        recognizer_destroy(entry.recognizer);
        grammar_destroy(entry.grammar);
    }
    finish_cache(&cache);
}
