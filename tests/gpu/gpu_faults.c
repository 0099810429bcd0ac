// A device that fails while jobs run, from the batcher's thread down to the device: the step ends, every job
// is returned as it was or finished, none twice, and a new context gives the answers that a sound device
// gives. The emulated device fails on request. A real one is made to by a kernel that writes where
// nothing is, in a process of its own: what is left of that one's context must neither crash nor hang it.
#include "batching/engine_thread.h"
#include "batching/limits.h"
#include "engine/cpu/backend.h"
#include "engine/forward.h"
#include "engine/hybrid.h"
#include "engine/tokenizer/tokenizer.h"
#include "gpu/backend.h"
#include "gpu/kernels/launch.h"
#include "gpu/state.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"
#include "tests/support/wide.h"

#include <spawn.h>
#include <sys/wait.h>

enum { N_JOBS = 7, ANSWER = 12, ROWS_MAX = 48, BATCH = 4, N_PAGES = 24 };

struct fault_machine {
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct batcher *batcher;
    struct engine_thread *thread;
    int n_steps, harmed_step; // of a real device
};

static enum status compute_step(void *context, struct step *step, struct sample_result *results,
                                struct error *error)
{
    struct fault_machine *machine = context;
    return forward_step(machine->forward, step, results, NULL, error);
}

static enum status submit_step(void *context, struct step *step, struct error *error)
{
    struct fault_machine *machine = context;
    if (++machine->n_steps == machine->harmed_step) // no device has memory at address 16
        launch_scale(gpu_backend_of(machine->backend)->stream, (struct device_matrix){(float *)16, 4}, 1, 4,
                     2.0f, 0.0f);
    return forward_submit(machine->forward, step, error);
}

static enum status submit_sampling(void *context, struct step *step, struct error *error)
{
    struct fault_machine *machine = context;
    return forward_submit_sampling(machine->forward, step, error);
}

static enum status collect_step(void *context, struct step *step, struct sample_result *results,
                                struct error *error)
{
    struct fault_machine *machine = context;
    return forward_collect(machine->forward, results, error);
}

// The state of a worker that starts: a device with the faults of its options, the model on it, and a batcher.
static void machine_open(struct fault_machine *machine, const struct model *model,
                         const struct tokenizer *tokenizer, const struct placement *placement,
                         const struct gpu_options *options)
{
    struct error error = {0};
    struct batch_limits batch = {.n_sequences_max = BATCH,
                                 .n_tokens_max = ROWS_MAX,
                                 .n_jobs_max = 2 * N_JOBS,
                                 .n_pages = N_PAGES,
                                 .page_positions = LIMITS_PAGE_POSITIONS};
    struct forward_limits limits = {.n_tokens_max = ROWS_MAX,
                                    .n_outputs_max = BATCH,
                                    .n_sequences_max = BATCH,
                                    .page_positions = LIMITS_PAGE_POSITIONS,
                                    .n_pages = N_PAGES,
                                    .kv_type = KV_F16};
    assert_ok(pool_create(&machine->pool, 1, &error), &error);
    assert_ok(gpu_backend_create(&machine->backend, options, &error), &error);
    if (placement) {
        struct backend *host;
        assert_ok(cpu_backend_create(&host, machine->pool, CPU_AVX512, &error), &error);
        assert_ok(hybrid_backend_create(&machine->backend, machine->backend, host, model, placement, &error),
                  &error);
    }
    assert_ok(forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error),
              &error);
    struct step_executor executor = {.context = machine, .step = compute_step};
    if (!placement) {
        executor.submit = submit_step;
        executor.submit_sampling = submit_sampling;
        executor.collect = collect_step;
    }
    struct batcher_config config = {.executor = executor,
                                    .pool = machine->pool,
                                    .environment = {.tokenizer = tokenizer,
                                                    .limits = {.n_context = model->shape.n_context,
                                                               .n_context_original = model->shape.n_context,
                                                               .n_vocab = model->shape.n_vocab}},
                                    .limits = batch};
    assert_ok(batcher_create(&machine->batcher, &config, &error), &error);
    assert_ok(engine_thread_start(&machine->thread, batcher_base(machine->batcher), &error), &error);
}

