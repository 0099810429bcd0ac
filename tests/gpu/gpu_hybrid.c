// Models whose layers are split between the device and the CPU, and whose attention is the CPU's
// (engine/hybrid.h): near the CPU's logits, the same bytes alone, among others and in any chunks, and faults
// of the device in the middle of a step.
#include "batching/limits.h"
#include "engine/cross_check.h"
#include "engine/cpu/backend.h"
#include "engine/forward.h"
#include "engine/hybrid.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/gpu/gpu_machine.h"
#include "tests/support/open_model.h"

enum { N_VOCAB = 320, SEQUENCES_MAX = 3, PAGE_POSITIONS = 16, LENGTH = 36, PAGES_EACH = 4, ROWS_MAX = 128 };

struct hybrid_subject {
    const char *name;
    struct model_recipe recipe;
    struct placement placement;
};

#define LAYERS(family_name)                                                                                  \
    {                                                                                                        \
        family_name ", one layer of three on the host", {.family = family_name, .seed = 41, .n_layers = 3},  \
        {                                                                                                    \
            1, false                                                                                         \
        }                                                                                                    \
    }
#define ATTENTION(family_name)                                                                               \
    {                                                                                                        \
        family_name ", attention on the host", {.family = family_name, .seed = 42, .n_layers = 2},           \
        {                                                                                                    \
            0, true                                                                                          \
        }                                                                                                    \
    }

#define EXPERTS(family_name, n_host)                                                                         \
    {                                                                                                        \
        family_name ", experts of " #n_host " layers of three on the host",                                  \
            {.family = family_name, .seed = 46, .n_layers = 3},                                              \
        {                                                                                                    \
            .n_host_experts = n_host                                                                         \
        }                                                                                                    \
    }
// States of the first layers on the host, of the others on the device.
#define RECURRENT(family_name, n, n_host, attention)                                                         \
    {                                                                                                        \
        family_name ", " #n_host " layers of " #n " on the host, attention there: " #attention,              \
            {.family = family_name, .seed = 45, .n_layers = n},                                              \
        {                                                                                                    \
            n_host, attention                                                                                \
        }                                                                                                    \
    }

static struct hybrid_subject subjects[] = {
    LAYERS("llama"),
    ATTENTION("llama"),
    {"Q4_K, one layer of two on the host, and all attention",
     {.type = TENSOR_Q4_K, .seed = 43, .n_layers = 2, .n_embd = 256, .n_ff = 256},
     {1, true}},
    LAYERS("mixtral"),
    ATTENTION("gpt-oss"),
    LAYERS("gemma2"),
    ATTENTION("phi2"),
    ATTENTION("bloom"),
    EXPERTS("mixtral", 1),
    EXPERTS("gpt-oss", 2),
    EXPERTS("glm4moe", 3),
    LAYERS("mimo2"),
    ATTENTION("step35"),
    RECURRENT("deci", 8, 3, false),
    RECURRENT("gemma4", 6, 2, false),
    RECURRENT("gemma3n", 6, 4, false),
    RECURRENT("qwen35", 5, 2, false), // a state on either side, attention on the device
    RECURRENT("qwen35", 5, 4, true),
    RECURRENT("kimi-linear", 5, 1, false),
    RECURRENT("lfm2", 4, 1, false),
    RECURRENT("falcon-h1", 2, 1, true),
    RECURRENT("nemotron_h_moe", 4, 2, false),
    RECURRENT("jamba", 4, 1, false),
    RECURRENT("mamba", 3, 2, false),
};

static void machine_open_keeping(struct machine *machine, const struct model *model,
                                 const struct placement *placement, int64_t failing_work,
                                 enum kv_type kv_type)
{
    struct error error = {0};
    struct backend *host, *device;
    struct forward_limits limits = {.n_tokens_max = ROWS_MAX,
                                    .n_outputs_max = ROWS_MAX,
                                    .n_sequences_max = SEQUENCES_MAX,
                                    .page_positions = PAGE_POSITIONS,
                                    .n_pages = PAGES_EACH * SEQUENCES_MAX,
                                    .n_state_slots = 2 * SEQUENCES_MAX,
                                    .kv_type = kv_type};
    assert_ok(pool_create(&machine->pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&host, machine->pool, CPU_AVX512, &error), &error);
    machine->backend = host;
    if (placement) {
        struct gpu_options options = {.pool = machine->pool, .failing_work = failing_work};
        assert_ok(gpu_backend_create(&device, &options, &error), &error);
        if (placement->n_host_layers || placement->host_attention || placement->n_host_experts) {
            assert_ok(hybrid_backend_create(&machine->backend, device, host, model, placement, &error),
                      &error);
        } else {
            machine->backend = device;
            host->device.destroy(host);
        }
    }
    assert_ok(forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error),
              &error);
}

