// Steps computed twice (engine/cross_check.h), over CPU backends, which give the same bytes: a correct step
// has no difference, for any arrangement of its pages, and the difference of a wrong one is reported.
#include "engine/cross_check.h"
#include "engine/cpu/backend.h"
#include "engine/hybrid.h"
#include "engine/session.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

#include <math.h>

enum {
    N_VOCAB = 320,
    N_SEQUENCES = 3,
    PAGE_POSITIONS = 16,
    PAGES_EACH = 4,
    ROWS_MAX = 96,
    N_PAGES = 2 + N_SEQUENCES * PAGES_EACH
};

struct checked_machine {
    struct pool *pool;
    struct backend *backend, *host;
    struct forward *forward;
    struct cross_check *check;
};

static const struct forward_limits limits_all = {.n_tokens_max = ROWS_MAX,
                                                 .n_outputs_max = N_SEQUENCES,
                                                 .n_sequences_max = N_SEQUENCES,
                                                 .page_positions = PAGE_POSITIONS,
                                                 .n_pages = N_PAGES,
                                                 .kv_type = KV_F32_OF_F16};

// `checked_by`: the model as the check has it. A placement: the first computation is a hybrid.
static void machine_open(struct checked_machine *machine, const struct model *model,
                         const struct model *checked_by, const struct placement *placement,
                         int32_t n_check_pages)
{
    struct error error = {0};
    struct forward_limits limits = limits_all;
    assert_ok(pool_create(&machine->pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&machine->backend, machine->pool, CPU_AVX512, &error), &error);
    if (placement) {
        struct backend *other;
        assert_ok(cpu_backend_create(&other, machine->pool, CPU_PLAIN, &error), &error);
        assert_ok(hybrid_backend_create(&machine->backend, machine->backend, other, model, placement, &error),
                  &error);
    }
    assert_ok(cpu_backend_create(&machine->host, machine->pool, CPU_AVX2, &error), &error);
    assert_ok(forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error),
              &error);
    limits.n_pages = n_check_pages;
    assert_ok(cross_check_create(&machine->check, checked_by, machine->backend, N_PAGES, machine->host,
                                 &limits, &error),
              &error);
}

static void machine_close(struct checked_machine *machine)
{
    cross_check_destroy(machine->check);
    forward_destroy(machine->forward);
    machine->host->device.destroy(machine->host);
    machine->backend->device.destroy(machine->backend);
    pool_destroy(machine->pool);
}

static struct model *open_recipe(const struct model_recipe *recipe)
{
    struct error error = {0};
    struct model *model;
    char directory[64], path[96];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, recipe);
    assert_ok(model_open(&model, path, &error), &error);
    unlink(path);
    rmdir(directory);
    return model;
}

static struct model *open_made_model(uint64_t seed)
{
    return open_recipe(
        &(struct model_recipe){.family = "llama", .seed = seed, .n_layers = 2, .type = TENSOR_Q8_0});
}

