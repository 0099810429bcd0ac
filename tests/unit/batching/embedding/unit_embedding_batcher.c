// The batcher of embedding jobs: vectors that do not depend on the batch, jobs in turns, errors of single inputs, and
// every way in which a job leaves. The model is real, of bytes as tokens; its token 7 is poisoned.
#include "batching/embedding/embedding_batcher.h"
#include "batching/lists/turns.h"
#include "engine/cpu/backend.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/open_model.h"

enum { N_EMBD = 64, LONGEST = 90, STEP_TOKENS = 40, STEP_TEXTS = 6, POISON = 7, N_JOBS_MAX = 64 };

static struct error error;
static int64_t now_us;

static int64_t tell_time(void)
{
    return now_us;
}

static struct {
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    struct tokenizer *tokenizer;
    struct forward *forward;
    struct embedder *embedder;
    struct embedding_rules rules;
    struct input_task task;
} machine;

struct embedding_jobs {
    struct embedding_batcher *batcher;
    struct job_batcher *jobs;
    struct job_list finished;
    struct step_figures figures;
};

static int open_machine(void **state)
{
    struct model_recipe recipe = {
        .seed = 3, .n_context = LONGEST, .tokenizer = true, .poisoned_token = POISON};
    machine.model = open_model_of(&recipe);
    assert_ok(pool_create(&machine.pool, 2, &error), &error);
    assert_ok(tokenizer_open(&machine.tokenizer, machine.model->gguf, NULL, &error), &error);
    assert_ok(cpu_backend_create(&machine.backend, machine.pool, CPU_AVX512, &error), &error);
    struct forward_limits limits = {.n_tokens_max = STEP_TOKENS,
                                    .n_outputs_max = STEP_TOKENS,
                                    .n_sequences_max = STEP_TEXTS,
                                    .page_positions = 16,
                                    .kv_type = KV_F32,
                                    .hidden_only = true};
    limits.n_pages = (int32_t)embedder_pages(&limits, LONGEST);
    assert_ok(forward_create(&machine.forward, machine.model, machine.backend, &limits, NULL, NULL, &error),
              &error);
    struct embedder_options options = {.model = machine.model,
                                       .forward = machine.forward,
                                       .limits = limits,
                                       .pooling = POOLING_MEAN,
                                       .normalize = true,
                                       .n_dimensions = N_EMBD,
                                       .n_longest = LONGEST};
    assert_ok(embedder_create(&machine.embedder, &options, &error), &error);
    machine.rules = (struct embedding_rules){.tokenizer = machine.tokenizer,
                                             .n_vocab = machine.model->shape.n_vocab,
                                             .n_longest = LONGEST,
                                             .limited_by = "the model's context",
                                             .n_dimensions_max = N_EMBD};
    machine.task = input_task_embedding(machine.embedder, &machine.rules);
    return 0;
}

static int close_machine(void **state)
{
    embedder_destroy(machine.embedder);
    forward_destroy(machine.forward);
    tokenizer_close(machine.tokenizer);
    machine.backend->device.destroy(machine.backend);
    pool_destroy(machine.pool);
    model_close(machine.model);
    return 0;
}

GROUP_FIXTURE(open_machine, close_machine);

static struct embedding_jobs open_bench_of(const struct dataset_shares *shares)
{
    struct embedding_jobs bench = {0};
    struct embedding_batcher_config config = {.task = &machine.task,
                                              .pool = machine.pool,
                                              .n_jobs_max = N_JOBS_MAX,
                                              .n_tokens_max = STEP_TOKENS,
                                              .n_texts_max = STEP_TEXTS,
                                              .shares = shares,
                                              .wall_clock_us = tell_time};
    now_us = 1000000;
    assert_ok(embedding_batcher_create(&bench.batcher, &config, &error), &error);
    bench.jobs = embedding_batcher_base(bench.batcher);
    return bench;
}

static struct embedding_jobs open_bench(void)
{
    return open_bench_of(NULL);
}