static void machine_open(struct machine *machine, const struct model *model,
                         const struct placement *placement, int64_t failing_work)
{
    machine_open_keeping(machine, model, placement, failing_work, KV_F16);
}

struct hybrid_step {
    struct step step;
    struct step_sequence sequences[SEQUENCES_MAX];
    int32_t tokens[ROWS_MAX], positions[ROWS_MAX], outputs[ROWS_MAX], pages[SEQUENCES_MAX][PAGES_EACH];
    int32_t n_first;
};

// The next chunk of each of the first `n_sequences`; `done` has how far each is. Only the first one's rows
// are read.
static bool make_step(struct hybrid_step *made, int n_sequences, const int32_t *lengths,
                      const int32_t *chunks, int32_t *done)
{
    *made = (struct hybrid_step){.step = {.tokens = made->tokens,
                                          .positions = made->positions,
                                          .sequences = made->sequences,
                                          .output_rows = made->outputs}};
    struct step *step = &made->step;
    for (int s = 0; s < n_sequences; s++) {
        int32_t n = lengths[s] - done[s] < chunks[s] ? lengths[s] - done[s] : chunks[s];
        if (n <= 0)
            continue;
        for (int i = 0; i < PAGES_EACH; i++) // scattered, and elsewhere beside other sequences
            made->pages[s][i] = (PAGES_EACH - 1 - i) * n_sequences + (s + 1) % n_sequences;
        made->sequences[step->n_sequences++] =
            (struct step_sequence){step->n_tokens, n, done[s], made->pages[s], false, .state_in = s,
                                   .state_out = s};
        for (int32_t i = 0; i < n; i++, done[s]++) {
            if (s == 0)
                made->outputs[step->n_outputs++] = step->n_tokens;
            made->tokens[step->n_tokens] = (done[s] * 89 + s * 31 + done[s] * done[s] % 17) % N_VOCAB;
            made->positions[step->n_tokens++] = done[s];
        }
    }
    made->n_first = step->n_outputs;
    return step->n_tokens > 0;
}

static void compute_logits(struct machine *machine, int n_sequences, int chunk, float *logits)
{
    static struct hybrid_step made;
    struct error error = {0};
    int32_t lengths[] = {LENGTH, 30, 21}, chunks[] = {chunk, 4, 9}, done[SEQUENCES_MAX] = {0};
    while (make_step(&made, n_sequences, lengths, chunks, done)) {
        assert_ok(forward_step(machine->forward, &made.step, NULL, logits, &error), &error);
        logits += made.n_first * N_VOCAB;
    }
}

static void a_split_model_is_near_the_cpus_logits_and_the_same_bytes_in_every_way(void **state)
{
    enum { N = LENGTH * N_VOCAB };
    static float expected[N], first[N], other[N];
    const struct hybrid_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    struct machine cpu, hybrid;
    // the values of the device's pages, where it has all
    machine_open_keeping(&cpu, model, NULL, 0, subject->placement.n_host_experts ? KV_F32_OF_F16 : KV_F16);
    compute_logits(&cpu, 1, LENGTH, expected);
    machine_close(&cpu);
    machine_open(&hybrid, model, &subject->placement, 0);
    compute_logits(&hybrid, 1, LENGTH, first);
    double error = squared_error(first, expected, N);
    print_message("%s: normalized squared error %.2g\n", subject->name, error);
    // as for the device alone: tests/gpu/gpu_forward.c
    assert_true(error <= (subject->recipe.type == TENSOR_F32 ? 1e-6 : 2e-3));
    assert_true(error > 0.0); // it was not the CPU alone
    compute_logits(&hybrid, SEQUENCES_MAX, 7, other);
    assert_memory_equal(other, first, sizeof first);
    machine_close(&hybrid);
    model_close(model);
}

enum { N_GENERATED = 20 }; // over more than one page

