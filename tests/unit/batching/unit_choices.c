// A sequence's stops and context, and from finished sequences to the job's result.
#include "batching/constrained.h"
#include "tests/support/cases.h"
#include "tests/support/fake_model.h"
#include "tests/support/job_records.h"

// A prompt whose sequences a test fills by hand.
static struct prompt *make_prompt(const char *record)
{
    struct prompt *prompt = prompt_create(decode_good(record));
    assert_non_null(prompt);
    return prompt;
}

static void free_prompt(struct prompt *prompt)
{
    struct job *job = prompt->job;
    prompt_destroy(prompt);
    job_destroy(job);
}

// One token after the other, as constrained_accept leaves them; `logprob` is each one's.
static void put_tokens(struct sequence *sequence, const char *const *pieces, int32_t n, float logprob)
{
    sequence->answer.logprobs = calloc((size_t)n + 1, sizeof *sequence->answer.logprobs);
    sequence->answer.generated = calloc((size_t)n + 1, sizeof *sequence->answer.generated);
    for (int32_t i = 0; i < n; i++) {
        sequence->answer.logprobs[i] =
            (struct logprob_entry){.chosen = {i, logprob},
                                   .text_offset = (int32_t)sequence->answer.text.size};
        buffer_add_string(&sequence->answer.text, pieces[i]);
    }
    sequence->answer.n_generated = n;
}

static void assert_text(const struct job *job, int32_t choice, const char *expected)
{
    struct text text = job->result.choices[choice].text;
    if (!text_equals_string(text, expected))
        fail_msg("got \"%.*s\", expected \"%s\"", (int)text.size, text.data, expected);
}

TEST(bad_utf8_becomes_one_character_for_each_maximal_part)
{
    static const struct {
        const char *bytes;
        enum finish_reason reason;
        const char *text;
    } cases[] = {
        {"caf\xC3\xA9", FINISH_STOP, "caf\xC3\xA9"},
        {"a\xE2\x82z", FINISH_STOP, "a\xEF\xBF\xBDz"}, // the beginning of a euro sign
        // unfinished, and the model ended it
        {"a\xF0\x9F\x98", FINISH_STOP, "a\xEF\xBF\xBD"},
        // unfinished, because max_tokens cut it
        {"a\xF0\x9F\x98", FINISH_LENGTH, "a"},
        {"a\xF0\x9F\x98z", FINISH_LENGTH, "a\xEF\xBF\xBDz"},
        {"\xC3", FINISH_LENGTH, ""},
        {"a\x98", FINISH_LENGTH, "a\xEF\xBF\xBD"}, // the end of no character
        // overlong: no part is a beginning
        {"\xE0\x80\xAF", FINISH_STOP, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", FINISH_STOP, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, // half of a surrogate pair
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", FINISH_STOP,                  // Unicode 15, table 3-10
         "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41\xEF\xBF\xBD\xEF\xBF\xBD\x42"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", FINISH_STOP, // table 3-11
         "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prompt *prompt = make_prompt("{'prompt':'p'}");
        buffer_add_string(&prompt->sequences.items[0].answer.text, cases[i].bytes);
        prompt->sequences.items[0].answer.finish_reason = cases[i].reason;
        prompt_finish_job(prompt, NULL);
        assert_text(prompt->job, 0, cases[i].text);
        free_prompt(prompt);
    }
}

TEST(offsets_count_characters_of_the_text)
{
    // A character over two tokens, a token without text, and two that a stop string cut off.
    static const char *const pieces[] = {"\xC3\xA9t\xC3", "\xA9", "", "!\xFF", "END", "x"};
    static const int32_t expected[] = {0, 2, 3, 3, 5, 5};
    struct prompt *prompt = make_prompt("{'prompt':'p','logprobs':0,'stop':'END'}");
    struct sequence *sequence = &prompt->sequences.items[0];
    put_tokens(sequence, pieces, 6, -1.0f);
    sequence->answer.text.size -= 4;
    sequence->answer.finish_reason = FINISH_STOP;
    prompt_finish_job(prompt, NULL);
    assert_text(prompt->job, 0, "\xC3\xA9t\xC3\xA9!\xEF\xBF\xBD");
    for (int i = 0; i < 6; i++)
        assert_int_equal(prompt->job->result.choices[0].logprobs[i].text_offset, expected[i]);
    free_prompt(prompt);
}

TEST(the_best_of_many_are_returned_best_first)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const float logprobs[] = {-2.0f, -0.5f, -1.0f, -0.5f};
    for (int asks = 0; asks < 2; asks++) {
        struct prompt *prompt = make_prompt(asks ? "{'prompt':'p','n':3,'best_of':4,'logprobs':0}"
                                                 : "{'prompt':'p','n':3,'best_of':4}");
        for (int i = 0; i < 4; i++) {
            put_tokens(&prompt->sequences.items[i], &names[i], 1, logprobs[i]);
            prompt->sequences.items[i].answer.finish_reason = FINISH_STOP;
        }
        prompt_finish_job(prompt, NULL);
        const struct result *result = &prompt->job->result;
        assert_int_equal(result->n_choices, 3);
        assert_text(prompt->job, 0, "b"); // of equals the first
        assert_text(prompt->job, 1, "d");
        assert_text(prompt->job, 2, "c");
        assert_int_equal(result->completion_tokens, 4); // all that were generated
        assert_int_equal(result->choices[0].logprobs != NULL, asks);
        free_prompt(prompt);
    }
}