static void close_bench(struct embedding_jobs *bench)
{
    assert_true(bench->jobs->impl->is_empty(bench->jobs));
    for (struct job *job; (job = job_list_take(&bench->finished));)
        job_destroy(job);
    embedding_batcher_destroy(bench->batcher);
}

static struct job *job_of(const char *id, const char *format, ...) PRINTF_LIKE(2, 3);
static struct job *job_of(const char *id, const char *format, ...)
{
    char *json;
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&json, format, arguments) >= 0);
    va_end(arguments);
    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    struct job *job = job_create();
    assert_non_null(job);
    assert_ok(job_decode(job, text_from_string(json), ENCODING_JSON, &error), &error);
    assert_true(job_set_text(job, &job->job_id, text_from_string(id)) &&
                job_set_text(job, &job->dataset, TEXT("test")));
    free(json);
    return job;
}

// A job of n texts, each of `length` letters that depend on the text's number.
static struct job *texts_job(const char *id, int n, int length, const char *more)
{
    struct buffer list = {0};
    for (int i = 0; i < n; i++)
        buffer_add_format(
            &list, "%s'%.*s'", i ? "," : "", length,
            &"the winter is cold and the water is deep, another thing within the earth rather then in it "
                [i % 5]);
    struct job *job = job_of(id, "{'input':[%s]%s}", list.data, more);
    buffer_finish(&list);
    return job;
}

static void take(struct embedding_jobs *bench, struct job *job)
{
    bench->jobs->impl->take(bench->jobs, job);
}

static void compute_round(struct embedding_jobs *bench)
{
    assert_ok(bench->jobs->impl->round(bench->jobs, &bench->finished, &bench->figures, &error), &error);
    assert_true(bench->figures.n_sequences <= STEP_TEXTS);
    assert_true(bench->figures.n_sequences <= 1 || bench->figures.n_tokens <= STEP_TOKENS);
}

static void drain(struct embedding_jobs *bench)
{
    while (!bench->jobs->impl->is_empty(bench->jobs))
        compute_round(bench);
}

static struct job *finished_job(const struct embedding_jobs *bench, const char *id)
{
    for (struct job *job = bench->finished.first; job; job = job->next)
        if (text_equals_string(job->job_id, id))
            return job;
    return NULL;
}

static void assert_failed(const struct embedding_jobs *bench, const char *id, enum error_code code,
                          const char *text)
{
    const struct job *job = finished_job(bench, id);
    assert_non_null(job);
    assert_int_equal(job->result.status, RESULT_FAILED);
    if (job->result.error.code != code || strcmp(job->result.error.text, text) != 0)
        fail_msg("%s: %s: %s", id, error_code_name(job->result.error.code), job->result.error.text);
}

// The embedder's own vector of these tokens.
static void assert_vector(const struct job *job, int32_t index, const int32_t *ids, int32_t n_ids)
{
    float vector[N_EMBD];
    const struct embeddings *embeddings = &job->result.embeddings;
    struct embedding_text text = {ids, n_ids, NULL, embeddings->n_dimensions};
    assert_ok(embedder_compute(machine.embedder, &text, 1, vector, &error), &error);
    assert_memory_equal(embeddings->items[index].items, vector,
                        (size_t)embeddings->n_dimensions * sizeof *vector);
}

