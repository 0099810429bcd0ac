// The batcher with thinking budgets: which tokens are forced, where, and that they are the same in every batch. The
// expected answers are written down from the whole text again after each token.
#include "tests/unit/batching/batcher_bench.h"
#include "tests/support/job_records.h"
#include "tests/support/random.h"

// The fake model spells letters. `q` and `r` may be text of a thought, `qr` ends it.
static const struct thinking_format
    one_token = {.name = "one", .open = "o", .close = "q", .end = "q", .closing = "xq"},
    two_tokens = {.name = "two", .open = "o", .close = "qr", .end = "qr", .closing = "xxxqr"},
    framed = {.name = "framed", .open = "oa", .close = "qb", .end = "q", .closing = "qb", .answer_open = "m"},
    worded = {.name = "worded", .open = "o", .close = "q", .end = "q", .farewell = "bye", .closing = "q"};
static const struct thinking_format *const formats[] = {&one_token, &two_tokens, &framed, &worded};
enum { N_FORMATS = sizeof formats / sizeof *formats, ANSWER_MAX = 64 };

// ---- the definition ----

struct expected {
    int32_t tokens[ANSWER_MAX + 8], n_tokens;
    bool is_closing[ANSWER_MAX + 8]; // forced
    bool ended;                      // by the end token
    char text[ANSWER_MAX + 8];
    int32_t n_thought; // tokens
};

static size_t begins(const char *text, const char *mark)
{
    return strncmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
}

static bool is_begun(const char *text, const char *mark)
{
    return strlen(text) < strlen(mark) && strncmp(mark, text, strlen(text)) == 0;
}

// Whether the text ends within a thought; counts the letters of all thoughts, or those that are not closing ones.
static bool is_within(const struct thinking_format *format, const char *text, bool is_open,
                      const bool *left_out, int32_t *n)
{
    const char *at = text;
    *n = 0;
    for (;; is_open = false) {
        size_t size = is_open ? 0 : begins(at, format->open);
        if (!is_open && !size)
            return false;
        at += size;
        const char *end = strstr(at, format->end);
        for (const char *c = at; *c && c != end; c++)
            *n += !left_out || !left_out[c - text];
        if (!end)
            return true;
        if (!begins(end, format->close) && is_begun(end, format->close))
            return false;
        at = end + (begins(end, format->close) ? strlen(format->close) : strlen(format->end));
    }
}

// The rest of the closing text to write.
static const char *rest_of(const struct thinking_format *format, const char *text, const char *closing)
{
    size_t most = strlen(format->end) > 1
                      ? (size_t)(strstr(closing, format->end) - closing) + strlen(format->end) - 1
                      : 0;
    for (size_t n = most; n > 0; n--)
        if (strlen(text) >= n && strncmp(text + strlen(text) - n, closing, n) == 0)
            return closing + n;
    return closing;
}

static int32_t token_of(char letter)
{
    struct token_array tokens = {0};
    struct error error;
    assert_ok(tokenizer_encode(NULL, (struct text){&letter, 1}, 0, &tokens, &error), &error);
    int32_t token = tokens.ids[0];
    token_array_finish(&tokens);
    return token;
}

static void append(struct expected *expected, int32_t token, bool is_closing)
{
    expected->tokens[expected->n_tokens] = token;
    expected->is_closing[expected->n_tokens] = is_closing;
    fake_model_text(&token, 1, expected->text + expected->n_tokens++);
}

