// Sharing at the exact token: the prompt tokens that a batch computes against the nodes of the trie of all its
// prompts, the fewest possible. With pages alone, and with recurrent states and their snapshots.
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/batching/batcher_bench.h"

#include <stdlib.h>

enum { PROMPTS_MAX = 2000, LENGTH_MAX = 600, LONG_CONTEXT = 101 };

static struct prompts {
    int32_t tokens[PROMPTS_MAX][LENGTH_MAX], n_tokens[PROMPTS_MAX];
    int n;
    int32_t max_tokens;
} prompts;
static uint64_t random_state;

static int compare_prompts(const void *a, const void *b)
{
    const int32_t *x = prompts.tokens[*(const int *)a], *y = prompts.tokens[*(const int *)b];
    int32_t n_x = prompts.n_tokens[*(const int *)a], n_y = prompts.n_tokens[*(const int *)b];
    for (int32_t i = 0; i < n_x && i < n_y; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return (n_x > n_y) - (n_x < n_y);
}

// Nodes of the trie of prompts [first, end).
static int64_t count_trie(int first, int end)
{
    static int order[PROMPTS_MAX];
    int n = end - first;
    int64_t n_nodes = 0;
    for (int i = 0; i < n; i++)
        order[i] = first + i;
    qsort(order, (size_t)n, sizeof *order, compare_prompts);
    for (int i = 0; i < n; i++) {
        int32_t n_common = 0, n_tokens = prompts.n_tokens[order[i]];
        while (i > 0 && n_common < n_tokens && n_common < prompts.n_tokens[order[i - 1]] &&
               prompts.tokens[order[i - 1]][n_common] == prompts.tokens[order[i]][n_common])
            n_common++;
        n_nodes += n_tokens - n_common;
    }
    return n_nodes;
}

static void append_tokens(int32_t *n_tokens, int32_t *tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        tokens[(*n_tokens)++] = 10 + (int32_t)random_below(&random_state, 200);
}

// 1,000 jobs with a common prefix of 37 tokens.
static void make_common_prefix(void)
{
    prompts.n = 1000;
    prompts.max_tokens = 4;
    int32_t prefix[37], n_prefix = 0;
    append_tokens(&n_prefix, prefix, 37);
    for (int i = 0; i < prompts.n; i++) {
        memcpy(prompts.tokens[i], prefix, sizeof prefix);
        prompts.n_tokens[i] = 37;
        append_tokens(&prompts.n_tokens[i], prompts.tokens[i], 3 + (int32_t)random_below(&random_state, 20));
    }
}

// System text, examples, document, question: ten questions to a document, in random order.
static void make_documents(void)
{
    static int32_t system[53], examples[4][131], documents[60][300];
    int32_t n = 0;
    prompts.n = 600;
    prompts.max_tokens = 6;
    append_tokens(&n, system, 53);
    for (int i = 0; i < 4; i++)
        append_tokens((n = 0, &n), examples[i], 131);
    for (int i = 0; i < 60; i++)
        append_tokens((n = 0, &n), documents[i], 300);
    for (int i = 0; i < prompts.n; i++) {
        int document = i / 10, n_document = 100 + 37 * document % 200;
        int32_t *tokens = prompts.tokens[i];
        memcpy(tokens, system, sizeof system);
        memcpy(tokens + 53, examples[document / 15], sizeof examples[0]);
        memcpy(tokens + 53 + 131, documents[document], (size_t)n_document * sizeof *tokens);
        prompts.n_tokens[i] = 53 + 131 + n_document;
        append_tokens(&prompts.n_tokens[i], tokens, 5 + (int32_t)random_below(&random_state, 15));
    }
    for (int i = prompts.n - 1; i > 0; i--) {
        int j = (int)random_below(&random_state, (uint32_t)i + 1);
        int32_t tokens[LENGTH_MAX], n_tokens = prompts.n_tokens[i];
        memcpy(tokens, prompts.tokens[i], sizeof tokens);
        memcpy(prompts.tokens[i], prompts.tokens[j], sizeof tokens);
        memcpy(prompts.tokens[j], tokens, sizeof tokens);
        prompts.n_tokens[i] = prompts.n_tokens[j];
        prompts.n_tokens[j] = n_tokens;
    }
}

// Each prompt follows an earlier one up to a random token.
static void make_random_branches(void)
{
    prompts.n = 800;
    prompts.max_tokens = 5;
    for (int i = 0; i < prompts.n; i++) {
        int before = i ? (int)random_below(&random_state, (uint32_t)i) : 0;
        int32_t n = i ? (int32_t)random_below(&random_state, (uint32_t)prompts.n_tokens[before]) : 0;
        memcpy(prompts.tokens[i], prompts.tokens[before], (size_t)n * sizeof(int32_t));
        prompts.n_tokens[i] = n;
        append_tokens(&prompts.n_tokens[i], prompts.tokens[i],
                      10 + (int32_t)random_below(&random_state, 150));
        if (prompts.n_tokens[i] > LENGTH_MAX - 160)
            prompts.n_tokens[i] = LENGTH_MAX - 160;
        if (prompts.n_tokens[i] < LONG_CONTEXT) // shorter ones share nothing with these
            append_tokens(&prompts.n_tokens[i], prompts.tokens[i], LONG_CONTEXT - prompts.n_tokens[i]);
    }
}

static struct bench open_bench(int32_t n_states, int32_t n_pages)
{
    return bench_open((struct batch_limits){.n_sequences_max = 64,
                                            .n_tokens_max = 512,
                                            .n_jobs_max = PROMPTS_MAX,
                                            .n_pages = n_pages,
                                            .n_state_slots = n_states,
                                            .page_positions = 16});
}

static void run_prompts(struct bench *bench, int first, int end)
{
    bench->prefill = 0;
    for (int i = first; i < end; i++) {
        char id[32];
        snprintf(id, sizeof id, "%d", i);
        batcher_take(bench->batcher, job_of(prompts.tokens[i], prompts.n_tokens[i], prompts.max_tokens, id));
    }
    run_to_end(bench);
    for (const struct job *job = bench->finished.first; job; job = job->next)
        check_answer(job);
}

static const struct workload {
    const char *name;
    void (*make)(void);
} workloads[] = {{"1,000 jobs with 37 common tokens", make_common_prefix},
                 {"documents with ten questions each", make_documents},
                 {"random branches", make_random_branches}};
enum { N_WORKLOADS = sizeof workloads / sizeof workloads[0] };

// Computed prompt tokens over the nodes of the trie.
static double run_workload(int w, int32_t n_states, int32_t n_pages)
{
    random_state = random_seed(20261129 + (uint64_t)w);
    workloads[w].make();
    struct bench bench = open_bench(n_states, n_pages);
    run_prompts(&bench, 0, prompts.n);
    struct prefix_report report;
    batcher_report_prefixes(bench.batcher, &report);
    double ratio = (double)bench.prefill / (double)count_trie(0, prompts.n);
    printf(
        "%s, %d states, %d pages: %lld prompt tokens, %.4f of the fewest, %lld page copies, %lld evictions, "
        "%lld preempted\n",
        workloads[w].name, n_states, n_pages, (long long)bench.prefill, ratio,
        (long long)fake_model_copies(bench.model), (long long)report.n_evictions, (long long)bench.preempted);
    if (bench.preempted == 0)
        assert_int_equal(report.tokens_looked_up - report.tokens_saved, bench.prefill);
    bench_close(&bench);
    return ratio;
}

TEST(hardly_more_than_the_trie_of_all_prompts_is_computed)
{
    for (int w = 0; w < N_WORKLOADS; w++) {
        assert_true(run_workload(w, 0, 4000) <= 1.0001);
        assert_true(run_workload(w, 96, 4000) <= 1.02);
    }
}

// Pages for a batch of 64 and for less, and slots for hardly more than its sequences: pages and snapshots that
// nobody waits for are evicted.
TEST(with_little_memory_what_is_waited_for_is_kept)
{
    for (int w = 0; w < N_WORKLOADS; w++)
        for (int32_t n_pages = 600; n_pages >= 60; n_pages /= 3) {
            assert_true(run_workload(w, 0, n_pages) <= 1.02);
            assert_true(run_workload(w, 80, n_pages) <= 1.07);
            assert_true(run_workload(w, 66, n_pages) <= 1.07);
        }
}

TEST(jobs_that_arrive_later_find_the_prefix_of_earlier_ones)
{
    for (int32_t n_states = 0; n_states <= 96; n_states += 96) {
        make_common_prefix();
        struct bench bench = open_bench(n_states, 600);
        for (int part = 0; part < 10; part++) {
            int64_t n_before = part ? count_trie(0, 100 * part) : 0;
            run_prompts(&bench, 100 * part, 100 * part + 100);
            int64_t fewest = count_trie(0, 100 * part + 100) - n_before;
            // of its own tokens those evicted meanwhile are computed again, the prefix is not
            assert_in_range(bench.prefill, fewest, fewest + fewest / 10);
        }
        bench_close(&bench);
    }
}

TEST(all_samples_of_a_job_share_its_prompt)
{
    enum { SAMPLES = 10 };
    for (int32_t n_states = 0; n_states <= 16; n_states += 16)
        for (int32_t n_tokens = 1; n_tokens <= 40; n_tokens++) {
            struct bench bench = bench_open((struct batch_limits){.n_sequences_max = 8,
                                                                  .n_tokens_max = 16,
                                                                  .n_jobs_max = 4,
                                                                  .n_pages = 100,
                                                                  .n_state_slots = n_states,
                                                                  .page_positions = 16});
            int32_t tokens[40];
            for (int32_t i = 0; i < n_tokens; i++)
                tokens[i] = 30 + i;
            struct job *job = job_of(tokens, n_tokens, 12, "job");
            job->request.n = SAMPLES;
            batcher_take(bench.batcher, job);
            run_to_end(&bench);
            check_answer(bench.finished.first);
            assert_int_equal(bench.prefill, n_tokens - 1 + SAMPLES); // each computes the last token
            bench_close(&bench);
        }
}

// Without slots of their own, snapshots have those that no sequence needs, and a valuable one is kept for a step in
// which sequences could have its slot.
TEST(snapshots_keep_no_sequence_waiting)
{
    make_common_prefix();
    for (int32_t n_states = 64; n_states <= 96; n_states += 32) {
        struct bench bench = open_bench(n_states, 4000);
        run_prompts(&bench, 0, prompts.n);
        assert_in_range(fake_model_largest_batch(bench.model), n_states == 64 ? 56 : 64, 64);
        bench_close(&bench);
    }
}

int main(void)
{
    int n_failed = cases_run_named("step by step");
    ahead = true;
    return n_failed + cases_run_named("ahead");
}
