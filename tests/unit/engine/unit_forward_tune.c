// Steps of autotuning are valid for every kind of model and for small limits, and leave no state.
#include "engine/cpu/backend.h"
#include "engine/forward.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_encoder.h"
#include "tests/support/open_model.h"

enum { N_TOKENS = 20, N_VOCAB = 320 };

static struct {
    int32_t n_rows_max, n_outputs; // n_outputs: of the last step
    int n_steps;
} tuned;

static void (*inner_begin)(struct backend *backend, const struct step *step);

static void note_begin(struct backend *backend, const struct step *step)
{
    tuned.n_outputs = step->n_outputs;
    tuned.n_steps++;
    inner_begin(backend, step);
}

// The sizes that a device asks for ascend. forward_step asserts that each step is valid.
static enum status tune(struct backend *backend, int32_t n_rows_max,
                        enum status (*run)(void *context, int32_t n_rows, struct error *error), void *context,
                        struct error *error)
{
    (void)backend;
    tuned.n_rows_max = n_rows_max;
    enum status status = STATUS_OK;
    for (int32_t n = 1; status == STATUS_OK && n < n_rows_max; n = 3 * n + 14)
        status = run(context, n, error);
    return status == STATUS_OK ? run(context, n_rows_max, error) : status;
}

static enum status refuse_to_tune(struct backend *backend, int32_t n_rows_max,
                                  enum status (*run)(void *context, int32_t n_rows, struct error *error),
                                  void *context, struct error *error)
{
    (void)backend, (void)n_rows_max, (void)run, (void)context;
    return error_set(error, STATUS_RESTART, ERROR_DEVICE, "lost");
}

// The logits, or hidden states, of a text's last token.
static void compute_output(const struct model *model, const struct forward_limits *limits, bool tunes,
                           float *output)
{
    struct error error = {0};
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    int32_t tokens[N_TOKENS], positions[N_TOKENS], pages[] = {1, 0}, last = N_TOKENS - 1;
    assert_ok(pool_create(&pool, 1, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AUTO, &error), &error);
    if (tunes)
        backend->device.tune = tune;
    inner_begin = backend->operations.begin;
    backend->operations.begin = note_begin;
    assert_ok(forward_create(&forward, model, backend, limits, NULL, NULL, &error), &error);
    backend->operations.begin = inner_begin;
    for (int32_t i = 0; i < N_TOKENS; i++) {
        tokens[i] = (7 * i + 3) % 200;
        positions[i] = i;
    }
    struct step_sequence sequence = {.n_tokens = N_TOKENS,
                                     .pages = pages,
                                     .n_text = model->shape.bidirectional ? N_TOKENS : 0};
    struct step step = {.n_tokens = N_TOKENS,
                        .tokens = tokens,
                        .positions = positions,
                        .n_sequences = 1,
                        .sequences = &sequence,
                        .n_outputs = 1,
                        .output_rows = &last};
    if (limits->hidden_only)
        assert_ok(forward_hidden(forward, &step, output, &error), &error);
    else
        assert_ok(forward_step(forward, &step, NULL, output, &error), &error);
    forward_destroy(forward);
    backend->device.destroy(backend);
    pool_destroy(pool);
}

static const struct forward_limits roomy = {.n_tokens_max = 600,
                                            .n_outputs_max = 90,
                                            .n_sequences_max = 4,
                                            .page_positions = 16,
                                            .n_pages = 80,
                                            .n_state_slots = 4,
                                            .kv_type = KV_F32};

// n_rows, n_outputs: of the largest step.
static void check(const struct model *model, const struct forward_limits *limits, int32_t n_rows,
                  int32_t n_outputs)
{
    static float plain[N_VOCAB], after[N_VOCAB];
    size_t n = (size_t)(limits->hidden_only ? model->shape.n_embd : model->shape.n_vocab);
    assert_true(n <= N_VOCAB);
    compute_output(model, limits, false, plain);
    tuned.n_steps = 0;
    compute_output(model, limits, true, after);
    assert_int_equal(tuned.n_rows_max, n_rows);
    assert_int_equal(tuned.n_outputs, n_outputs);
    assert_true(tuned.n_steps > 2);
    assert_memory_equal(after, plain, n * sizeof *plain);
}

TEST(steps_fill_what_pages_slots_sequences_and_the_context_allow)
{
    struct model *plain = open_model_of(&(struct model_recipe){.seed = 3}),
                 *with_positions =
                     open_model_of(&(struct model_recipe){.family = "gpt2", .seed = 3, .n_context = 64}),
                 *recurrent =
                     open_model_of(&(struct model_recipe){.family = "qwen35", .seed = 3, .n_layers = 4});
    struct forward_limits limits = roomy;
    check(plain, &limits, 600, 90); // 256, 256 and 88 tokens
    limits.n_outputs_max = 600;
    check(plain, &limits, 600, 600);
    limits = roomy;
    limits.n_sequences_max = 1; // longer than a segment, up to the context of 512 tokens
    check(plain, &limits, 512, 90);
    limits = roomy;
    limits.n_pages = 5; // of one sequence
    check(plain, &limits, 80, 80);
    limits = roomy;
    check(with_positions, &limits, 4 * 64, 90);
    check(recurrent, &limits, 600, 90);
    limits.n_state_slots = 2;
    check(recurrent, &limits, 512, 90);
    model_close(plain);
    model_close(with_positions);
    model_close(recurrent);
}

TEST(texts_that_attend_in_both_directions_are_whole)
{
    static const char *const families[] = {"bert", "modern-bert"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char directory[64], path[96];
        struct error error;
        struct model *model;
        make_directory(directory);
        snprintf(path, sizeof path, "%s/model.gguf", directory);
        make_encoder(path, &(struct encoder_recipe){.family = families[i], .seed = 5});
        assert_ok(model_open(&model, path, &error), &error);
        struct forward_limits limits = roomy;
        limits.hidden_only = true;
        check(model, &limits, 600, 90); // texts of up to 200 tokens
        model_close(model);
        remove_directory(directory);
    }
}

TEST(a_device_that_is_lost_while_it_is_tuned_is_the_error_of_loading)
{
    struct error error = {0};
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct model *model = open_model_of(&(struct model_recipe){.seed = 3});
    assert_ok(pool_create(&pool, 1, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AUTO, &error), &error);
    backend->device.tune = refuse_to_tune;
    assert_int_equal(forward_create(&forward, model, backend, &roomy, NULL, NULL, &error), STATUS_RESTART);
    assert_null(forward);
    assert_string_equal(error.text, "lost");
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
}

int main(void)
{
    return cases_run();
}