// One token after the other, each fed back. With a check each step is checked, and the largest result kept.
static enum status generate(struct machine *machine, int32_t drawn[N_GENERATED], struct cross_check *check,
                            struct cross_check_result *largest, struct error *error)
{
    struct single_step single;
    struct sample_result result;
    single_step_init(&single);
    single.sampling.temperature = 0.7f;
    single.sampling.seed = 3;
    for (int32_t i = 0; i < N_GENERATED; i++) {
        single.position = single.sequence.position = i;
        single.request.index = (uint32_t)i;
        float *logits = check ? cross_check_logits(check) : NULL;
        enum status status = forward_step(machine->forward, &single.step, &result, logits, error);
        struct cross_check_result checked = {0};
        if (status == STATUS_OK && check)
            status = cross_check_step(check, &single.step, &result, &checked, error);
        if (status != STATUS_OK)
            return status;
        if (check && (i == 0 || checked.difference > largest->difference))
            *largest = checked;
        drawn[i] = single.token = result.token;
    }
    return STATUS_OK;
}

static void a_device_lost_between_two_crossings_ends_the_step_and_a_new_one_goes_on(void **state)
{
    const struct hybrid_subject *subject = *state;
    if (!device_is_emulated())
        skip();
    struct model *model = open_model_of(&subject->recipe);
    struct machine machine;
    struct error error = {0};
    int32_t expected[N_GENERATED], drawn[N_GENERATED];
    int n_failed = 0;
    machine_open(&machine, model, &subject->placement, 0);
    assert_ok(generate(&machine, expected, NULL, NULL, &error), &error);
    machine_close(&machine);
    for (int64_t failing = 90; failing < 400; failing += device_cases_are_wide() ? 13 : 67) {
        machine_open(&machine, model, &subject->placement, failing);
        if (generate(&machine, drawn, NULL, NULL, &error) != STATUS_OK) {
            n_failed++;
            assert_int_equal(error.status, STATUS_RESTART);
            assert_int_equal(error.code, ERROR_DEVICE);
            assert_int_equal(generate(&machine, drawn, NULL, NULL, &error), STATUS_RESTART); // it stays lost
        }
        machine_close(&machine);
    }
    assert_true(n_failed >= 3);
    machine_open(&machine, model, &subject->placement, 0); // a new context
    assert_ok(generate(&machine, drawn, NULL, NULL, &error), &error);
    assert_memory_equal(drawn, expected, sizeof expected);
    machine_close(&machine);
    model_close(model);
}

static void a_traced_step_has_times_and_the_same_tokens(void **state)
{
    const struct hybrid_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    struct machine machine;
    struct error error = {0};
    int32_t expected[N_GENERATED], drawn[N_GENERATED];
    struct step_times times = {0};
    machine_open(&machine, model, &subject->placement, 0);
    assert_ok(generate(&machine, expected, NULL, NULL, &error), &error);
    machine.backend->device.trace(machine.backend, &times);
    assert_ok(generate(&machine, drawn, NULL, NULL, &error), &error);
    assert_memory_equal(drawn, expected, sizeof expected);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_true(times.us[phase] > 0.0);
    machine_close(&machine);
    model_close(model);
}

// The device alone, layers, attention on the host, the device with pages in bytes: pages of either backend are
// read.
static void checked_steps_are_near_the_cpus_and_draw_the_same_tokens(void **state)
{
    const struct hybrid_subject *subject = *state;
    const struct placement placements[] = {{0, false}, {1, false}, {0, true}, {0, false}};
    struct model *model = open_model_of(&subject->recipe);
    for (int i = 0; i < 4; i++) {
        enum kv_type kv_type = i == 3 ? KV_Q8_0 : KV_F16;
        struct machine machine;
        struct error error = {0};
        struct backend *host;
        struct cross_check *check;
        struct cross_check_result checked;
        struct forward_limits limits = {.n_tokens_max = 1,
                                        .n_outputs_max = 1,
                                        .n_sequences_max = 1,
                                        .page_positions = PAGE_POSITIONS,
                                        .n_pages = 2,
                                        .kv_type = KV_F16};
        int32_t expected[N_GENERATED], drawn[N_GENERATED];
        machine_open_keeping(&machine, model, &placements[i], 0, kv_type);
        assert_ok(generate(&machine, expected, NULL, NULL, &error), &error);
        assert_ok(cpu_backend_create(&host, machine.pool, CPU_AVX512, &error), &error);
        assert_ok(cross_check_create(&check, model, machine.backend, PAGES_EACH * SEQUENCES_MAX, host,
                                     &limits, &error),
                  &error);
        assert_ok(generate(&machine, drawn, check, &checked, &error), &error);
        assert_memory_equal(drawn, expected, sizeof expected);
        print_message("up to %.2g apart, normalized squared error %.2g\n", checked.difference,
                      checked.squared_error);
        assert_int_equal(checked.n_outputs, 1);
        // Of bytes only the newest position's own are not what the CPU has: as of other quantized numbers.
        assert_true(checked.difference > 0.0 && checked.squared_error <= (kv_type == KV_Q8_0 ? 5e-4 : 1e-6));
        cross_check_destroy(check);
        host->device.destroy(host);
        machine_close(&machine);
    }
    model_close(model);
}