TEST(vectors_are_the_embedders_own_whatever_else_is_computed)
{
    struct embedding_jobs bench = open_bench();
    char id[16];
    for (int j = 0; j < 20; j++) {
        snprintf(id, sizeof id, "j%d", j);
        take(&bench, j % 3 ? texts_job(id, 1 + j * 7 % 13, 1 + j * 5 % 60, j % 2 ? ",'dimensions':9" : "")
                           : job_of(id, "{'input':[[%d,3,4],[5,%d]]}", 20 + j, 30 + j));
    }
    drain(&bench);
    assert_int_equal(bench.finished.n_jobs, 20);
    for (struct job *job = bench.finished.first; job; job = job->next) {
        const struct request_embedding *request = &job->request.embedding;
        int32_t n_tokens = 0;
        assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(job->result.embeddings.n_items, request->n_inputs);
        assert_int_equal(job->result.embeddings.n_dimensions, request->n_dimensions ? 9 : N_EMBD);
        for (int32_t i = 0; i < request->n_inputs; i++) {
            struct token_array ids = {0};
            size_t n_cut;
            static const struct embedding_cut none;
            assert_ok(request->inputs[i].text.data
                          ? embedding_input_encode(&machine.rules, (struct text){0}, request->inputs[i].text,
                                                   &none, &ids, &n_cut, &error)
                          : embedding_input_copy(&machine.rules, request->inputs[i].tokens,
                                                 request->inputs[i].n_tokens, &none, &ids, &n_cut, &error),
                      &error);
            assert_vector(job, i, ids.ids, (int32_t)ids.n_ids);
            n_tokens += (int32_t)ids.n_ids;
            token_array_finish(&ids);
        }
        assert_int_equal(job->result.prompt_tokens, n_tokens);
    }
    close_bench(&bench);
}

TEST(jobs_take_turns_so_a_long_one_delays_others_by_an_input)
{
    struct embedding_jobs bench = open_bench();
    take(&bench, texts_job("long", 200, 20, ""));
    compute_round(&bench);
    take(&bench, texts_job("short", 1, 20, ""));
    take(&bench, texts_job("middle", 5, 20, ""));
    int n_rounds = 0;
    for (; !finished_job(&bench, "short"); n_rounds++)
        compute_round(&bench);
    // two steps of inputs were tokenized before it arrived
    assert_true(n_rounds <= 5 && !finished_job(&bench, "long"));
    for (; !finished_job(&bench, "middle"); n_rounds++)
        compute_round(&bench);
    assert_true(n_rounds <= 14 && !finished_job(&bench, "long"));
    drain(&bench);
    close_bench(&bench);
}

static struct job *dataset_job(const char *dataset, const char *id, int n, int length)
{
    struct job *job = texts_job(id, n, length, "");
    job->dataset = text_from_string(dataset);
    return job;
}

enum { SHARED_TOKENS = 6 * TURN_QUANTUM };

// Computes SHARED_TOKENS tokens of two datasets: `long` has jobs of long texts, more of them, and `short` has short
// texts. Returns the tokens of `short`.
static int32_t share_steps(const struct dataset_shares *shares)
{
    struct embedding_jobs bench = open_bench_of(shares);
    struct job *jobs[6];
    for (int i = 0; i < 4; i++)
        take(&bench, jobs[i] = dataset_job("long", "l", 120, 80));
    for (int i = 4; i < 6; i++)
        take(&bench, jobs[i] = dataset_job("short", "s", 1500, 16));
    int32_t n_long = 0, n_short = 0;
    while (n_long + n_short < SHARED_TOKENS) {
        compute_round(&bench);
        n_long = n_short = 0;
        for (int i = 0; i < 6; i++)
            *(i < 4 ? &n_long : &n_short) += jobs[i]->result.prompt_tokens;
    }
    assert_int_equal(bench.finished.n_jobs, 0);
    bench.jobs->impl->release(bench.jobs, true, &bench.finished);
    close_bench(&bench);
    return n_short;
}

TEST(datasets_take_turns_by_tokens_and_weight_whatever_the_size_of_their_jobs)
{
    int32_t n_half = SHARED_TOKENS / 2, n_more = SHARED_TOKENS * 3 / 4;
    assert_in_range(share_steps(NULL), n_half - TURN_QUANTUM, n_half + TURN_QUANTUM);
    static struct dataset_shares shares;
    shares = (struct dataset_shares){0};
    dataset_shares_add(&shares, TEXT("short"))->weight = 0.75;
    dataset_shares_add(&shares, TEXT("long"))->weight = 0.25;
    assert_in_range(share_steps(&shares), n_more - TURN_QUANTUM, n_more + TURN_QUANTUM);
}