// Tokens spell one letter each (tests/support/fake_model.h).
TEST(the_earliest_of_several_stops_ends_the_text)
{
    static const struct {
        const char *record, *text;
    } cases[] = {
        {"{'prompt':'p','stop':['e','cde']}", "ab"}, // both end with the same token
        {"{'prompt':'p','stop':['cde','e']}", "ab"},     {"{'prompt':'p','stop':['de','e','bcde']}", "a"},
        {"{'prompt':'p','stop':['ef','bc','cd']}", "a"}, // the first to be complete
        {"{'prompt':'p','stop':['cde']}", "ab"},         {"{'prompt':'p','stop':['x','abcdefg']}", "abcdef"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prompt *prompt = make_prompt(cases[i].record);
        struct sequence *sequence = &prompt->sequences.items[0];
        prompt->max_tokens = 6;
        for (int32_t letter = 0; sequence->answer.finish_reason == FINISH_NONE; letter++)
            constrained_accept(sequence, &(struct sample_result){.token = 26 + letter}, NULL);
        assert_int_equal(sequence->answer.finish_reason,
                         strlen(cases[i].text) == 6 ? FINISH_LENGTH : FINISH_STOP);
        prompt_finish_job(prompt, NULL);
        assert_text(prompt->job, 0, cases[i].text);
        free_prompt(prompt);
    }
}

TEST(a_stop_that_is_included_stands_at_the_end_of_the_text)
{
    static const struct {
        const char *record, *text;
        int32_t completion_tokens;
    } cases[] = {
        {"{'prompt':'p','stop':['cd'],'include_stop_str_in_output':true}", "abcd", 4},
        {"{'prompt':'p','stop':['x','abcdef'],'include_stop_str_in_output':true}", "abcdef", 6},
        {"{'prompt':'p','stop_token_ids':[29]}", "abc", 4}, // 'd' is token 29: counted, as an end token is
        {"{'prompt':'p','stop_token_ids':[5,29],'ignore_eos':true}", "abc", 4},
        {"{'prompt':'p','stop_token_ids':[29],'include_stop_str_in_output':true}", "abcd", 4},
        // 'b' is complete with the second token
        {"{'prompt':'p','stop':['b','de'],'min_tokens':2}", "abc", 5},
        {"{'prompt':'p','stop':['bc'],'min_tokens':2}", "a", 3}, // and this one with the third
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prompt *prompt = make_prompt(cases[i].record);
        struct sequence *sequence = &prompt->sequences.items[0];
        prompt->max_tokens = 9;
        for (int32_t letter = 0; sequence->answer.finish_reason == FINISH_NONE; letter++)
            constrained_accept(sequence, &(struct sample_result){.token = 26 + letter}, NULL);
        assert_int_equal(sequence->answer.finish_reason, FINISH_STOP);
        prompt_finish_job(prompt, NULL);
        assert_text(prompt->job, 0, cases[i].text);
        assert_int_equal(prompt->job->result.completion_tokens, cases[i].completion_tokens);
        free_prompt(prompt);
    }
}

static struct prompt *prepare_tokens(const char *record, enum status expected, const char *text)
{
    const struct prompt_environment environment = {.limits = {.n_context = 4096,
                                                              .n_context_original = 4096,
                                                              .n_positions_max = 4096,
                                                              .page_positions = 16,
                                                              .n_vocab = FAKE_VOCAB}};
    struct prompt *prompt = make_prompt(record);
    assert_int_equal(prompt_prepare(prompt, &environment), expected);
    if (expected != STATUS_OK)
        assert_string_equal(prompt->error.text, text);
    return prompt;
}

static int32_t count_allowed(const uint32_t *mask)
{
    int32_t n = 0;
    for (int32_t token = 0; token < FAKE_VOCAB; token++)
        n += token_mask_has(mask, token);
    return n;
}

TEST(tokens_that_end_an_answer_are_masked_before_min_tokens)
{
    struct prompt *prompt =
        prepare_tokens("{'tokens':[5],'min_tokens':3,'stop_token_ids':[9,40]}", STATUS_OK, NULL);
    for (int32_t index = 0; index < 5; index++) {
        const uint32_t *mask = sequence_allowed(&prompt->sequences.items[0], index);
        assert_int_equal(count_allowed(mask), index < 3 ? FAKE_VOCAB - 3 : FAKE_VOCAB);
        assert_int_equal(token_mask_has(mask, FAKE_EOS), index >= 3);
        assert_int_equal(token_mask_has(mask, 40), index >= 3);
        assert_true(token_mask_has(mask, 41));
    }
    free_prompt(prompt);
    prompt = prepare_tokens("{'tokens':[5],'allowed_token_ids':[1,9,210],'min_tokens':1,'ignore_eos':true}",
                            STATUS_OK, NULL);
    // an eos that ends nothing may be drawn
    assert_int_equal(count_allowed(sequence_allowed(&prompt->sequences.items[0], 0)), 3);
    free_prompt(prompt);
    prompt = prepare_tokens("{'tokens':[5],'stop_token_ids':[9]}", STATUS_OK, NULL);
    assert_null(sequence_allowed(&prompt->sequences.items[0], 0));
    free_prompt(prompt);
}

TEST(token_ids_that_the_model_lacks_are_refused)
{
    free_prompt(prepare_tokens("{'tokens':[5],'stop_token_ids':[0,210]}", STATUS_OK, NULL));
    free_prompt(prepare_tokens("{'tokens':[5],'allowed_token_ids':[0,210]}", STATUS_OK, NULL));
    free_prompt(prepare_tokens("{'tokens':[5],'stop_token_ids':[1,211]}", STATUS_REJECT,
                               "stop_token_ids: expected token ids from 0 to 210, got 211"));
    free_prompt(prepare_tokens("{'tokens':[5],'allowed_token_ids':[999]}", STATUS_REJECT,
                               "allowed_token_ids: expected token ids from 0 to 210, got 999"));
    free_prompt(prepare_tokens(
        "{'tokens':[5],'allowed_token_ids':[1,9],'stop_token_ids':[9],'min_tokens':1}", STATUS_REJECT,
        "min_tokens: expected 0 where allowed_token_ids holds only tokens that end the answer, got 1"));
}

TEST(each_token_of_a_long_answer_keeps_its_own_logprobs)
{
    enum { N = 300 }; // enough that their memory grows several times
    struct prompt *prompt = make_prompt("{'prompt':'p','logprobs':2}");
    struct sequence *sequence = &prompt->sequences.items[0];
    prompt->max_tokens = N;
    for (int32_t i = 0; i < N; i++)
        constrained_accept(sequence,
                           &(struct sample_result){.token = 26 + i % 150,
                                                   .logprob = (float)-i,
                                                   .n_top = 2,
                                                   .top = {{26 + i % 150, (float)-i},
                                                           {i % 7 + 2, (float)-i - 1}}},
                           NULL);
    assert_int_equal(sequence->answer.finish_reason, FINISH_LENGTH);
    prompt_finish_job(prompt, NULL);
    const struct choice *choice = &prompt->job->result.choices[0];
    assert_int_equal(choice->n_tokens, N);
    for (int32_t i = 0; i < N; i++) {
        const struct logprob_entry *entry = &choice->logprobs[i];
        char letter = (char)('a' + (26 + i % 150) % 26), other = (char)('a' + (i % 7 + 2) % 26);
        assert_true(entry->chosen.token == 26 + i % 150 && entry->chosen.logprob == (float)-i);
        assert_true(entry->n_top == 2 && entry->top[1].token == i % 7 + 2 &&
                    entry->top[1].logprob == (float)-i - 1);
        assert_true(text_equal(entry->chosen_bytes, (struct text){&letter, 1}));
        assert_true(text_equal(entry->top_bytes[1], (struct text){&other, 1}));
        assert_int_equal(entry->text_offset, i);
    }
    free_prompt(prompt);
}

// Prompt and answer together decide, before the first token is computed.
TEST(a_context_is_long_when_prompt_and_answer_pass_the_original_one)
{
    static const struct {
        int32_t n_prompt, max_tokens, max_tokens_default;
        bool is_long;
    } cases[] = {{60, 40, 0, false}, {60, 41, 0, true}, {100, 0, 0, false},  {101, 0, 0, true},
                 {1, 99, 0, false},  {1, 100, 0, true}, {60, -1, 40, false}, {60, -1, 41, true},
                 {60, -1, 0, true},  {99, 1, 41, false}};
    const struct prompt_environment environment = {.limits = {.n_context = 4096,
                                                              .n_context_original = 100,
                                                              .n_positions_max = 4096,
                                                              .page_positions = 16,
                                                              .n_vocab = 211}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prompt *prompt = make_prompt("{'prompt':'p'}");
        struct request *request = &prompt->job->request;
        struct prompt_environment own = environment;
        own.limits.max_tokens_default = cases[i].max_tokens_default;
        request->prompt.kind = PROMPT_TOKENS;
        request->prompt.n_tokens = cases[i].n_prompt;
        request->prompt.tokens =
            arena_allocate_array(&prompt->job->arena, 200, sizeof *request->prompt.tokens);
        memset(request->prompt.tokens, 0, 200 * sizeof *request->prompt.tokens);
        request->stop.max_tokens = cases[i].max_tokens;
        if (prompt_prepare(prompt, &own) != STATUS_OK)
            fail_msg("case %zu: %s", i, prompt->error.text);
        assert_int_equal(prompt->long_context, cases[i].is_long);
        free_prompt(prompt);
    }
}

TEST(logprobs_of_an_empty_answer_are_there)
{
    struct prompt *prompt = make_prompt("{'prompt':'p','logprobs':2}");
    prompt->sequences.items[0].answer.finish_reason = FINISH_STOP;
    prompt_finish_job(prompt, NULL);
    assert_non_null(prompt->job->result.choices[0].logprobs);
    assert_int_equal(prompt->job->result.choices[0].n_tokens, 0);
    free_prompt(prompt);
}