static struct expected expect(const struct thinking_format *format, const char *prompt, uint64_t seed,
                              uint32_t choice, int32_t budget, int32_t max_tokens)
{
    struct expected expected = {0};
    int32_t tokens[256], n_prompt = (int32_t)strlen(prompt);
    bool is_open = prompt[n_prompt - strlen(format->open)] &&
                   strcmp(prompt + n_prompt - strlen(format->open), format->open) == 0;
    char closing[32];
    snprintf(closing, sizeof closing, "%s%s%s", format->farewell ? format->farewell : "", format->closing,
             format->answer_open ? format->answer_open : "");
    for (int32_t i = 0; i < n_prompt; i++)
        tokens[i] = token_of(prompt[i]);
    while (expected.n_tokens < max_tokens) {
        int32_t n, drawn;
        if (is_within(format, expected.text, is_open, NULL, &n) && budget >= 0 && n >= budget) {
            for (const char *c = rest_of(format, expected.text, closing);
                 *c && expected.n_tokens < max_tokens; c++)
                append(&expected, token_of(*c), true);
            continue;
        }
        memcpy(tokens + n_prompt, expected.tokens, (size_t)expected.n_tokens * sizeof *tokens);
        expected.ended =
            fake_model_answer(tokens, n_prompt + expected.n_tokens, seed, choice, 1, false, &drawn) == 0;
        if (expected.ended)
            break;
        append(&expected, drawn, false);
    }
    (void)is_within(format, expected.text, is_open, expected.is_closing, &expected.n_thought);
    return expected;
}

// ---- jobs ----

static struct job *chat(const char *id, const char *prompt, uint64_t seed, int32_t budget, const char *more)
{
    char text[64] = "";
    if (budget >= 0)
        snprintf(text, sizeof text, ",'thinking_token_budget':%d", budget);
    struct decoded_job decoded =
        decode("{'job_id':'%s','dataset':'test','messages':[{'role':'user','content':'%s'}],'seed':%llu%s%s}",
               id, prompt, (unsigned long long)seed, text, more);
    assert_ok(decoded.status, &decoded.error);
    return decoded.job;
}

static int n_forced_seen, n_self_seen, n_cut_seen;

static void check_choice(const struct job *job, int32_t which, const struct expected *expected,
                         int32_t max_tokens)
{
    const struct choice *choice = &job->result.choices[which];
    if (choice->n_tokens != expected->n_tokens)
        fail_msg("job %s: %d tokens, expected %d: %s", job->job_id.data, choice->n_tokens, expected->n_tokens,
                 expected->text);
    for (int32_t i = 0; i < expected->n_tokens; i++) {
        assert_int_equal(choice->logprobs[i].chosen.token, expected->tokens[i]);
        if (expected->is_closing[i]) // one token is allowed: its logprob is 0, and it is its only alternative
            assert_true(choice->logprobs[i].chosen.logprob == 0 && choice->logprobs[i].n_top == 1);
    }
    assert_int_equal(choice->finish_reason, expected->ended ? FINISH_STOP : FINISH_LENGTH);
    assert_true(expected->ended || expected->n_tokens == max_tokens);
}

static char *random_prompt(uint64_t *state, const struct thinking_format *format, char *prompt)
{
    size_t n = 2 + random_below(state, 40);
    for (size_t i = 0; i < n; i++)
        prompt[i] = i < n / 2 ? 'g' : (char)('a' + random_below(state, 14)); // no mark
    strcpy(prompt + n, random_below(state, 3) ? format->open : "");
    return prompt;
}

struct thinking_job {
    char prompt[64];
    uint64_t seed;
    int32_t budget, max_tokens, n;
};

