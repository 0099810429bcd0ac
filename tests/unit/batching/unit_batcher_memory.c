// Every single allocation of a batch fails, alone and with all after it: no job fails because of it.
// Finished jobs have their answers, the others are released, and the round reports it.
#include "batching/prefix.h"
#include "consumer/queue/intake.h"
#include "consumer/queue/kafka/suspects.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/fake_model.h"

enum { JOBS = 7, PAGES = 40, PAGE = 4, CONTEXT = 4096, TOKENS = 60 };

// A chat, whose thought a budget of three tokens closes.
static const struct thinking_format letters = {
    .name = "letters", .open = "o", .close = "q", .end = "q", .closing = "xq"};

static struct job *make_chat(void)
{
    struct job *job = job_create();
    struct error error;
    assert_non_null(job);
    assert_ok(job_decode(job,
                         TEXT(
                             "{\"job_id\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"gho\"}],"
                             "\"thinking_token_budget\":3,\"max_tokens\":20,\"seed\":5,\"ignore_eos\":true}"),
                         ENCODING_JSON, &error),
              &error);
    return job;
}

// Long answers with logprobs, more than the pages hold at once: every kind of memory is asked for.
static struct job *make_job(int index)
{
    if (index == JOBS - 1)
        return make_chat();
    struct job *job = job_create();
    assert_non_null(job);
    char id[16];
    snprintf(id, sizeof id, "j%d", index);
    assert_true(job_set_text(job, &job->job_id, text_from_string(id)));
    job->request.prompt.kind = PROMPT_TOKENS;
    job->request.prompt.tokens = arena_allocate_array(&job->arena, 8, sizeof *job->request.prompt.tokens);
    assert_non_null(job->request.prompt.tokens);
    for (int i = 0; i < 8; i++)
        job->request.prompt.tokens[i] = 20 + (i < 5 ? i : index + i);
    job->request.prompt.n_tokens = 8;
    job->request.stop.max_tokens = TOKENS;
    job->request.stop.ignore_eos = true;
    job->request.n = index == 2 ? 2 : 1;
    job->request.echo = index > 3;
    job->request.sampling.seed = 5;
    job->request.sampling.logprobs = index % 2;
    job->priority = index % 3;
    return job;
}

static void check_answer(const struct job *job)
{
    int32_t answer[TOKENS];
    char text[8 + TOKENS + 1];
    int32_t n_echoed = job->request.echo ? job->request.prompt.n_tokens : 0;
    fake_model_text(job->request.prompt.tokens, n_echoed, text);
    assert_int_equal(job->result.status, RESULT_DONE);
    if (job->request.prompt.kind == PROMPT_MESSAGES) {
        assert_int_equal(job->result.reasoning_tokens, 3);
        return;
    }
    for (int32_t i = 0; i < job->request.n; i++) {
        int32_t n = fake_model_answer(job->request.prompt.tokens, job->request.prompt.n_tokens, 5,
                                      (uint32_t)i, TOKENS, true, answer);
        const struct choice *choice = &job->result.choices[i];
        fake_model_text(answer, n, text + n_echoed);
        assert_int_equal(choice->text.size, n_echoed + n);
        assert_memory_equal(choice->text.data, text, (size_t)(n_echoed + n));
        for (int32_t j = 0; choice->logprobs && j < n_echoed + n; j++) {
            assert_int_equal(choice->logprobs[j].chosen_bytes.size, 1);
            assert_int_equal(choice->logprobs[j].chosen_bytes.data[0], text[j]);
        }
    }
}

// Runs a batch in which the allocation after n_good fails, and all after it unless it fails alone. False: none
// was needed any more.
static bool run_batch(struct fake_model *model, struct pool *pool, long n_good)
{
    struct batcher_config config = {
        .executor = fake_model_executor(model),
        .pool = pool,
        .environment.chat_template = (const struct template *)(const void *)&letters,
        .environment.chat_format.thinking = &letters,
        .environment.limits = {.n_context = CONTEXT, .n_context_original = 100, .n_vocab = FAKE_VOCAB},
        .limits = {4, 16, JOBS, PAGES, PAGE, .n_drafts_max = 8},
        .n_drafts_fixed = 3};
    struct batcher *batcher;
    struct error error = {0};
    struct job_list finished = {0}, released = {0};
    assert_ok(batcher_create(&batcher, &config, &error), &error);
    for (int i = 0; i < JOBS; i++)
        batcher_take(batcher, make_job(i));
    enum status status = STATUS_OK;
    failing_memory.n_left = n_good;
    failing_memory.has_failed = false;
    while (!batcher_is_empty(batcher) && status == STATUS_OK) {
        struct step_figures figures;
        status = batcher_round(batcher, &finished, &figures, &error);
    }
    bool failed = failing_memory.has_failed;
    if (status != STATUS_OK)
        batcher_release(batcher, true, &released);
    failing_memory.n_left = -1;
    if (status != STATUS_OK) {
        assert_true(failed);
        assert_int_equal(status, STATUS_RESTART);
        assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
    }
    assert_int_equal(finished.n_jobs + released.n_jobs, JOBS);
    for (struct job *job; (job = job_list_take(&finished)); job_destroy(job))
        check_answer(job);
    for (struct job *job; (job = job_list_take(&released)); job_destroy(job))
        assert_int_equal(job->result.status, RESULT_NONE);
    batcher_destroy(batcher);
    return failed;
}

