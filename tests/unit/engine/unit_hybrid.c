// a backend over two backends (engine/hybrid.h) over two CPU backends, which give the same bytes: whatever the
// placement, the result is that of one of them alone, bit for bit. A transfer that is late, missing or
// has too few rows changes it.
#include "engine/cpu/backend.h"
#include "engine/forward.h"
#include "engine/hybrid.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

enum { N_VOCAB = 320, N_SEQUENCES = 3, PAGE_POSITIONS = 16, LENGTH = 40, PAGES_EACH = 3, ROWS_MAX = 64 };
// Slots of a recurrent state: two of each sequence, between which it moves, and a snapshot.
enum { SLOTS_EACH = 3, SNAPSHOT = 2, SNAPSHOT_TURN = 3 };

// Plain C differs most from the device's kernels; a sanitizer makes it fifty times as slow.
#ifdef __SANITIZE_ADDRESS__
static const enum cpu_level host_level = CPU_AVX2;
#else
static const enum cpu_level host_level = CPU_PLAIN;
#endif

struct hybrid_machine {
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    bool recurrent;
};

static struct backend *open_cpu(struct pool *pool, enum cpu_level level)
{
    struct error error = {0};
    struct backend *backend;
    assert_ok(cpu_backend_create(&backend, pool, level, &error), &error);
    return backend;
}

// Without a placement one CPU alone.
static void machine_open(struct hybrid_machine *machine, const struct model *model,
                         const struct placement *placement)
{
    struct error error = {0};
    struct forward_limits limits = {.n_tokens_max = ROWS_MAX,
                                    .n_outputs_max = ROWS_MAX,
                                    .n_sequences_max = N_SEQUENCES,
                                    .page_positions = PAGE_POSITIONS,
                                    .n_pages = PAGES_EACH * N_SEQUENCES,
                                    .n_state_slots = SLOTS_EACH * N_SEQUENCES,
                                    .kv_type = KV_F32};
    assert_ok(pool_create(&machine->pool, 2, &error), &error);
    machine->backend = open_cpu(machine->pool, CPU_AVX512);
    if (placement) {
        struct backend *device = machine->backend, *host = open_cpu(machine->pool, host_level);
        assert_ok(hybrid_backend_create(&machine->backend, device, host, model, placement, &error), &error);
    }
    machine->recurrent = model->shape.recurrent.n_layers > 0;
    assert_ok(forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error),
              &error);
}

static void machine_close(struct hybrid_machine *machine)
{
    forward_destroy(machine->forward);
    machine->backend->device.destroy(machine->backend);
    pool_destroy(machine->pool);
}

// A turn continues from a snapshot of the sequence's state: the slot that it wrote last then has another's.
static void place_state(struct hybrid_machine *machine, struct step_sequence *sequence, int32_t s, int turn)
{
    int32_t first = s * SLOTS_EACH, last = first + (turn + 1) % 2;
    sequence->state_in = last;
    sequence->state_out = first + turn % 2;
    if (turn != SNAPSHOT_TURN || !machine->recurrent)
        return;
    forward_copy_state(machine->forward, first + SNAPSHOT, last);
    forward_copy_state(machine->forward, last, (s + 1) % N_SEQUENCES * SLOTS_EACH + turn % 2);
    sequence->state_in = first + SNAPSHOT;
}

// Two chunks of three prompts, then decoding; the rows of the outputs differ from step to step.
static void compute_logits(struct hybrid_machine *machine, float *logits, int32_t *drawn)
{
    struct error error = {0};
    int32_t tokens[ROWS_MAX], positions[ROWS_MAX], outputs[ROWS_MAX], pages[N_SEQUENCES][PAGES_EACH],
        done = 0;
    struct step_sequence sequences[N_SEQUENCES];
    struct sampling sampling = {.temperature = 0.8f, .top_p = 1.0f, .repetition_penalty = 1.0f, .seed = 4};
    struct sample_request samples[ROWS_MAX];
    struct sample_result results[ROWS_MAX];
    static const int32_t lengths[] = {19, 11, 1, 1, 1};
    for (int turn = 0; turn < 5; turn++) {
        struct step step = {.tokens = tokens,
                            .positions = positions,
                            .sequences = sequences,
                            .output_rows = outputs,
                            .n_sequences = N_SEQUENCES,
                            .samples = samples};
        for (int32_t s = 0; s < N_SEQUENCES; s++) {
            for (int32_t i = 0; i < PAGES_EACH; i++)
                pages[s][i] = i * N_SEQUENCES + s;
            sequences[s] = (struct step_sequence){step.n_tokens, lengths[turn], done, pages[s], false};
            place_state(machine, &sequences[s], s, turn);
            for (int32_t i = 0; i < lengths[turn]; i++, step.n_tokens++) {
                positions[step.n_tokens] = done + i;
                tokens[step.n_tokens] = (positions[step.n_tokens] * 37 + s * 11) % N_VOCAB;
            }
            samples[step.n_outputs] = (struct sample_request){.sampling = &sampling, .index = (uint32_t)turn};
            if (turn > 0 || s == 1) // the first chunk outputs a single row, as if the prompt continues
                outputs[step.n_outputs++] = step.n_tokens - 1;
        }
        assert_ok(forward_step(machine->forward, &step, results, logits, &error), &error);
        logits += step.n_outputs * N_VOCAB;
        for (int32_t i = 0; i < step.n_outputs; i++)
            *drawn++ = results[i].token;
        done += lengths[turn];
    }
}

