// A device that fails while jobs run, from the batcher's thread down to the emulated device: the step ends, every job comes back
// as it came or finished, none twice, and a new context gives the answers that a sound device gives.
#include "batching/engine_thread.h"
#include "batching/limits.h"
#include "engine/cpu/backend.h"
#include "engine/forward.h"
#include "engine/placed.h"
#include "engine/tokenizer/tokenizer.h"
#include "gpu/backend.h"
#include "tests/gguf_writer.h"
#include "tests/make_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N_JOBS = 7, ANSWER = 12, ROWS_MAX = 48, BATCH = 4, N_PAGES = 24 };

struct machine {
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct batcher *batcher;
    struct engine_thread *thread;
};

static void must(enum status status, const struct error *error)
{
    if (status != STATUS_OK)
        fail_msg("%s", error->text);
}

static enum status compute_step(void *context, struct step *step, struct sample_result *results, struct error *error)
{
    return forward_step(context, step, results, NULL, error);
}

// What a worker that starts has: a device, whose so-manieth piece of work fails, the model on it, and a batcher.
static void machine_open(struct machine *machine, const struct model *model, const struct tokenizer *tokenizer,
                         const struct placement *placement, int64_t failing_work)
{
    struct error error = {0};
    struct batch_limits batch = {.n_sequences_max = BATCH,
                                 .n_rows_max = ROWS_MAX,
                                 .n_jobs_max = 2 * N_JOBS,
                                 .n_pages = N_PAGES,
                                 .page_positions = LIMITS_PAGE_POSITIONS};
    struct forward_limits limits = {.n_rows_max = ROWS_MAX,
                                    .n_outputs_max = BATCH,
                                    .n_sequences_max = BATCH,
                                    .page_positions = LIMITS_PAGE_POSITIONS,
                                    .n_pages = N_PAGES,
                                    .kv_type = KV_F16};
    struct gpu_options options = {.failing_work = failing_work};
    must(pool_create(&machine->pool, 1, &error), &error);
    must(gpu_backend_create(&machine->backend, &options, &error), &error);
    if (placement) {
        struct backend *host;
        must(cpu_backend_create(&host, machine->pool, CPU_AVX512, &error), &error);
        must(placed_backend_create(&machine->backend, machine->backend, host, placement, &error), &error);
    }
    must(forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error), &error);
    struct batcher_config config = {.engine = {machine->forward, compute_step},
                                    .pool = machine->pool,
                                    .environment = {.tokenizer = tokenizer,
                                                    .limits = {.n_context = model->shape.n_context,
                                                               .n_context_original = model->shape.n_context,
                                                               .n_vocab = model->shape.n_vocab}},
                                    .limits = batch};
    must(batcher_create(&machine->batcher, &config, &error), &error);
    must(engine_thread_start(&machine->thread, machine->batcher, &error), &error);
}

static void machine_close(struct machine *machine)
{
    engine_thread_join(machine->thread);
    batcher_destroy(machine->batcher);
    forward_destroy(machine->forward);
    machine->backend->impl->destroy(machine->backend);
    pool_destroy(machine->pool);
}

static struct job *make_job(int number)
{
    struct job *job = job_create();
    char id[16];
    int32_t n = 5 + 4 * number;
    assert_non_null(job);
    snprintf(id, sizeof id, "%d", number);
    assert_true(job_set_text(job, &job->job_id, text_from_string(id)));
    assert_true(job_set_text(job, &job->dataset, TEXT("faults")));
    job->request.prompt_kind = PROMPT_TOKENS;
    job->request.tokens = arena_allocate_array(&job->arena, (size_t)n, sizeof *job->request.tokens);
    for (int32_t i = 0; i < n; i++)
        job->request.tokens[i] = (i * 7 + (i < 16 ? 0 : number)) % 250; // beginnings are shared
    job->request.n_tokens = n;
    job->request.max_tokens = ANSWER;
    job->request.ignore_eos = true;
    job->request.sampling.temperature = number % 2 ? 0.9f : 0.0f;
    job->request.sampling.seed = (uint64_t)number;
    return job;
}

// Works the jobs off until they are finished or the engine ends. Gives what it ended with.
static struct error work(struct machine *machine, struct job_list *jobs, struct job_list *finished)
{
    struct order *order = order_create(ORDER_JOBS);
    struct error error = {0};
    assert_non_null(order);
    order->jobs = *jobs;
    *jobs = (struct job_list){0};
    assert_true(queue_push(engine_thread_inbox(machine->thread), order));
    queue_close(engine_thread_inbox(machine->thread)); // the end when all is done
    for (struct round *round; (round = queue_pop(engine_thread_outbox(machine->thread)));) {
        for (struct job *job; (job = job_list_take(&round->finished));)
            job_list_append(finished, job);
        for (struct job *job; (job = job_list_take(&round->released));)
            job_list_append(jobs, job);
        if (round->error.status != STATUS_OK)
            error = round->error;
        round_destroy(round);
    }
    return error;
}