static void machine_close(struct fault_machine *machine)
{
    engine_thread_join(machine->thread);
    batcher_destroy(machine->batcher);
    forward_destroy(machine->forward);
    machine->backend->device.destroy(machine->backend);
    pool_destroy(machine->pool);
}

// The steps of a job with bad words sample apart.
static struct job *make_job(int number)
{
    static struct text bad_words[] = {TEXT("ab"), TEXT("e")};
    struct job *job = job_create();
    char id[16];
    int32_t n = 5 + 4 * number;
    assert_non_null(job);
    snprintf(id, sizeof id, "%d", number);
    assert_true(job_set_text(job, &job->job_id, text_from_string(id)));
    assert_true(job_set_text(job, &job->dataset, TEXT("faults")));
    job->request.prompt.kind = PROMPT_TOKENS;
    job->request.prompt.tokens =
        arena_allocate_array(&job->arena, (size_t)n, sizeof *job->request.prompt.tokens);
    for (int32_t i = 0; i < n; i++)
        job->request.prompt.tokens[i] = (i * 7 + (i < 16 ? 0 : number)) % 250; // beginnings are shared
    job->request.prompt.n_tokens = n;
    job->request.stop.max_tokens = ANSWER;
    job->request.stop.ignore_eos = true;
    job->request.sampling.temperature = number % 2 ? 0.9f : 0.0f;
    job->request.sampling.seed = (uint64_t)number;
    job->request.vocabulary.bad_words = bad_words;
    job->request.vocabulary.n_bad_words = number == 3 ? 2 : 0;
    return job;
}

// Works the jobs off until they are finished or the engine ends. Gives what it ended with.
static struct error run_jobs(struct fault_machine *machine, struct job_list *jobs, struct job_list *finished)
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

// A model on disk.
struct made_model {
    struct model *model;
    struct tokenizer *tokenizer;
    char directory[64], path[96];
};

static void made_open(struct made_model *made)
{
    struct error error = {0};
    struct model_recipe recipe = {.seed = 51, .n_layers = 2, .n_vocab = MADE_N_TOKENS, .tokenizer = true};
    make_directory(made->directory);
    snprintf(made->path, sizeof made->path, "%s/model.gguf", made->directory);
    make_model(made->path, &recipe);
    assert_ok(model_open(&made->model, made->path, &error), &error);
    assert_ok(tokenizer_open(&made->tokenizer, made->model->gguf, NULL, &error), &error);
}

static void made_close(struct made_model *made)
{
    tokenizer_close(made->tokenizer);
    model_close(made->model);
    unlink(made->path);
    rmdir(made->directory);
}

static struct job_list make_jobs(void)
{
    struct job_list jobs = {0};
    for (int i = 0; i < N_JOBS; i++)
        job_list_append(&jobs, make_job(i));
    return jobs;
}

static void a_failing_device_harms_no_job_and_a_new_context_goes_on(void **state)
{
    static char expected[N_JOBS][512], answers[N_JOBS][512];
    struct made_model made;
    made_open(&made);
    int n_failed = 0, n_halfway = 0;
    const struct placement *placement = *state;
    // Graphs are one piece of work; rows that cross are one each. Fewer: while the first jobs run, and with some finished.
    int64_t last = 4000, stride = !placement ? 41 : placement->host_attention ? 601 : 151;
    stride = tests_are_wide() ? stride : !placement ? 131 : placement->host_attention ? 1202 : 403;
    for (int64_t failing = 0; failing < last; failing += failing ? stride : 60) {
        struct fault_machine machine = {0};
        struct job_list jobs = make_jobs(), finished = {0};
        machine_open(&machine, made.model, made.tokenizer, placement,
                     &(struct gpu_options){.failing_work = failing});
        struct error ended = run_jobs(&machine, &jobs, &finished);
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
        machine_open(&machine, made.model, made.tokenizer, placement, &(struct gpu_options){0});
        ended = run_jobs(&machine, &jobs, &finished);
        assert_ok(ended.status, &ended);
        machine_close(&machine);
        take_answers(&finished, answers);
        assert_memory_equal(answers, expected, sizeof expected);
    }
    print_message("the device was lost at %d different moments, %d times with some jobs finished\n", n_failed,
                  n_halfway);
    assert_true(n_failed >= (tests_are_wide() ? 3 : 2) && n_halfway >= 1);
    made_close(&made);
}