TEST(a_small_dataset_does_not_wait_for_the_jobs_of_a_large_one)
{
    struct embedding_jobs bench = open_bench();
    for (int i = 0; i < 50; i++)
        take(&bench, dataset_job("big", "b", 20, 20));
    compute_round(&bench);
    for (int i = 0; i < 10; i++)
        take(&bench, dataset_job("ten", "t", 1, 20));
    size_t n_before = 0;
    for (int n = 0; n < 10; n_before++) {
        compute_round(&bench);
        n = 0;
        for (const struct job *job = bench.finished.first; job; job = job->next)
            n += text_equals_string(job->dataset, "ten");
    }
    assert_in_range(n_before, 5, 10); // five steps, after two or three that were tokenized before
    drain(&bench);
    close_bench(&bench);
}

TEST(the_most_urgent_job_is_first)
{
    struct embedding_jobs bench = open_bench();
    take(&bench, texts_job("later", 8, 20, ""));
    take(&bench, texts_job("deadline", 8, 20, ",'deadline':1000"));
    take(&bench, texts_job("high", 8, 20, ",'priority':5"));
    take(&bench, texts_job("low", 8, 20, ",'priority':-5"));
    drain(&bench);
    static const char *const order[] = {"high", "deadline", "later", "low"};
    const struct job *job = bench.finished.first;
    for (int i = 0; i < 4; i++, job = job->next)
        assert_true(text_equals_string(job->job_id, order[i]));
    close_bench(&bench);
}

TEST(a_job_fails_with_its_first_bad_input_whatever_is_computed_first)
{
    struct embedding_jobs bench = open_bench();
    // the poisoned input is known to be bad only after its step, the others when they are tokenized
    take(&bench, job_of("nan first", "{'input':[[3],[%d],[4],[999]]}", POISON));
    take(&bench, job_of("range first", "{'input':[[3],[4],[999],[%d]]}", POISON));
    take(&bench, job_of("single", "{'input':[1,2,-0,999]}"));
    take(&bench, job_of("empty", "{'input':['the','']}"));
    take(&bench, texts_job("too long", 1, LONGEST, ""));
    take(&bench, job_of("wide", "{'input':'a','dimensions':65}"));
    take(&bench, job_of("prompt", "{'input':'a','prompt_name':'query'}"));
    take(&bench, texts_job("good", 3, 10, ""));
    drain(&bench);
    assert_failed(&bench, "nan first", ERROR_LOGITS_NAN,
                  "input[1]: the model's hidden state has a NaN or an infinity");
    assert_failed(&bench, "range first", ERROR_TOKEN_RANGE,
                  "input[2]: token 0 of the list: expected an id from 0 to 319, got 999");
    assert_failed(&bench, "single", ERROR_TOKEN_RANGE,
                  "input: token 3 of the list: expected an id from 0 to 319, got 999");
    assert_failed(&bench, "empty", ERROR_EMPTY_PROMPT, "input[1]: the text has no tokens");
    assert_failed(&bench, "wide", ERROR_INVALID_FIELD,
                  "dimensions: expected at most 64, the model's width, got 65");
    assert_failed(&bench, "prompt", ERROR_INVALID_FIELD,
                  "prompt_name: the model has no prompts, got \"query\"");
    assert_int_equal(finished_job(&bench, "good")->result.status, RESULT_DONE);
    take(&bench, job_of("alone", "{'input':[[3],[%d],[4],[999]]}", POISON)); // tokenized in one go
    drain(&bench);
    assert_failed(&bench, "alone", ERROR_LOGITS_NAN,
                  "input[1]: the model's hidden state has a NaN or an infinity");
    close_bench(&bench);
}