TEST(no_job_fails_because_memory_runs_out)
{
    struct pool *pool;
    struct error error;
    assert_ok(pool_create(&pool, 1, &error), &error);
    struct fake_model *model = fake_model_create(PAGES, PAGE);
    for (int i = 0; i < 2; i++) {
        failing_memory.fails_alone = i;
        long n_good = 0;
        while (run_batch(model, pool, n_good))
            n_good++;
        assert_in_range(n_good, 40, 100000);
    }
    failing_memory.fails_alone = false;
    fake_model_destroy(model);
    pool_destroy(pool);
}

// One slot stays free, so that every search ends.
TEST(a_prefix_table_that_cannot_grow_takes_what_it_holds_and_refuses_the_rest)
{
    struct page_stack stack;
    struct prefix_tree tree;
    struct error error;
    enum { MOST = 4096 };
    static struct prefix_node *nodes[MOST];
    assert_ok(page_stack_init(&stack, PAGES, &error), &error);
    assert_ok(prefix_init(&tree, 1, &stack, NULL, &error), &error);
    size_t n_slots = tree.n_slots;
    assert_in_range(n_slots, 2, MOST / 2);
    failing_memory.bytes_max = n_slots * sizeof *tree.slots;
    size_t n = 0;
    for (int32_t token = 0; n < MOST && (nodes[n] = prefix_wait(&tree, &token, 1, false)); token++)
        n++;
    assert_int_equal(n, n_slots - 1);
    assert_int_equal(tree.n_nodes, n);
    for (int32_t token = 0; token < (int32_t)n; token++)
        assert_ptr_equal(prefix_wait(&tree, &token, 1, false), nodes[token]);
    failing_memory.bytes_max = SIZE_MAX;
    int32_t one_more = (int32_t)n;
    assert_non_null(prefix_wait(&tree, &one_more, 1, false));
    prefix_finish(&tree);
    page_stack_finish(&stack);
}

TEST(a_record_that_memory_runs_out_for_is_no_dead_letter)
{
    struct buffer value = {0};
    buffer_add_string(&value, "{\"prompt\":\"");
    for (int i = 0; i < 9000; i++)
        buffer_add_byte(&value, 'x');
    buffer_add_string(&value, "\",\"stop\":[\"a\"],\"unknown\":1}");
    assert_false(value.failed);
    struct record record = {.topic = TEXT("jobs"), .offset = 7, .value = {value.data, value.size}};
    struct result_names names = {TEXT("model"), TEXT("sheaf=1 model=0")};
    struct job *job = NULL;
    long n_good = 0;
    for (; !job; n_good++) {
        failing_memory.n_left = n_good;
        job = intake_job(&record, &names, NULL);
        failing_memory.n_left = -1;
        assert_in_range(n_good, 0, 1000);
    }
    assert_int_equal(job->result.status, RESULT_NONE);
    assert_in_range(n_good, 3, 1000);
    job_destroy(job);
    buffer_finish(&value);
}

// A worker that was refused for them would not start again by itself.
TEST(committed_metadata_that_memory_runs_out_for_is_not_damaged)
{
    struct offset_map map;
    struct suspects suspects = {0};
    struct buffer text = {0};
    struct error error;
    offset_map_init(&map);
    for (int64_t offset = 100; offset < 110; offset++)
        assert_int_equal(offset_map_deliver(&map, offset), DELIVERY_NEW);
    suspects_compute(&suspects, 104, SUSPECT_AMONG_FEW);
    offset_map_encode(&map, &text);
    suspects_encode(&suspects, &map, 1, false, &text);
    assert_false(text.failed);
    struct text metadata = {text.data, text.size};
    for (failing_memory.fails_alone = false;; failing_memory.fails_alone = true) {
        enum status status = STATUS_RETRY;
        for (long n_good = 0; status != STATUS_OK; n_good++) {
            struct offset_map taken;
            offset_map_init(&taken);
            failing_memory.n_left = n_good;
            status = offset_map_restart(&taken, map.watermark, metadata, &error);
            if (status == STATUS_OK)
                status = suspects_take_over(&suspects, map.watermark, metadata, 2, &error);
            failing_memory.n_left = -1;
            assert_true(status == STATUS_OK || (status == STATUS_RETRY && error.code == ERROR_OUT_OF_MEMORY));
            assert_true(n_good > 0 || status != STATUS_OK);
        }
        assert_int_equal(suspects_crashes(&suspects, 104), 1);
        if (failing_memory.fails_alone)
            break;
    }
    failing_memory.fails_alone = false;
    buffer_finish(&text);
}
