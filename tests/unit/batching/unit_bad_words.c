// Words that an answer must not contain: none does, and answers are the same in every batch.
#include "tests/support/cases.h"
#include "tests/unit/batching/batcher_bench.h"

static const struct batch_limits batches[] = {
    {.n_sequences_max = 64, .n_tokens_max = 512, .n_jobs_max = 200, .n_pages = 1000, .page_positions = 16},
    {.n_sequences_max = 1, .n_tokens_max = 1, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
    {.n_sequences_max = 8, .n_tokens_max = 8, .n_jobs_max = 200, .n_pages = 64, .page_positions = 16},
    {.n_sequences_max = 64, .n_tokens_max = 512, .n_jobs_max = 200, .n_pages = 25, .page_positions = 4},
};

enum { N_BATCHES = sizeof batches / sizeof *batches, N_JOBS = 60, LENGTH = 24 };

struct answer {
    int32_t tokens[LENGTH], n;
};

// Answer of each job without bad words.
static struct answer unrestrained[N_JOBS];

static struct job *make_job(int number)
{
    int32_t tokens[20];
    char id[16];
    for (int32_t i = 0; i < 20; i++)
        tokens[i] = 10 + (i < 10 ? i : (i * 7 + number * 13) % 190);
    snprintf(id, sizeof id, "%d", number);
    struct job *job = job_of(tokens, 1 + number % 20, LENGTH, id);
    job->request.sampling.seed = (uint64_t)number;
    job->request.sampling.logprobs = true; // they name the tokens
    job->request.stop.ignore_eos = true;
    return job;
}

// The text that the stand-in tokenizer makes the token of.
static char spell(int32_t token)
{
    int32_t place = token >= 26 && token < 52 ? token + 73 : token >= 99 && token < 125 ? token - 73 : token;
    return (char)(place - 2);
}

static bool can_be_spelt(int32_t token)
{
    unsigned char byte = (unsigned char)spell(token);
    return token >= 2 && byte > ' ';
}

enum { N_WORDS = 3 }; // of each job

// A word of one or two tokens of the unrestrained answer; n 0: they can't be spelt.
static int32_t bad_tokens(int number, int word, int32_t out[2])
{
    const struct answer *answer = &unrestrained[number];
    int32_t n = 1 + (number + word) % 2, at = (number + 7 * word) % (LENGTH - 2);
    for (int32_t i = 0; i < n; i++) {
        out[i] = answer->tokens[at + i];
        if (!can_be_spelt(out[i]))
            return 0;
    }
    return n;
}

static void forbid(struct job *job, int number)
{
    job->request.vocabulary.bad_words = arena_allocate_array(&job->arena, N_WORDS, sizeof(struct text));
    for (int word = 0; word < N_WORDS; word++) {
        int32_t tokens[2], n = bad_tokens(number, word, tokens);
        char bytes[2];
        for (int32_t i = 0; i < n; i++)
            bytes[i] = spell(tokens[i]);
        if (n > 0)
            assert_true(
                job_set_text(job, &job->request.vocabulary.bad_words[job->request.vocabulary.n_bad_words++],
                             (struct text){bytes, (size_t)n}));
    }
}

static bool contains(const struct answer *answer, const int32_t *tokens, int32_t n)
{
    for (int32_t i = 0; i + n <= answer->n; i++)
        if (memcmp(answer->tokens + i, tokens, (size_t)n * sizeof *tokens) == 0)
            return true;
    return false;
}

// Runs the bench's jobs to their end and closes it.
static void read_answers(struct bench *bench, struct answer *answers)
{
    run_to_end(bench);
    for (const struct job *job = bench->finished.first; job; job = job->next) {
        assert_int_equal(job->result.status, RESULT_DONE);
        const struct choice *choice = &job->result.choices[0];
        struct answer *answer = &answers[atoi(job->job_id.data)];
        *answer = (struct answer){.n = choice->n_tokens};
        for (int32_t i = 0; i < choice->n_tokens; i++)
            answer->tokens[i] = choice->logprobs[i].chosen.token;
    }
    bench_close(bench);
}

static void run_all(const struct batch_limits *limits, bool with_words, struct answer *answers)
{
    struct bench bench = bench_open(*limits);
    for (int number = 0; number < N_JOBS; number++) {
        struct job *job = make_job(number);
        if (with_words)
            forbid(job, number);
        batcher_take(bench.batcher, job);
    }
    read_answers(&bench, answers);
}

TEST(no_answer_contains_a_bad_word_whatever_the_batch)
{
    static struct answer first[N_JOBS], other[N_JOBS];
    int n_changed = 0;
    run_all(&batches[0], false, unrestrained);
    for (int c = 0; c < N_BATCHES; c++) {
        struct answer *answers = c ? other : first;
        run_all(&batches[c], true, answers);
        for (int number = 0; number < N_JOBS; number++) {
            assert_int_equal(answers[number].n, LENGTH);
            assert_memory_equal(&answers[number], &first[number], sizeof *first);
            for (int word = 0; word < N_WORDS; word++) {
                int32_t tokens[2], n = bad_tokens(number, word, tokens);
                assert_true(n == 0 || !contains(&answers[number], tokens, n));
            }
            n_changed += memcmp(&answers[number], &unrestrained[number], sizeof *first) != 0;
        }
    }
    assert_true(n_changed > N_BATCHES * N_JOBS / 2);
}

// Two tokens that no answer has side by side, a word that no token spells, one of no letters.
TEST(words_that_an_answer_does_not_hold_change_nothing)
{
    static char unspelled[] = {FAKE_UNSPELLED};
    static struct text words[] = {{"!!!", 3}, {unspelled, 1}};
    static struct answer answers[N_JOBS];
    int n_blanks = 0;
    run_all(&batches[0], false, unrestrained);
    struct bench bench = bench_open(batches[0]);
    for (int number = 0; number < N_JOBS; number++) {
        struct job *job = make_job(number);
        job->request.vocabulary.bad_words = words;
        job->request.vocabulary.n_bad_words = 2;
        batcher_take(bench.batcher, job);
    }
    read_answers(&bench, answers);
    for (int number = 0; number < N_JOBS; number++) {
        assert_memory_equal(&answers[number], &unrestrained[number], sizeof *answers);
        for (int32_t i = 0; i < LENGTH; i++)
            n_blanks += spell(answers[number].tokens[i]) == ' ';
    }
    assert_true(n_blanks > 0);
}

TEST(a_job_whose_words_leave_nothing_fails_alone)
{
    struct bench bench = bench_open(batches[0]);
    int32_t allowed[] = {50};
    struct text word = {(char[]){spell(50), spell(50), spell(50)}, 3};
    for (int i = 0; i < 2; i++) {
        struct job *job = job_of((int32_t[]){20, 21}, 2, i ? 5 : 2, "job");
        job->request.vocabulary.allowed_tokens = allowed;
        job->request.vocabulary.n_allowed_tokens = 1;
        job->request.vocabulary.bad_words = &word;
        job->request.vocabulary.n_bad_words = 1;
        batcher_take(bench.batcher, job);
    }
    run_to_end(&bench);
    for (const struct job *job = bench.finished.first; job; job = job->next) {
        if (job->request.stop.max_tokens == 2)
            assert_int_equal(job->result.choices[0].n_tokens, 2);
        else
            assert_string_equal(job->result.error.text,
                                "bad_words: none of the allowed tokens is left to go on with");
    }
    bench_close(&bench);
}

// It is 0, and no sign that logits are not numbers.
TEST(the_first_token_of_a_vocabulary_is_drawn)
{
    struct bench bench = bench_open(batches[0]);
    int32_t allowed[] = {0};
    struct job *job = job_of((int32_t[]){20, 21}, 2, 3, "job");
    job->request.vocabulary.allowed_tokens = allowed;
    job->request.vocabulary.n_allowed_tokens = 1;
    batcher_take(bench.batcher, job);
    run_to_end(&bench);
    job = bench.finished.first;
    assert_int_equal(job->result.status, RESULT_DONE);
    assert_int_equal(job->result.choices[0].n_tokens, 3);
    assert_int_equal(job->result.choices[0].finish_reason, FINISH_LENGTH);
    bench_close(&bench);
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}