TEST(with_partial_each_bad_input_has_its_error_and_the_others_their_vectors)
{
    struct embedding_jobs bench = open_bench();
    take(&bench, job_of("a", "{'input':[[3],[%d],[4,5],[999],[6]],'partial':true}", POISON));
    take(&bench, job_of("all", "{'input':[[999],[%d]],'partial':true}", POISON));
    drain(&bench);
    const struct job *job = finished_job(&bench, "a");
    const struct embedding *items = job->result.embeddings.items;
    assert_int_equal(job->result.status, RESULT_DONE);
    assert_int_equal(job->result.prompt_tokens, 4);
    assert_vector(job, 0, (int32_t[]){3}, 1);
    assert_vector(job, 2, (int32_t[]){4, 5}, 2);
    assert_vector(job, 4, (int32_t[]){6}, 1);
    assert_true(!items[1].items && items[1].code == ERROR_LOGITS_NAN);
    assert_true(!items[3].items && items[3].code == ERROR_TOKEN_RANGE);
    assert_memory_equal(items[3].message.data, "input[3]: ", 10);
    assert_int_equal(finished_job(&bench, "all")->result.status, RESULT_DONE);
    close_bench(&bench);
}

TEST(a_text_of_the_longest_length_is_computed_and_a_longer_one_is_cut_or_refused)
{
    for (int n = LONGEST - 1; n <= LONGEST + 1; n++) {
        struct embedding_jobs bench = open_bench();
        int32_t ids[LONGEST + 1];
        struct buffer list = {0};
        for (int i = 0; i < n; i++) {
            ids[i] = 20 + i % 9;
            buffer_add_format(&list, "%s%d", i ? "," : "", ids[i]);
        }
        take(&bench, job_of("as it is", "{'input':[%s]}", list.data));
        take(&bench, job_of("right", "{'input':[%s],'truncate_prompt_tokens':-1}", list.data));
        take(&bench, job_of("left", "{'input':[%s],'truncate_prompt_tokens':%d,'truncation_side':'left'}",
                            list.data, n - 2));
        take(&bench, job_of("more", "{'input':[%s],'truncate_prompt_tokens':1000}", list.data));
        drain(&bench);
        int32_t n_kept = n < LONGEST ? n : LONGEST;
        if (n <= LONGEST)
            assert_vector(finished_job(&bench, "as it is"), 0, ids, n);
        else
            assert_failed(&bench, "as it is", ERROR_CONTEXT_LENGTH,
                          "input: the text has 91 tokens: expected at most 90, the model's context");
        assert_vector(finished_job(&bench, "right"), 0, ids, n_kept);
        assert_vector(finished_job(&bench, "more"), 0, ids, n_kept);
        assert_vector(finished_job(&bench, "left"), 0, ids + 2, n - 2);
        assert_int_equal(finished_job(&bench, "right")->result.cut_tokens, n - n_kept);
        assert_int_equal(finished_job(&bench, "left")->result.cut_tokens, 2);
        buffer_finish(&list);
        close_bench(&bench);
    }
}

TEST(cancelled_and_late_jobs_end_wherever_they_are)
{
    struct embedding_jobs bench = open_bench();
    take(&bench, texts_job("running", 50, 20, ""));
    take(&bench, texts_job("late", 50, 20, ",'deadline':500"));
    compute_round(&bench);
    take(&bench, texts_job("arrived", 2, 20, ""));
    take(&bench, texts_job("other", 2, 20, ""));
    bench.jobs->impl->cancel(bench.jobs, TEXT("test"), TEXT("running"), INT64_MAX);
    bench.jobs->impl->cancel(bench.jobs, TEXT("test"), TEXT("arrived"), INT64_MAX);
    bench.jobs->impl->cancel(bench.jobs, TEXT("elsewhere"), TEXT("other"), INT64_MAX);
    now_us = 501000000;
    drain(&bench);
    assert_int_equal(finished_job(&bench, "running")->result.status, RESULT_CANCELLED);
    assert_int_equal(finished_job(&bench, "arrived")->result.status, RESULT_CANCELLED);
    assert_failed(&bench, "late", ERROR_DEADLINE, "deadline 500 passed before the job was finished");
    assert_int_equal(finished_job(&bench, "other")->result.status, RESULT_DONE);
    close_bench(&bench);
}