// Loads the plan and computes a step with its maximum of rows and outputs.
static enum status load_and_step(struct machine *machine, const struct model *model,
                                 const struct limits_plan *plan, struct error *error)
{
    static int32_t tokens[ROWS_MAX], positions[ROWS_MAX], outputs[ROWS_MAX];
    static struct sample_request samples[ROWS_MAX];
    static struct sample_result results[ROWS_MAX];
    int32_t pages[] = {0, 1, 2, 3, 4, 5, 6, 7}, n_rows = plan->batch.n_tokens_max,
            n_outputs = plan->batch.n_sequences_max;
    struct sampling sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f};
    struct step_sequence sequence = {.n_tokens = n_rows, .pages = pages};
    assert_true(n_rows <= ROWS_MAX && plan->batch.n_pages >= 8);
    for (int32_t i = 0; i < n_rows; i++) {
        positions[i] = i;
        samples[i] = (struct sample_request){.sampling = &sampling};
    }
    for (int32_t i = 0; i < n_outputs; i++)
        outputs[i] = n_rows - n_outputs + i;
    struct step step = {.n_tokens = n_rows,
                        .tokens = tokens,
                        .positions = positions,
                        .n_sequences = 1,
                        .sequences = &sequence,
                        .n_outputs = n_outputs,
                        .output_rows = outputs,
                        .samples = samples};
    enum status status =
        forward_create(&machine->forward, model, machine->backend, &plan->forward, NULL, NULL, error);
    if (status == STATUS_OK)
        status = forward_step(machine->forward, &step, results, NULL, error);
    forward_destroy(machine->forward);
    machine->forward = NULL;
    return status;
}

// From a device that holds everything down to one that holds nothing: what a plan accepts, loads and runs
// within --gpu-memory.
struct planned_subject {
    const char *name;
    struct model_recipe recipe;
    enum placing placing;
};

static struct planned_subject planned[] = {
    {"plans", {.type = TENSOR_Q8_0, .seed = 44, .n_layers = 6, .n_embd = 128, .n_ff = 1024}, PLACING_AUTO},
    {"plans of states",
     {.family = "qwen35", .type = TENSOR_Q8_0, .seed = 44, .n_layers = 8, .n_embd = 128, .n_ff = 1024},
     PLACING_LAYERS},
    {"plans of experts",
     {.family = "mixtral", .type = TENSOR_Q8_0, .seed = 44, .n_layers = 5, .n_embd = 128, .n_ff = 384},
     PLACING_EXPERTS},
};

static void what_a_plan_accepts_runs_in_the_memory_it_was_given(void **state)
{
    const struct planned_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    int n_device = 0, n_layers = 0, n_attention = 0, n_experts = 0, n_refused = 0;
    for (int64_t bytes = 6500000; bytes > 200000; bytes -= device_cases_are_wide() ? 500000 : 1500000) {
        struct error error = {0};
        struct machine machine = {0};
        struct backend *host, *device;
        struct limits_plan plan;
        assert_ok(pool_create(&machine.pool, 1, &error), &error);
        assert_ok(cpu_backend_create(&host, machine.pool, CPU_AVX512, &error), &error);
        assert_ok(gpu_backend_create(&device, &(struct gpu_options){.memory_bytes = (uint64_t)bytes}, &error),
                  &error);
        struct limits_wanted wanted = {.backend = device,
                                       .device = true,
                                       .n_sequences_max = 4,
                                       .n_tokens_max = 64,
                                       .page_bytes = bytes % 1000000 ? 0 : 2000000,
                                       .host = host,
                                       .host_available_bytes = 1 << 30,
                                       .placing = subject->placing};
        bool is_hybrid = false;
        if (limits_derive(&plan, model, device->device.available_bytes(device), &wanted, &error) ==
            STATUS_OK) {
            is_hybrid = limits_is_hybrid(&plan);
            machine.backend = device;
            if (is_hybrid)
                assert_ok(hybrid_backend_create(&machine.backend, device, host, model, &plan.placement,
                                                &error),
                          &error);
            assert_ok(load_and_step(&machine, model, &plan, &error), &error);
            n_device += !is_hybrid;
            n_layers += plan.placement.n_host_layers > 0;
            n_attention += plan.placement.host_attention;
            n_experts += plan.placement.n_host_experts > 0;
        } else {
            n_refused++;
            assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
            assert_non_null(strstr(error.text, "would fit: "));
        }
        if (is_hybrid) {
            machine.backend->device.destroy(machine.backend);
        } else {
            device->device.destroy(device);
            host->device.destroy(host);
        }
        pool_destroy(machine.pool);
    }
    print_message("%d times on the device alone, %d times layers, %d times attention and %d times experts "
                  "on the host, %d times refused\n",
                  n_device, n_layers, n_attention, n_experts, n_refused);
    assert_true(n_device > 0 && n_refused > 0 && (n_layers > 0) == (subject->placing != PLACING_EXPERTS) &&
                (n_attention > 0) == (subject->placing == PLACING_AUTO) &&
                (n_experts > 0) == (subject->placing == PLACING_EXPERTS));
    model_close(model);
}