static void a_graph_that_cannot_be_made_leaves_its_step_to_launches(void **state)
{
    static char expected[N_JOBS][512], answers[N_JOBS][512];
    struct made_model made;
    made_open(&made);
    int64_t n_graphs = 0;
    for (int64_t failing = 0; failing <= n_graphs;
         failing += tests_are_wide() || !failing ? 1 : 3) { // each graph in turn
        struct fault_machine machine = {0};
        struct job_list jobs = make_jobs(), finished = {0};
        machine_open(&machine, made.model, made.tokenizer, NULL,
                     &(struct gpu_options){.failing_graph = failing});
        struct error ended = run_jobs(&machine, &jobs, &finished);
        assert_ok(ended.status, &ended);
        int64_t n = gpu_backend_counts(machine.backend).n_graphs;
        machine_close(&machine);
        take_answers(&finished, failing ? answers : expected);
        n_graphs = failing ? n_graphs : n;
        // without the graph of a forward pass its sampling has none
        assert_in_range(n_graphs - n, failing > 0, failing > 0 ? 2 : 0);
        if (failing)
            assert_memory_equal(answers, expected, sizeof expected);
    }
    assert_true(n_graphs >= 1);
    made_close(&made);
}

static void waiting_for_each_launch_names_the_kernel_that_failed(void **state)
{
    struct made_model made;
    made_open(&made);
    int n_named = 0;
    for (int64_t failing = 100; failing < 140; failing += tests_are_wide() ? 3 : 9) {
        struct fault_machine machine = {0};
        struct job_list jobs = make_jobs(), finished = {0};
        machine_open(&machine, made.model, made.tokenizer, NULL,
                     &(struct gpu_options){.failing_work = failing, .eager = true, .sync = true});
        struct error ended = run_jobs(&machine, &jobs, &finished);
        machine_close(&machine);
        assert_int_equal(ended.status, STATUS_RESTART);
        bool named = false;
        for (const struct kernel_entry *kernel = kernel_list(); kernel; kernel = kernel->next)
            named |= kernel->name[0] && strstr(ended.text, kernel->name);
        n_named += named;
        for (struct job *job; (job = job_list_take(&jobs)) || (job = job_list_take(&finished));)
            job_destroy(job);
    }
    assert_true(n_named >= (tests_are_wide() ? 10 : 3)); // the others are copies
    made_close(&made);
}

// With graphs of more kinds than are kept, the least recently used go, never one of the last two steps.
static void old_graphs_make_room_for_new_kinds(void **state)
{
    static struct graphs graphs;
    struct device *device;
    struct error error;
    struct graph_entry *before = NULL;
    assert_ok(device_open(&device, &(struct device_options){0}, &error), &error);
    for (int round = 0; round < 3; round++)
        for (int32_t kind = 0; kind < 2 * GRAPHS_MAX; kind++)
            for (int visit = 0; visit < 3; visit++) {
                enum step_way way;
                struct graph_entry *entry =
                    graphs_choose(&graphs, device, &(struct graph_kind){.n_rows = kind}, &way);
                assert_int_equal(entry->kind.n_rows, kind);
                assert_true(visit == 0 || entry == before);
                assert_true(visit > 0 || entry != before);
                assert_int_equal(way, visit == 0 ? STEP_EAGER : visit == 1 ? STEP_CAPTURES : STEP_REPLAYS);
                if (way == STEP_CAPTURES) {
                    device_graph_begin(device);
                    entry->graph = device_graph_end(device);
                    assert_non_null(entry->graph);
                }
                before = entry;
            }
    assert_int_equal(graphs.n_entries, GRAPHS_MAX);
    assert_int_equal(graphs.n_evicted, 5 * GRAPHS_MAX);
    // The entry of the step before may be under way: it stays, though it has no graph and all others have
    // one.
    for (int32_t kind = 2 * GRAPHS_MAX; kind < 2 * GRAPHS_MAX + 9; kind++) {
        enum step_way way;
        struct graph_entry *entry =
            graphs_choose(&graphs, device, &(struct graph_kind){.n_rows = kind}, &way);
        assert_true(entry != before);
        before = entry;
    }
    graphs_clear(&graphs, device);
    device_close(device);
}