static void run_tasks(const struct thinking_format *format, struct batch_limits limits, int n_drafts,
                      uint64_t seed, int64_t *n_preempted, int64_t *n_accepted)
{
    enum { N_TASKS = 150 };
    struct thinking_job tasks[N_TASKS];
    uint64_t state = random_seed(seed);
    bench_format = (struct answer_format){.thinking = format};
    bench_drafts = limits.n_drafts_max = n_drafts;
    struct bench bench = bench_open(limits);
    bench_drafts = 0;
    for (int i = 0; i < N_TASKS; i++) {
        struct thinking_job *task = &tasks[i];
        *task = (struct thinking_job){.seed = random_below(&state, 3),
                                      .budget = (int32_t)random_below(&state, 16) - 1,
                                      .max_tokens = 1 + (int32_t)random_below(&state, 40),
                                      .n = random_below(&state, 5) ? 1 : 3};
        if (i % 3 == 2) // an answer before it is a draft of this one
            *task = (struct thinking_job){
                .seed = tasks[i - 1].seed, .budget = tasks[i - 1].budget, .max_tokens = 40, .n = 1};
        strcpy(task->prompt, i % 3 == 2 ? tasks[i - 1].prompt : random_prompt(&state, format, (char[64]){0}));
        char id[16], more[128];
        snprintf(id, sizeof id, "%d", i);
        snprintf(more, sizeof more, ",'max_tokens':%d,'n':%d,'logprobs':true,'top_logprobs':2",
                 task->max_tokens, task->n);
        batcher_take(bench.batcher, chat(id, task->prompt, task->seed, task->budget, more));
    }
    run_to_end(&bench);
    assert_int_equal(bench.finished.n_jobs, N_TASKS);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        const struct thinking_job *task = &tasks[atoi(job->job_id.data)];
        int32_t n_thought = 0, n_tokens = 0, n_forced = 0;
        assert_int_equal(job->result.status, RESULT_DONE);
        for (int32_t c = 0; c < task->n; c++) {
            struct expected expected =
                expect(format, task->prompt, task->seed, (uint32_t)c, task->budget, task->max_tokens);
            check_choice(job, c, &expected, task->max_tokens);
            n_thought += expected.n_thought;
            n_tokens += expected.n_tokens + expected.ended;
            for (int32_t i = 0; i < expected.n_tokens; i++)
                n_forced += expected.is_closing[i];
            if (task->budget >= 0 && n_thought > task->n * task->budget)
                fail_msg("job %s: %d tokens of thoughts", job->job_id.data, n_thought);
            bool is_forced = memchr(expected.is_closing, true, (size_t)expected.n_tokens);
            n_forced_seen += is_forced;
            n_cut_seen += is_forced && expected.is_closing[expected.n_tokens - 1];
            n_self_seen += !is_forced && expected.n_thought && strstr(expected.text, format->end);
        }
        assert_int_equal(job->result.reasoning_tokens, n_thought);
        assert_int_equal(job->result.completion_tokens, n_tokens);
        assert_int_equal(job->figures.forced_tokens, n_forced);
    }
    *n_preempted += bench.preempted;
    *n_accepted += bench.accepted;
    bench_close(&bench);
    bench_format = (struct answer_format){0};
}

TEST(thoughts_are_closed_at_their_budget_whatever_the_batch_the_memory_and_the_drafts)
{
    static const struct batch_limits batches[] = {
        {.n_sequences_max = 1, .n_tokens_max = 1, .n_jobs_max = 200, .n_pages = 100, .page_positions = 16},
        {.n_sequences_max = 8, .n_tokens_max = 32, .n_jobs_max = 200, .n_pages = 200, .page_positions = 16},
        {.n_sequences_max = 16, .n_tokens_max = 40, .n_jobs_max = 200, .n_pages = 44, .page_positions = 2},
    };
    int64_t n_preempted = 0, n_accepted = 0;
    n_forced_seen = n_self_seen = n_cut_seen = 0;
    for (size_t f = 0; f < N_FORMATS; f++)
        for (size_t b = 0; b < 3; b++)
            for (int n_drafts = 0; n_drafts <= 8; n_drafts += 8)
                run_tasks(formats[f], batches[b], ahead ? 0 : n_drafts, 10 * f + b, &n_preempted,
                          &n_accepted);
    printf("# forced %d, by the model %d, cut within the closing %d, preempted %lld, accepted %lld\n",
           n_forced_seen, n_self_seen, n_cut_seen, (long long)n_preempted, (long long)n_accepted);
    assert_true(n_forced_seen > 1000 && n_self_seen > 100 && n_cut_seen > 50 && n_preempted > 10);
    assert_true(ahead || n_accepted > 300);
}

// ---- single cases ----

static const struct batch_limits roomy = {
    .n_sequences_max = 4, .n_tokens_max = 64, .n_jobs_max = 400, .n_pages = 200, .page_positions = 16};

static struct bench open_with(const struct thinking_format *format)
{
    bench_format = (struct answer_format){.thinking = format};
    struct bench bench = bench_open(roomy);
    bench_format = (struct answer_format){0};
    return bench;
}