static void a_split_model_with_sparse_attention_is_refused_by_name(void **state)
{
    struct model *model =
        open_model_of(&(struct model_recipe){.family = "deepseek32", .seed = 2, .n_layers = 3});
    struct forward_limits limits = {.n_tokens_max = ROWS_MAX,
                                    .n_outputs_max = ROWS_MAX,
                                    .n_sequences_max = SEQUENCES_MAX,
                                    .page_positions = PAGE_POSITIONS,
                                    .n_pages = PAGES_EACH,
                                    .kv_type = KV_F16};
    struct placement placement = {1, false};
    struct machine machine = {0};
    struct backend *host, *device;
    struct error error = {0};
    assert_ok(pool_create(&machine.pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&host, machine.pool, CPU_AVX512, &error), &error);
    assert_ok(gpu_backend_create(&device, &(struct gpu_options){.pool = machine.pool}, &error), &error);
    assert_ok(hybrid_backend_create(&machine.backend, device, host, model, &placement, &error), &error);
    assert_int_equal(forward_create(&machine.forward, model, machine.backend, &limits, NULL, NULL, &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "family deepseek32 can't be computed on "));
    assert_non_null(strstr(error.text, "sparse"));
    machine.backend->device.destroy(machine.backend);
    pool_destroy(machine.pool);
    model_close(model);
}

#ifdef __SANITIZE_ADDRESS__
enum { N_SPLIT = 1 }; // a subject takes seconds; the host's part is the same for all
#else
enum { N_SPLIT = sizeof subjects / sizeof *subjects };
#endif

int main(void)
{
    if (device_missing())
        return 77;
    enum { N_PLANNED = sizeof planned / sizeof *planned };
    static struct CMUnitTest tests[N_SPLIT + 6 + N_PLANNED];
    for (int i = 0; i < N_SPLIT; i++)
        tests[i] = (struct CMUnitTest){subjects[i].name,
                                       a_split_model_is_near_the_cpus_logits_and_the_same_bytes_in_every_way,
                                       NULL, NULL, &subjects[i]};
    for (int i = 0; i < 2; i++) {
        tests[N_SPLIT + i] =
            (struct CMUnitTest){i ? "a lost device, attention on the host" : "a lost device, layers",
                                a_device_lost_between_two_crossings_ends_the_step_and_a_new_one_goes_on, NULL,
                                NULL, &subjects[i]};
        tests[N_SPLIT + 2 + i] =
            (struct CMUnitTest){i ? "a trace, attention on the host" : "a trace, layers",
                                a_traced_step_has_times_and_the_same_tokens, NULL, NULL, &subjects[i]};
    }
    for (int i = 0; i < N_PLANNED; i++)
        tests[N_SPLIT + 6 + i] =
            (struct CMUnitTest){planned[i].name, what_a_plan_accepts_runs_in_the_memory_it_was_given, NULL,
                                NULL, &planned[i]};
    tests[N_SPLIT + 4] =
        (struct CMUnitTest){"checks on the CPU", checked_steps_are_near_the_cpus_and_draw_the_same_tokens,
                            NULL, NULL, &subjects[device_cases_are_wide() ? 0 : 1]};
    tests[N_SPLIT + 5] =
        (struct CMUnitTest){"sparse attention", a_split_model_with_sparse_attention_is_refused_by_name, NULL,
                            NULL, NULL};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