// --- A real device ---

enum { LOST_S_MAX = 60 }; // a process that has not ended by then hangs

// Runs in its own process. 0: the device was lost, no job was harmed, and all memory was freed.
static int lose(int step)
{
    struct made_model made;
    struct fault_machine machine = {.harmed_step = step};
    struct job_list jobs = make_jobs(), finished = {0};
    alarm(LOST_S_MAX);
    made_open(&made);
    machine_open(&machine, made.model, made.tokenizer, NULL, &(struct gpu_options){0});
    struct error ended = run_jobs(&machine, &jobs, &finished);
    machine_close(&machine);
    made_close(&made);
    bool good = ended.status == STATUS_RESTART && ended.code == ERROR_DEVICE &&
                jobs.n_jobs + finished.n_jobs == N_JOBS && jobs.n_jobs > 0;
    print_message("lost at step %d: %s; %zu jobs were released, %zu were finished\n", step, ended.text,
                  (size_t)jobs.n_jobs, (size_t)finished.n_jobs);
    for (struct job *job; (job = job_list_take(&jobs)) || (job = job_list_take(&finished));)
        job_destroy(job);
    return good ? 0 : 1;
}

static void answer_all(char answers[N_JOBS][512])
{
    struct made_model made;
    struct fault_machine machine = {0};
    struct job_list jobs = make_jobs(), finished = {0};
    made_open(&made);
    machine_open(&machine, made.model, made.tokenizer, NULL, &(struct gpu_options){0});
    struct error ended = run_jobs(&machine, &jobs, &finished);
    assert_ok(ended.status, &ended);
    machine_close(&machine);
    made_close(&made);
    take_answers(&finished, answers);
}

static void a_process_that_lost_the_device_ends_and_others_go_on(void **state)
{
    static char before[N_JOBS][512], after[N_JOBS][512];
    answer_all(before);
    // A prompt's step, the first one that decodes, one that is captured, and replays.
    for (int step = 1; step <= 13; step += 3) {
        char number[16];
        char *arguments[] = {"gpu_faults", "lose", number, NULL};
        pid_t process;
        int ended;
        snprintf(number, sizeof number, "%d", step);
        assert_int_equal(posix_spawn(&process, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
        assert_int_equal(waitpid(process, &ended, 0), process);
        assert_int_equal(ended, 0);
    }
    answer_all(after);
    assert_memory_equal(after, before, sizeof before);
}

// 77: there is no device.
static int find_device(bool *emulated)
{
    struct error error;
    struct backend *backend;
    char device[128];
    if (gpu_backend_create(&backend, &(struct gpu_options){0}, &error) != STATUS_OK) {
        print_message("skipped: %s\n", error.text);
        return 77;
    }
    gpu_backend_describe(backend, device, sizeof device);
    backend->device.destroy(backend);
    *emulated = strncmp(device, "emulated", 8) == 0;
    return 0;
}

int main(int argc, char **argv)
{
    bool emulated;
    if (argc == 3 && strcmp(argv[1], "lose") == 0)
        return lose(atoi(argv[2]));
    if (find_device(&emulated))
        return 77;
    static struct placement layers = {1, false}, attention = {0, true};
    const struct CMUnitTest real[] = {cmocka_unit_test(a_process_that_lost_the_device_ends_and_others_go_on)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_that_cannot_be_made_leaves_its_step_to_launches),
        cmocka_unit_test(waiting_for_each_launch_names_the_kernel_that_failed),
        cmocka_unit_test(old_graphs_make_room_for_new_kinds),
        {"all on the device", a_failing_device_harms_no_job_and_a_new_context_goes_on, NULL, NULL, NULL},
// A minute each; tests/gpu/gpu_hybrid.c loses the device of a split model under the sanitizer too.
#ifndef __SANITIZE_ADDRESS__
        {"layers split", a_failing_device_harms_no_job_and_a_new_context_goes_on, NULL, NULL, &layers},
        {"attention on the host", a_failing_device_harms_no_job_and_a_new_context_goes_on, NULL, NULL,
         &attention},
#endif
    };
    return emulated ? cmocka_run_group_tests(tests, NULL, NULL) : cmocka_run_group_tests(real, NULL, NULL);
}