// A regex of six letters, of which the last two are forced.
TEST(the_answer_after_a_closed_thought_satisfies_its_constraint)
{
    for (size_t f = 0; f < N_FORMATS; f++) {
        struct bench bench = open_with(formats[f]);
        for (int i = 0; i < 200; i++) {
            char id[16], prompt[32], more[128];
            snprintf(id, sizeof id, "%d", i);
            snprintf(prompt, sizeof prompt, "ghi%s", i % 4 ? formats[f]->open : "");
            snprintf(more, sizeof more, ",'max_tokens':40,'structured_outputs':{'regex':'[a-f]{4}uv'}%s",
                     i % 3 ? "" : ",'close_at_max_tokens':true");
            batcher_take(bench.batcher, chat(id, prompt, (uint64_t)i, i % 9, more));
        }
        run_to_end(&bench);
        int n_spent = 0;
        for (const struct job *job = bench.finished.first; job; job = job->next) {
            const struct choice *choice = &job->result.choices[0];
            int i = atoi(job->job_id.data);
            assert_int_equal(job->result.status, RESULT_DONE);
            assert_int_equal(choice->finish_reason, FINISH_STOP);
            assert_int_equal(choice->text.size, 6);
            assert_int_equal(strspn(choice->text.data, "abcdef"), 4);
            assert_memory_equal(choice->text.data + 4, "uv", 2);
            assert_true(job->result.reasoning_tokens <= i % 9);
            n_spent += job->result.reasoning_tokens == i % 9;
        }
        assert_true(n_spent > 100);
        bench_close(&bench);
    }
}

// The shortest answer is `qr` and eight letters: where the closing text, five letters, leaves no room for those, the
// thought ends by the limit.
TEST(a_closing_that_leaves_no_room_is_left_to_close_at_max_tokens)
{
    struct bench bench = open_with(&two_tokens);
    for (int i = 0; i < 300; i++) {
        char id[16], more[128];
        snprintf(id, sizeof id, "%d", i);
        snprintf(more, sizeof more,
                 ",'max_tokens':%d,'structured_outputs':{'regex':'[a-f]{8}'},'close_at_max_tokens':true",
                 10 + i % 15);
        batcher_take(bench.batcher, chat(id, "gho", (uint64_t)i, i / 15 % 5, more));
    }
    run_to_end(&bench);
    int n_beyond = 0;
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        const struct choice *choice = &job->result.choices[0];
        int i = atoi(job->job_id.data), budget = i / 15 % 5;
        assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(choice->finish_reason, FINISH_STOP);
        assert_int_equal(choice->text.size, 8);
        assert_true(choice->n_tokens <= 10 + i % 15);
        n_beyond += job->result.reasoning_tokens > budget;
        if (10 + i % 15 >= budget + 5 + 8)
            assert_true(job->result.reasoning_tokens <= budget);
        assert_true(job->result.reasoning_tokens <= budget + 3);
    }
    assert_true(n_beyond > 5);
    bench_close(&bench);
}

static struct job *only_job(struct bench *bench, const char *prompt, int32_t budget, const char *more)
{
    batcher_take(bench->batcher, chat("only", prompt, 3, budget, more));
    run_to_end(bench);
    struct job *job = job_list_take(&bench->finished);
    assert_non_null(job);
    return job;
}

// The text is searched for them as it is searched for those that the model writes itself.
TEST(a_stop_string_ends_the_answer_in_the_closing_text)
{
    struct bench bench = open_with(&two_tokens);
    struct job *job = only_job(&bench, "gho", 0, ",'max_tokens':40,'stop':['xq']");
    assert_int_equal(job->result.choices[0].finish_reason, FINISH_STOP);
    assert_int_equal(job->result.choices[0].n_tokens, 4);
    job_destroy(job);
    bench_close(&bench);
}