static void every_placement_gives_one_backends_bytes(void **state)
{
    enum { N_OUTPUTS = 1 + 4 * N_SEQUENCES };
    static float expected[N_OUTPUTS * N_VOCAB], hybrid[N_OUTPUTS * N_VOCAB];
    int32_t expected_drawn[N_OUTPUTS], drawn[N_OUTPUTS];
    struct model_recipe recipe = *(const struct model_recipe *)*state;
    recipe.seed = 31;
    struct hybrid_machine machine;
    struct error error = {0};
    struct model *model;
    char directory[64], path[96];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &recipe);
    assert_ok(model_open(&model, path, &error), &error);
    machine_open(&machine, model, NULL);
    compute_logits(&machine, expected, expected_drawn);
    machine_close(&machine);
    enum { LAYERS, ATTENTION, EXPERTS };
    for (int32_t n_host = 0; n_host <= model->shape.n_layers; n_host++)
        for (int part = LAYERS; part <= (model->shape.experts.n ? EXPERTS : ATTENTION); part++) {
            struct placement placement = {n_host, part == ATTENTION, 0};
            if (part == EXPERTS)
                placement = (struct placement){.n_host_experts = n_host};
            machine_open(&machine, model, &placement);
            memset(hybrid, 0, sizeof hybrid);
            compute_logits(&machine, hybrid, drawn);
            assert_memory_equal(hybrid, expected, sizeof hybrid);
            assert_memory_equal(drawn, expected_drawn, sizeof drawn);
            machine_close(&machine);
        }
    model_close(model);
    unlink(path);
    rmdir(directory);
}

static struct model_recipe recipes[] = {
    {.family = "llama", .n_layers = 3},
    {.family = "mixtral", .n_layers = 3},
    {.family = "qwen2moe", .n_layers = 3},
    {.family = "qwen3", .n_layers = 3},
    {.family = "gemma2", .n_layers = 3},
    {.family = "phi2", .n_layers = 3},
    {.family = "gpt2", .n_layers = 3},
    {.family = "gptneox", .n_layers = 3},
    {.family = "bloom", .n_layers = 3},
    {.family = "glm4moe", .n_layers = 3},
    {.family = "deepseek2", .n_layers = 3},
    {.family = "gpt-oss", .n_layers = 3},
    {.family = "cohere2", .n_layers = 3},
    {.family = "falcon", .n_layers = 3},
    {.family = "olmo2", .n_layers = 3},
    {.family = "qwen35", .n_layers = 5},
    {.family = "qwen3next", .n_layers = 5},
    {.family = "qwen35moe", .n_layers = 4},
    {.family = "olmo_hybrid", .n_layers = 5},
    {.family = "kimi-linear", .n_layers = 5},
    {.family = "lfm2", .n_layers = 4},
    {.family = "lfm2moe", .n_layers = 4},
    {.family = "granitehybrid", .n_layers = 4},
    {.family = "falcon-h1", .n_layers = 2},
    {.family = "nemotron_h", .n_layers = 4},
    {.family = "nemotron_h_moe", .n_layers = 4},
    {.family = "jamba", .n_layers = 4},
    {.family = "mamba", .n_layers = 3},
    {.family = "mamba2", .n_layers = 3},
    {.family = "mimo2", .n_layers = 4},
    {.family = "step35", .n_layers = 4},
    {.family = "laguna", .n_layers = 4},
    {.family = "deci", .n_layers = 8},
    {.family = "openelm", .n_layers = 3},
    {.family = "gemma4", .n_layers = 6},
    {.family = "gemma4", .n_layers = 4, .larger = true}, // experts beside an MLP
    {.family = "gemma3n", .n_layers = 6},
    {.family = "llama4", .n_layers = 4},
    {.family = "apertus", .n_layers = 3},
    {.family = "mistral4", .n_layers = 3},
};

int main(void)
{
    enum { N = sizeof recipes / sizeof *recipes };
    static struct CMUnitTest tests[N];
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){recipes[i].family, every_placement_gives_one_backends_bytes, NULL,
                                       NULL, &recipes[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
