// The launches that draw tokens, and their outcomes (gpu/sampling.c).
#include "tests/support/cases.h"
#include "tests/unit/gpu/launch_lines.h"

TEST(tokens_are_drawn_from_padded_outputs)
{
    struct sample_request samples[N_OUTPUTS] = {0};
    step.samples = samples;
    size_t top = (4 * sizeof(struct sample_outcome) + 15) / 16 * 16;
    char text[512];
    snprintf(text, sizeof text,
             "logprobs x:96 64 of 4 outputs, settings up+64 biases up history up masks up given given"
             " given+%zu counts counts states states outcomes outcome top outcome+%zu\nadjust\ndraw\n",
             (size_t)UPLOAD_BYTES / sizeof(struct sample_bias), top);
    gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
    gpu_sample(&backend.base, &x);
    assert_memory_equal(out.data, "add ", 4);
    assert_string_equal(strchr(out.data, '\n') + 1, text);
    assert_true(backend.submitted.slot->drawn);
}

TEST(outcomes_are_downloaded_with_their_alternatives_where_some_are_asked_for)
{
    struct sampling first = {0}, second = {.top_logprobs = 2};
    struct sample_request samples[N_OUTPUTS] = {{.sampling = &first}, {.sampling = &second}};
    const size_t one = sizeof(struct sample_outcome),
                 few = JOB_TOP_LOGPROBS_MAX * sizeof(struct token_logprob);
    for (int32_t n = 1; n <= 9; n++) {
        size_t bytes = gpu_outcome_bytes(n), alternatives = (size_t)n * few;
        assert_int_equal((bytes - alternatives) % 16, 0);
        assert_true(bytes - alternatives >= (size_t)n * one && bytes - alternatives < (size_t)n * one + 16);
    }
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), N_OUTPUTS * one); // logits alone are read
    step.samples = samples;
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), N_OUTPUTS * one);
    second.logprobs = true;
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), gpu_outcome_bytes(4));
    second.top_logprobs = 0;
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), N_OUTPUTS * one);
    second.top_logprobs = 1;
    step.n_outputs = 1; // the second is none of the step's
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), one);
}

TEST(outcomes_are_results)
{
    struct sample_result results[N_OUTPUTS];
    struct step_slot slot = {.n_outputs = N_OUTPUTS, .n_outputs_padded = 5};
    struct sample_outcome *outcomes = calloc(1, gpu_outcome_bytes(5));
    slot.outcome_host = (unsigned char *)outcomes;
    struct token_logprob *top =
        (void *)(slot.outcome_host + gpu_outcome_bytes(5) - 5 * JOB_TOP_LOGPROBS_MAX * sizeof *top);
    outcomes[0] = (struct sample_outcome){.token = 7, .logprob = -0.5f, .n_top = 2};
    outcomes[1] = (struct sample_outcome){.token = -1};
    for (int i = 0; i < 3; i++)
        top[i] = (struct token_logprob){.token = 20 + i, .logprob = (float)-i};
    memset(results, 0x55, sizeof results);
    gpu_take_outcomes(&slot, results);
    assert_int_equal(results[0].token, 7);
    assert_true(results[0].logprob == -0.5f);
    assert_int_equal(results[0].n_top, 2);
    assert_int_equal(results[0].top[0].token, 20);
    assert_int_equal(results[0].top[1].token, 21);
    assert_true(results[0].top[1].logprob == -1);
    assert_int_equal(results[0].top[2].token, 0);
    assert_int_equal(results[1].token, -1);
    assert_int_equal(results[1].n_top, 0);
    outcomes[1].n_top = 1;
    top[JOB_TOP_LOGPROBS_MAX].token = 33;
    gpu_take_outcomes(&slot, results);
    assert_int_equal(results[1].top[0].token, 33);
    free(outcomes);
}

TEST_FIXTURE(begin, end);