// Each answer as [id] text; every job once.
static void take_answers(struct job_list *finished, char answers[N_JOBS][512])
{
    int n = 0;
    memset(answers, 0, N_JOBS * sizeof answers[0]);
    for (struct job *job; (job = job_list_take(finished)); n++) {
        int number = atoi(job->job_id.data);
        assert_in_range(number, 0, N_JOBS - 1);
        assert_int_equal(job->result.status, RESULT_DONE);
        assert_int_equal(job->result.choices[0].n_tokens, ANSWER);
        assert_int_equal(answers[number][0], '\0');
        struct text text = job->result.choices[0].text;
        snprintf(answers[number], sizeof answers[0], "[%d]%.*s", number, (int)text.size, text.data);
        job_destroy(job);
    }
    assert_int_equal(n, N_JOBS);
}

static void a_failing_device_harms_no_job_and_a_new_context_goes_on(void **state)
{
    static char expected[N_JOBS][512], answers[N_JOBS][512];
    struct error error = {0};
    struct model *model;
    struct tokenizer *tokenizer;
    char directory[64], path[96];
    struct model_recipe recipe = {.seed = 51, .n_layers = 2, .n_vocab = MADE_N_TOKENS, .tokenizer = true};
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &recipe);
    must(model_open(&model, path, &error), &error);
    must(tokenizer_open(&tokenizer, model->gguf, NULL, &error), &error);
    int n_failed = 0, n_halfway = 0;
    const struct placement *placement = *state;
    // Graphs are one piece of work; rows that cross are one each.
    int64_t last = 4000, stride = !placement ? 41 : placement->host_attention ? 601 : 151;
    for (int64_t failing = 0; failing < last; failing += failing ? stride : 60) {
        struct machine machine;
        struct job_list jobs = {0}, finished = {0};
        for (int i = 0; i < N_JOBS; i++)
            job_list_append(&jobs, make_job(i));
        machine_open(&machine, model, tokenizer, placement, failing);
        struct error ended = work(&machine, &jobs, &finished);
        machine_close(&machine);
        if (ended.status == STATUS_OK) { // sound, or past the last piece of work
            assert_int_equal(jobs.n_jobs, 0);
            take_answers(&finished, failing ? answers : expected);
            assert_memory_equal(failing ? answers : expected, expected, sizeof expected);
            if (failing)
                break;
            continue;
        }
        n_failed++;
        assert_int_equal(ended.status, STATUS_RESTART);
        assert_int_equal(ended.code, ERROR_DEVICE);
        assert_int_equal(jobs.n_jobs + finished.n_jobs, N_JOBS);
        n_halfway += finished.n_jobs > 0;
        machine_open(&machine, model, tokenizer, placement, 0);
        ended = work(&machine, &jobs, &finished);
        must(ended.status, &ended);
        machine_close(&machine);
        take_answers(&finished, answers);
        assert_memory_equal(answers, expected, sizeof expected);
    }
    print_message("the device was lost at %d different moments, %d times with some jobs finished\n", n_failed, n_halfway);
    assert_true(n_failed >= 3 && n_halfway >= 1);
    tokenizer_close(tokenizer);
    model_close(model);
    unlink(path);
    rmdir(directory);
}

// Faults can be ordered of the emulated device alone.
static bool is_emulated(void)
{
    struct error error;
    struct backend *backend;
    char device[128];
    if (gpu_backend_create(&backend, &(struct gpu_options){0}, &error) != STATUS_OK)
        return false;
    gpu_backend_describe(backend, device, sizeof device);
    backend->impl->destroy(backend);
    return strncmp(device, "emulated", 8) == 0;
}

int main(void)
{
    if (!is_emulated()) {
        print_message("skipped: faults are ordered of the emulated device\n");
        return 77;
    }
    static struct placement layers = {1, false}, attention = {0, true};
    (void)layers;
    (void)attention;
    const struct CMUnitTest tests[] = {
        {"all on the device", a_failing_device_harms_no_job_and_a_new_context_goes_on, NULL, NULL, NULL},
#ifndef __SANITIZE_ADDRESS__ // a minute each; tests/gpu_hybrid.c loses the device of a split model under it too
        {"layers split", a_failing_device_harms_no_job_and_a_new_context_goes_on, NULL, NULL, &layers},
        {"attention on the host", a_failing_device_harms_no_job_and_a_new_context_goes_on, NULL, NULL, &attention},
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