TEST(released_jobs_are_as_they_came_and_give_the_same_vectors_again)
{
    for (int running_too = 0; running_too < 2; running_too++) {
        struct embedding_jobs bench = open_bench();
        struct job_list released = {0};
        take(&bench, texts_job("running", 30, 20, ""));
        take(&bench, texts_job("waiting", 2, 20, ",'priority':-1"));
        compute_round(&bench);
        take(&bench, texts_job("arrived", 2, 20, ""));
        bench.jobs->impl->release(bench.jobs, running_too, &released);
        assert_int_equal(released.n_jobs, running_too ? 3 : 2);
        for (struct job *job; (job = job_list_take(&released)); take(&bench, job)) {
            assert_int_equal(job->result.status, RESULT_NONE);
            assert_int_equal(job->result.prompt_tokens, 0);
            assert_null(job->result.embeddings.items);
        }
        drain(&bench);
        struct embedding_jobs alone = open_bench();
        take(&alone, texts_job("running", 30, 20, ""));
        drain(&alone);
        const struct job *job = finished_job(&bench, "running"), *expected = alone.finished.first;
        assert_int_equal(job->result.prompt_tokens, expected->result.prompt_tokens);
        for (int i = 0; i < 30; i++)
            assert_memory_equal(job->result.embeddings.items[i].items,
                                expected->result.embeddings.items[i].items, N_EMBD * sizeof(float));
        close_bench(&alone);
        close_bench(&bench);
    }
}

TEST(waiting_jobs_of_lost_partitions_are_released)
{
    struct embedding_jobs bench = open_bench();
    struct job_list released = {0};
    take(&bench, texts_job("running", 30, 20, ""));
    compute_round(&bench);
    take(&bench, texts_job("arrived", 2, 20, ""));
    take(&bench, texts_job("other", 2, 20, ""));
    bench.finished = (struct job_list){0};
    struct partition_ids ids = {(int32_t[]){4}, 1};
    bench.jobs->impl->release_partitions(bench.jobs, &ids, &released);
    assert_int_equal(released.n_jobs, 0);
    ids.items = (int32_t[]){0};
    bench.jobs->impl->release_partitions(bench.jobs, &ids, &released);
    assert_int_equal(released.n_jobs, 2);
    for (struct job *job; (job = job_list_take(&released));)
        job_destroy(job);
    drain(&bench);
    assert_int_equal(bench.finished.n_jobs, 1);
    close_bench(&bench);
}

// Each allocation of the rounds fails: no job fails because of it, and all can be released.
TEST(memory_that_runs_out_is_no_jobs_fault)
{
    bool has_failed = true;
    int n_faults = 0;
    for (long n = 0; has_failed; n++) {
        struct embedding_jobs bench = open_bench();
        struct job_list released = {0};
        take(&bench, texts_job("a", 9, 20, ",'partial':true"));
        take(&bench, job_of("b", "{'input':[[3],[999]],'partial':true}"));
        enum status status = STATUS_OK;
        failing_memory_after(n);
        while (status == STATUS_OK && !bench.jobs->impl->is_empty(bench.jobs))
            status = bench.jobs->impl->round(bench.jobs, &bench.finished, &bench.figures, &error);
        has_failed = failing_memory.has_failed;
        failing_memory_after(-1);
        assert_true(status == STATUS_OK || status == STATUS_RESTART);
        n_faults += status != STATUS_OK;
        bench.jobs->impl->release(bench.jobs, true, &released);
        for (const struct job *job = bench.finished.first; job; job = job->next)
            assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(bench.finished.n_jobs + released.n_jobs, 2);
        for (struct job *job; (job = job_list_take(&released));)
            job_destroy(job);
        close_bench(&bench);
    }
    assert_true(n_faults > 10);
}
