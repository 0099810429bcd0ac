// Sampling on the device draws what engine/sampler.c draws from the same logits: the same tokens, logprobs
// and alternatives, bit for bit, for all settings, shapes of logits and neighbors in the batch.
#include "engine/sampler.h"
#include "gpu/state.h"
#include "tests/gpu/gpu_machine.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <float.h>
#include <math.h>

enum { N_VOCAB = 3001, N_OUTPUTS = 40, HISTORY = 300 }; // not a multiple of any block

static uint64_t random_state;

static uint32_t random_word(void)
{
    return random_bits(&random_state);
}

static float random_between(float low, float high)
{
    return low + (high - low) * (float)random_double(&random_state);
}

// --- The two samplers ---

static struct backend *backend_open(int32_t n_vocab, struct matrix **logits)
{
    struct error error = {0};
    struct backend *backend;
    if (gpu_backend_create(&backend, &(struct gpu_options){.eager = true}, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    if (backend->device.matrix_create(backend, N_OUTPUTS, n_vocab, logits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return backend;
}

// The masks of `late`, if it is not NULL, are there when the rest of the step has been submitted.
static void draw_on_device(struct backend *base, struct matrix *matrix, const float *logits,
                           int32_t n_outputs, const struct sample_request *requests,
                           const struct sample_request *late, struct sample_result *results)
{
    struct error error = {0};
    int32_t tokens[N_OUTPUTS] = {0}, positions[N_OUTPUTS] = {0}, outputs[N_OUTPUTS];
    struct step_sequence sequences[N_OUTPUTS];
    struct sample_request samples[N_OUTPUTS];
    for (int32_t i = 0; i < n_outputs; i++) {
        outputs[i] = i;
        sequences[i] = (struct step_sequence){.first_row = i, .n_tokens = 1};
        samples[i] = requests[i];
    }
    struct step step = {.n_tokens = n_outputs,
                        .tokens = tokens,
                        .positions = positions,
                        .n_sequences = n_outputs,
                        .sequences = sequences,
                        .n_outputs = n_outputs,
                        .output_rows = outputs,
                        .samples = samples,
                        .samples_apart = late != NULL};
    base->operations.begin(base, &step);
    base->operations.write(base, matrix, n_outputs, logits);
    enum status status = late ? base->operations.submit(base, &error) : STATUS_OK;
    for (int32_t i = 0; late && i < n_outputs; i++)
        samples[i].allowed = late[i].allowed;
    if (late && status == STATUS_OK)
        base->operations.resume(base, &step);
    base->operations.sample(base, matrix);
    if (late && status == STATUS_OK)
        status = base->operations.submit(base, &error);
    if (status == STATUS_OK)
        status = late ? base->operations.collect(base, results, &error)
                      : base->operations.end(base, results, &error);
    if (status != STATUS_OK)
        fail_msg("%s", error.text);
}

static void draw_on_cpu(const float *logits, int32_t n_vocab, int32_t n_outputs,
                        const struct sample_request *requests, struct sample_result *results)
{
    struct error error = {0};
    struct sampler *sampler;
    assert_ok(sampler_create(&sampler, n_vocab, &error), &error);
    float *copy = malloc((size_t)n_vocab * sizeof *copy);
    for (int32_t i = 0; i < n_outputs; i++) {
        memcpy(copy, logits + (size_t)i * (size_t)n_vocab, (size_t)n_vocab * sizeof *copy);
        sampler_draw(sampler, copy, &requests[i], &results[i]);
    }
    free(copy);
    sampler_destroy(sampler);
}

static void assert_same_results(const struct sample_result *got, const struct sample_result *expected,
                                int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (got[i].token != expected[i].token)
            fail_msg("output %d: token %d, expected %d", i, got[i].token, expected[i].token);
        assert_memory_equal(&got[i].logprob, &expected[i].logprob, sizeof(float));
        assert_int_equal(got[i].n_top, expected[i].n_top);
        for (int32_t j = 0; j < got[i].n_top; j++) {
            assert_int_equal(got[i].top[j].token, expected[i].top[j].token);
            assert_memory_equal(&got[i].top[j].logprob, &expected[i].top[j].logprob, sizeof(float));
        }
    }
}

// All outputs at once on the device, one by one on the CPU. With masks, and every fourth time without, the
// device draws a second time, apart from the rest of the step.
static void compare_samples(const float *logits, int32_t n_vocab, int32_t n_outputs,
                            const struct sample_request *requests)
{
    static struct sample_result got[N_OUTPUTS], expected[N_OUTPUTS];
    static const uint32_t nothing[(N_VOCAB + 31) / 32];
    static int n_compared;
    struct sample_request early[N_OUTPUTS];
    struct matrix *matrix;
    struct backend *backend = backend_open(n_vocab, &matrix);
    draw_on_cpu(logits, n_vocab, n_outputs, requests, expected);
    draw_on_device(backend, matrix, logits, n_outputs, requests, NULL, got);
    assert_same_results(got, expected, n_outputs);
    bool is_apart = n_compared++ % 4 == 0;
    for (int32_t i = 0; i < n_outputs; i++) {
        early[i] = requests[i];
        early[i].allowed = requests[i].allowed ? nothing : NULL;
        is_apart = is_apart || requests[i].allowed;
    }
    if (is_apart) {
        draw_on_device(backend, matrix, logits, n_outputs, early, requests, got);
        assert_same_results(got, expected, n_outputs);
    }
    backend->device.matrix_destroy(backend, matrix);
    backend->device.destroy(backend);
}

// --- Settings and logits ---

static struct sampling plain_sampling(float temperature)
{
    return (
        struct sampling){.temperature = temperature, .top_p = 1.0f, .repetition_penalty = 1.0f, .seed = 42};
}

struct drawn_settings {
    struct sampling sampling;
    struct logit_bias biases[40];
    int32_t prompt[HISTORY], generated[HISTORY];
    uint32_t allowed[(N_VOCAB + 31) / 32];
};

static struct sample_request random_request(struct drawn_settings *settings, int32_t n_vocab, uint32_t index)
{
    static const float temperatures[] = {0.0f, 0.2f, 0.7f, 1.0f, 2.0f};
    struct sampling *sampling = &settings->sampling;
    *sampling = plain_sampling(temperatures[random_word() % 5]);
    sampling->seed = (uint64_t)random_word() << 32 | random_word();
    if (random_word() % 2)
        sampling->top_k = (int32_t)(random_word() % 3 ? 1 + random_word() % 60 : 1 + random_word() % 4000);
    if (random_word() % 2)
        sampling->top_p = random_between(0.01f, 0.999f);
    if (random_word() % 3 == 0)
        sampling->min_p = random_between(0.0f, 0.3f);
    if (random_word() % 3 == 0)
        sampling->repetition_penalty = random_between(0.5f, 2.0f);
    if (random_word() % 3 == 0)
        sampling->presence_penalty = random_between(-2.0f, 2.0f);
    if (random_word() % 3 == 0)
        sampling->frequency_penalty = random_between(-2.0f, 2.0f);
    if (random_word() % 3 == 0) {
        sampling->n_logit_bias = 1 + (int32_t)(random_word() % 40);
        sampling->logit_bias = settings->biases;
        for (int32_t i = 0; i < sampling->n_logit_bias; i++)
            settings->biases[i] =
                (struct logit_bias){(int32_t)(random_word() % 60), random_between(-9.0f, 9.0f)};
    }
    sampling->logprobs = random_word() % 2;
    sampling->top_logprobs = sampling->logprobs ? (int32_t)(random_word() % 21) : 0;
    struct sample_request request = {.sampling = sampling, .index = index, .choice = random_word() % 4};
    request.prompt = settings->prompt;
    request.generated = settings->generated;
    request.n_prompt = (int32_t)(random_word() % HISTORY);
    request.n_generated = (int32_t)(random_word() % HISTORY);
    for (int32_t i = 0; i < HISTORY; i++) { // often the same ones
        settings->prompt[i] = (int32_t)(random_word() % (i % 2 ? 50u : (uint32_t)n_vocab));
        settings->generated[i] = (int32_t)(random_word() % (i % 2 ? 50u : (uint32_t)n_vocab));
    }
    if (random_word() % 3 == 0) {
        uint32_t one_in = 1u << random_word() % 12;
        request.allowed = settings->allowed;
        request.n_allowed_words = token_mask_words(n_vocab);
        memset(settings->allowed, 0, sizeof settings->allowed);
        for (int32_t i = 0; i < n_vocab; i++)
            if (random_word() % one_in == 0 || i == n_vocab / 2)
                settings->allowed[i / 32] |= 1u << i % 32;
    }
    return request;
}

enum shape { FLAT, PEAKED, TIED, LEVELS, MASKED, HUGE_SPREAD, N_SHAPES };

static void fill_logits(float *logits, int32_t n, enum shape shape)
{
    for (int32_t i = 0; i < n; i++) {
        float x = random_between(-1.0f, 1.0f);
        logits[i] = shape == FLAT     ? x
                    : shape == PEAKED ? 20.0f * x * x * x
                    : shape == TIED   ? 1.5f
                    : shape == LEVELS ? (float)(random_word() % 7) - 3.0f
                    : shape == MASKED ? (random_word() % 50 ? -INFINITY : 3.0f * x)
                                      : x * FLT_MAX;
        if (shape == LEVELS && random_word() % 5 == 0)
            logits[i] = -0.0f;
    }
    if (shape == MASKED)
        logits[n / 2] = 0.5f;
}

TEST(draws_of_all_settings_are_those_of_the_cpu)
{
    static float logits[N_OUTPUTS * N_VOCAB];
    static struct drawn_settings settings[N_OUTPUTS];
    struct sample_request requests[N_OUTPUTS];
    print_message("random numbers from state %llu\n", (unsigned long long)random_state);
    for (int shape = 0; shape < N_SHAPES; shape++) {
        // Logits of few levels, whose ties many threads see: all are always tried.
        int32_t n = shape == LEVELS || device_cases_are_wide() ? N_OUTPUTS : 13;
        for (int32_t i = 0; i < n; i++) {
            fill_logits(logits + i * N_VOCAB, N_VOCAB, (enum shape)shape);
            requests[i] = random_request(&settings[i], N_VOCAB, (uint32_t)i);
        }
        compare_samples(logits, N_VOCAB, n, requests);
    }
}

TEST(small_vocabularies_are_drawn_from_whole)
{
    static const int32_t sizes[] = {1, 2, 15, 16, 17, 31, 511, 513, 1024, 1025, 2048, 2049};
    static float logits[8 * 2049];
    static struct drawn_settings settings[8];
    struct sample_request requests[8];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int32_t i = 0; i < 8; i++) {
            fill_logits(logits + i * sizes[s], sizes[s], i % 2 ? FLAT : PEAKED);
            requests[i] = random_request(&settings[i], sizes[s], (uint32_t)i);
            requests[i].n_prompt = requests[i].n_generated = 0;
            settings[i].sampling.n_logit_bias = 0;
        }
        compare_samples(logits, sizes[s], 8, requests);
    }
}

// As tests/unit/engine/unit_sampler.c has it: whether the second token is kept depends on the order of the sum alone.
TEST(weights_are_added_in_the_lanes_of_the_cpu)
{
    enum { N = 24 };
    static float logits[N * N_VOCAB];
    struct sampling sampling = plain_sampling(1.0f);
    struct sample_request requests[N];
    struct sample_result expected[N];
    int n_second = 0;
    sampling.top_p = 0.5f;
    for (int32_t i = 0; i < N; i++) {
        for (int32_t token = 0; token < N_VOCAB; token++)
            logits[i * N_VOCAB + token] = token < 2 ? 0.0f : token % 1024 / 2 == 256 ? -36.75f : -INFINITY;
        requests[i] = (struct sample_request){.sampling = &sampling, .index = (uint32_t)i};
    }
    draw_on_cpu(logits, N_VOCAB, N, requests, expected);
    for (int i = 0; i < N; i++)
        n_second += expected[i].token == 1;
    assert_in_range(n_second, 1, N - 1);
    compare_samples(logits, N_VOCAB, N, requests);
}

// Flat logits and a uniform number near 1: candidates of many chunks are passed one by one.
TEST(a_draw_far_down_the_ranking_finds_its_token)
{
    static float logits[4 * N_VOCAB];
    struct sampling sampling = plain_sampling(2.0f);
    struct sample_request requests[4];
    for (int32_t i = 0; i < 4; i++) {
        fill_logits(logits + i * N_VOCAB, N_VOCAB, i % 2 ? TIED : FLAT);
        requests[i] = (struct sample_request){.sampling = &sampling, .index = (uint32_t)(i * 97)};
    }
    compare_samples(logits, N_VOCAB, 4, requests);
    sampling.top_p = 0.97f;
    compare_samples(logits, N_VOCAB, 4, requests);
    sampling.top_k = 2500;
    compare_samples(logits, N_VOCAB, 4, requests);
}

TEST(bad_logits_fail_their_own_row_alone)
{
    static float logits[5 * N_VOCAB];
    struct sampling sampling = plain_sampling(0.0f), drawing = plain_sampling(1.0f);
    drawing.repetition_penalty = 1.3f;
    drawing.logprobs = true;
    drawing.top_logprobs = 3;
    int32_t prompt[] = {5, 7, 5};
    struct sample_request requests[5];
    for (int32_t i = 0; i < 5; i++) {
        fill_logits(logits + i * N_VOCAB, N_VOCAB, PEAKED);
        requests[i] = (struct sample_request){
            .sampling = i % 2 ? &drawing : &sampling, .prompt = prompt, .n_prompt = 3, .index = 9};
    }
    logits[0 * N_VOCAB + N_VOCAB - 1] = NAN;
    logits[1 * N_VOCAB + 7] = INFINITY;
    for (int32_t i = 0; i < N_VOCAB; i++)
        logits[3 * N_VOCAB + i] = -INFINITY;
    compare_samples(logits, N_VOCAB, 5, requests);
    logits[4 * N_VOCAB + 5] = 900.0f; // ties at the top: the lowest id
    logits[4 * N_VOCAB + 900] = 900.0f;
    compare_samples(logits, N_VOCAB, 5, requests);
}

// Mask of an output that is no longer requested. The others draw as if it had arrived.
TEST(a_mask_that_is_gone_when_the_step_samples_allows_all)
{
    static float logits[3 * N_VOCAB];
    uint32_t few[(N_VOCAB + 31) / 32] = {0};
    struct sampling sampling = plain_sampling(0.0f);
    struct sample_request early[3], late[3];
    struct sample_result got[3], expected[3];
    few[7] = 0x10;
    for (int32_t i = 0; i < 3; i++) {
        fill_logits(logits + i * N_VOCAB, N_VOCAB, PEAKED);
        early[i] = late[i] = (struct sample_request){.sampling = &sampling,
                                                     .allowed = few,
                                                     .n_allowed_words = token_mask_words(N_VOCAB)};
    }
    late[1].allowed = NULL;
    draw_on_cpu(logits, N_VOCAB, 3, late, expected);
    struct matrix *matrix;
    struct backend *backend = backend_open(N_VOCAB, &matrix);
    draw_on_device(backend, matrix, logits, 3, early, late, got);
    assert_same_results(got, expected, 3);
    backend->device.matrix_destroy(backend, matrix);
    backend->device.destroy(backend);
}

TEST(a_row_draws_the_same_alone)
{
    static float logits[N_OUTPUTS * N_VOCAB];
    static struct drawn_settings settings[N_OUTPUTS];
    static struct sample_result together[N_OUTPUTS], alone[N_OUTPUTS];
    struct sample_request requests[N_OUTPUTS];
    for (int32_t i = 0; i < N_OUTPUTS; i++) {
        fill_logits(logits + i * N_VOCAB, N_VOCAB, PEAKED);
        requests[i] = random_request(&settings[i], N_VOCAB, (uint32_t)i);
    }
    struct matrix *matrix;
    struct backend *backend = backend_open(N_VOCAB, &matrix);
    draw_on_device(backend, matrix, logits, N_OUTPUTS, requests, NULL, together);
    for (int32_t i = 0; i < N_OUTPUTS; i += 7)
        draw_on_device(backend, matrix, logits + i * N_VOCAB, 1, &requests[i], NULL, &alone[i]);
    for (int32_t i = 0; i < N_OUTPUTS; i += 7)
        assert_same_results(&alone[i], &together[i], 1);
    backend->device.matrix_destroy(backend, matrix);
    backend->device.destroy(backend);
}

// --- phases of a step (gpu/phases.h) ---

TEST(phases_are_kept_in_their_own_memory_up_to_the_limit)
{
    enum { BESIDE = 4096 };
    struct matrix *matrix;
    struct backend *backend = backend_open(16, &matrix);
    struct device *device = gpu_backend_of(backend)->device;
    struct phases phases = {0};
    struct step_times times = {0};
    char *beside = NULL, expected[BESIDE];
    memset(expected, 0x5A, sizeof expected);
    for (int i = 0; i < PHASES_MAX + 10; i++) {
        phases_mark(&phases, device, i % 2 ? PHASE_PRODUCTS : PHASE_ATTENTION);
        phases_mark(&phases, device, i % 2 ? PHASE_PRODUCTS : PHASE_ATTENTION); // one phase
        if (i == 0) {
            beside = malloc(BESIDE); // likely behind the first ones
            assert_non_null(beside);
            memcpy(beside, expected, BESIDE);
        }
    }
    phases_end(&phases, device);
    assert_int_equal(phases.n, PHASES_MAX);
    assert_memory_equal(beside, expected, BESIDE);
    for (int i = 0; i < phases.n; i++)
        assert_int_equal(phases.kinds[i], i % 2 ? PHASE_PRODUCTS : PHASE_ATTENTION);
    struct error error;
    assert_ok(device_wait(device, &error), &error);
    phases_add(&phases, &times);
    assert_true(times.us[PHASE_ATTENTION] >= 0 && times.us[PHASE_UPLOAD] == 0);
    free(beside);
    phases_finish(&phases, device);
    backend->device.matrix_destroy(backend, matrix);
    backend->device.destroy(backend);
}

int main(void)
{
    if (device_missing())
        return 77;
    return cases_run();
}