// Prompts of 40 tokens whose first two pages are one sequence's and shared by all, then three steps of
// decoding; each step is checked.
static void compute_checked(struct checked_machine *machine, struct cross_check_result checked[5])
{
    struct error error = {0};
    int32_t tokens[ROWS_MAX], positions[ROWS_MAX], outputs[N_SEQUENCES], pages[N_SEQUENCES][PAGES_EACH];
    struct step_sequence sequences[N_SEQUENCES];
    struct sampling sampling = {.temperature = 0.8f, .top_p = 1.0f, .repetition_penalty = 1.0f, .seed = 4};
    struct sample_request samples[N_SEQUENCES];
    struct sample_result results[N_SEQUENCES];
    // [step][sequence]: the first computes the shared beginning alone.
    static const int32_t rows[5][N_SEQUENCES] = {{40}, {1, 8, 8}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    int32_t done[N_SEQUENCES] = {0, 32, 32};
    for (int turn = 0; turn < 5; turn++) {
        struct step step = {.tokens = tokens,
                            .positions = positions,
                            .sequences = sequences,
                            .output_rows = outputs,
                            .samples = samples};
        for (int32_t s = 0; s < N_SEQUENCES && rows[turn][s]; s++) {
            for (int32_t i = 0; i < PAGES_EACH; i++)
                pages[s][i] = i < 2 ? i : N_PAGES - 1 - i * N_SEQUENCES - s + 2 * N_SEQUENCES;
            sequences[step.n_sequences++] =
                (struct step_sequence){step.n_tokens, rows[turn][s], done[s], pages[s], false};
            for (int32_t i = 0; i < rows[turn][s]; i++, done[s]++, step.n_tokens++) {
                positions[step.n_tokens] = done[s];
                tokens[step.n_tokens] = (done[s] * 37 + (done[s] < 32 ? 0 : s) * 11) % N_VOCAB;
            }
            samples[step.n_outputs] = (struct sample_request){.sampling = &sampling, .index = (uint32_t)turn};
            outputs[step.n_outputs++] = step.n_tokens - 1;
        }
        assert_ok(forward_step(machine->forward, &step, results, cross_check_logits(machine->check), &error),
                  &error);
        assert_ok(cross_check_step(machine->check, &step, results, &checked[turn], &error), &error);
    }
}

TEST(a_right_step_differs_in_nothing)
{
    struct model *model = open_made_model(3);
    const struct placement placements[] = {{1, false}, {0, true}};
    for (int i = 0; i < 3; i++) {
        struct checked_machine machine;
        struct cross_check_result checked[5];
        machine_open(&machine, model, model, i ? &placements[i - 1] : NULL, N_PAGES);
        compute_checked(&machine, checked);
        for (int turn = 0; turn < 5; turn++) {
            assert_true(checked[turn].difference == 0.0 && checked[turn].squared_error == 0.0);
            assert_int_equal(checked[turn].n_sequences, turn ? N_SEQUENCES : 1);
            assert_int_equal(checked[turn].n_outputs, checked[turn].n_sequences);
            assert_int_equal(checked[turn].n_draws, checked[turn].n_outputs);
            assert_int_equal(checked[turn].n_draws_apart, 0);
        }
        machine_close(&machine);
    }
    model_close(model);
}

TEST(the_first_sequences_are_compared_as_far_as_pages_last)
{
    struct model *model = open_made_model(3);
    // The shared two and one more of each sequence: a page too few for the third, for the second, and for the
    // first.
    for (int32_t n_pages = 2; n_pages <= 5; n_pages++) {
        struct checked_machine machine;
        struct cross_check_result checked[5];
        machine_open(&machine, model, model, NULL, n_pages);
        compute_checked(&machine, checked);
        for (int turn = 1; turn < 5; turn++) {
            assert_int_equal(checked[turn].n_sequences, n_pages - 2);
            assert_int_equal(checked[turn].n_outputs, n_pages - 2);
            assert_true(checked[turn].difference == 0.0);
        }
        machine_close(&machine);
    }
    model_close(model);
}

TEST(a_wrong_step_is_reported_with_its_difference)
{
    struct model *model = open_made_model(3), *other = open_made_model(8);
    struct checked_machine machine;
    struct cross_check_result checked[5];
    int n_apart = 0;
    machine_open(&machine, model, other, NULL, N_PAGES);
    compute_checked(&machine, checked);
    for (int turn = 0; turn < 5; turn++) {
        assert_true(checked[turn].difference > 0.01 && isfinite(checked[turn].difference));
        assert_true(checked[turn].squared_error > 0.01);
        n_apart += checked[turn].n_draws_apart;
    }
    assert_true(n_apart > 0);
    machine_close(&machine);
    model_close(other);
    model_close(model);
}

// One token of one sequence, at `position`.
static void session_decode(struct session *session, int32_t position, struct step_findings *findings)
{
    struct error error = {0};
    int32_t token = position * 37 % N_VOCAB, page[PAGES_EACH] = {0, 1, 2, 3}, output = 0;
    struct step_sequence sequence = {0, 1, position, page, false};
    struct sampling sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f};
    struct sample_request sample = {.sampling = &sampling, .index = (uint32_t)position};
    struct sample_result result;
    struct step step = {.n_tokens = 1,
                        .tokens = &token,
                        .positions = &position,
                        .n_sequences = 1,
                        .sequences = &sequence,
                        .n_outputs = 1,
                        .output_rows = &output,
                        .samples = &sample};
    assert_ok(session_step(session, &step, &result, &error), &error);
    session_take_findings(session, findings);
}

static int n_begun;

static void count_step(const struct step *step)
{
    n_begun += step->n_tokens;
}

TEST(a_session_checks_every_second_step_and_measures_each)
{
    struct model *model = open_made_model(3), *other = open_made_model(4);
    struct checked_machine machine;
    struct session session;
    struct step_findings findings;
    machine_open(&machine, model, other, NULL, N_PAGES);
    struct session_options options = {.forward = machine.forward,
                                      .check = machine.check,
                                      .check_every = 2,
                                      .timed = machine.backend,
                                      .before_step = count_step};
    session_init(&session, &options);
    assert_false(session_computes_ahead(&session));
    n_begun = 0;
    for (int32_t i = 0; i < 4; i++) {
        session_decode(&session, i, &findings);
        assert_int_equal(findings.trace.number, i);
        assert_int_equal(findings.trace.n_tokens, 1);
        assert_int_equal(findings.trace.n_first_tokens, i == 0);
        if (i < 2)
            assert_int_equal(findings.check.step, i == 1 ? 2 : 0);
        assert_int_equal(findings.check.step ? findings.check.n_sequences : 1, 1);
        session_take_findings(&session, &findings);
        assert_true(findings.trace.n_tokens == 0 && findings.check.step == 0);
    }
    assert_int_equal(n_begun, 4);
    assert_int_equal(session.totals.n_steps, 4);
    assert_int_equal(session.totals.n_checked, 2);
    assert_true(session.totals.difference > 0.0);
    session_finish(&session);
    machine_close(&machine);
    model_close(other);
    model_close(model);
}

// The copied pages have only keys and values, not the other inputs of a step.
TEST(families_whose_steps_read_more_than_keys_and_values_are_refused_by_name)
{
    static const struct {
        const char *family, *why;
    } cases[] = {{"qwen35", "family qwen35 has recurrent states, which can't be read"},
                 {"deepseek32", "family deepseek32 has the keys of an indexer, which can't be read"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model = open_recipe(&(struct model_recipe){.family = cases[i].family, .seed = 3});
        struct cross_check *check;
        struct backend *backend, *host;
        struct pool *pool;
        struct error error = {0};
        assert_ok(pool_create(&pool, 2, &error), &error);
        assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
        assert_ok(cpu_backend_create(&host, pool, CPU_AVX2, &error), &error);
        assert_int_equal(cross_check_create(&check, model, backend, N_PAGES, host, &limits_all, &error),
                         STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_DEVICE);
        assert_non_null(strstr(error.text, cases[i].why));
        assert_null(check);
        host->device.destroy(host);
        backend->device.destroy(backend);
        pool_destroy(pool);
        model_close(model);
    }
}