TEST(a_prompt_that_is_scored_first_closes_at_once_too)
{
    struct bench bench = open_with(&two_tokens);
    struct job *plain = only_job(&bench, "gho", 0, ",'max_tokens':40,'logprobs':true"),
               *scored = only_job(&bench, "gho", 0, ",'max_tokens':40,'logprobs':true,'prompt_logprobs':1");
    assert_int_equal(scored->result.n_prompt_logprobs, 3);
    assert_int_equal(scored->result.reasoning_tokens, 0);
    assert_int_equal(plain->result.choices[0].n_tokens, scored->result.choices[0].n_tokens);
    for (int32_t i = 0; i < plain->result.choices[0].n_tokens; i++)
        assert_int_equal(plain->result.choices[0].logprobs[i].chosen.token,
                         scored->result.choices[0].logprobs[i].chosen.token);
    job_destroy(plain);
    job_destroy(scored);
    bench_close(&bench);
}

TEST(a_prompt_is_scored_although_the_closing_text_ends_the_answer)
{
    static const struct {
        const char *more;
        enum finish_reason reason;
        int32_t n_tokens;
    } cases[] = {{",'max_tokens':3", FINISH_LENGTH, 3},
                 {",'max_tokens':5", FINISH_LENGTH, 5},
                 {",'max_tokens':9,'stop':['xq']", FINISH_STOP, 4}};
    struct bench bench = open_with(&two_tokens);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[128];
        snprintf(more, sizeof more, ",'prompt_logprobs':1,'logprobs':true,'n':2%s", cases[i].more);
        struct job *job = only_job(&bench, "ghigho", 0, more);
        assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(job->result.n_prompt_logprobs, 6);
        for (int32_t k = 1; k < 6; k++)
            assert_int_equal(job->result.prompt_logprobs[k].chosen.token, token_of("ghigho"[k]));
        for (int32_t c = 0; c < 2; c++) {
            assert_int_equal(job->result.choices[c].finish_reason, cases[i].reason);
            assert_int_equal(job->result.choices[c].n_tokens, cases[i].n_tokens);
        }
        job_destroy(job);
    }
    bench_close(&bench);
}

TEST(the_words_of_a_family_are_no_part_of_the_thought)
{
    struct bench bench = open_with(&worded);
    struct job *job = only_job(&bench, "gho", 2, ",'max_tokens':40");
    assert_int_equal(job->result.reasoning_tokens, 2);
    assert_int_equal(job->result.choices[0].reasoning.size, 2);
    job_destroy(job);
    bench_close(&bench);
}

// allowed_token_ids has no token of the closing text, and bad_words has all of it.
TEST(limits_on_the_vocabulary_do_not_keep_a_thought_open)
{
    char more[128];
    snprintf(more, sizeof more, ",'max_tokens':12,'allowed_token_ids':[%d],'logprobs':true", token_of('h'));
    static const char *const others[] = {",'max_tokens':12,'bad_words':['xxxqr'],'logprobs':true",
                                         ",'max_tokens':12,'min_tokens':12,'logprobs':true"};
    struct bench bench = open_with(&two_tokens);
    for (int i = 0; i < 3; i++) {
        struct job *job = only_job(&bench, "gho", 3, i ? others[i - 1] : more);
        assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(job->result.reasoning_tokens, 3);
        for (int32_t k = 0; k < 5; k++)
            assert_int_equal(job->result.choices[0].logprobs[3 + k].chosen.token, token_of("xxxqr"[k]));
        job_destroy(job);
    }
    bench_close(&bench);
}

TEST(a_budget_without_thoughts_has_no_effect_and_a_warning)
{
    struct bench bench = open_with(&two_tokens);
    struct job *job = decode_good("{'job_id':'a','prompt':'gh','max_tokens':4,'thinking_token_budget':0}");
    batcher_take(bench.batcher, job);
    run_to_end(&bench);
    assert_int_equal(job->result.status, RESULT_DONE);
    assert_int_equal(job->result.n_warnings, 1);
    assert_true(text_equals_string(job->result.warnings[0],
                                   "field \"thinking_token_budget\" has no effect: only "
                                   "answers to messages have thoughts"));
    bench_close(&bench);
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}
