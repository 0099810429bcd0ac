#include "engine/philox.h"
#include "engine/sampler.h"
#include "tests/support/cases.h"

#include <float.h>
#include <math.h>

enum { N_WIDE = 1000 };

static struct sampling plain_sampling(float temperature)
{
    return (
        struct sampling){.temperature = temperature, .top_p = 1.0f, .repetition_penalty = 1.0f, .seed = 42};
}

// One draw from a copy of the logits with its own sampler.
static struct sample_result draw_result(const float *logits, int32_t n, const struct sample_request *request)
{
    struct sampler *sampler;
    struct error error;
    assert_ok(sampler_create(&sampler, n, &error), &error);
    float *copy = malloc((size_t)n * sizeof *copy);
    memcpy(copy, logits, (size_t)n * sizeof *copy);
    struct sample_result result;
    sampler_draw(sampler, copy, request, &result);
    free(copy);
    sampler_destroy(sampler);
    return result;
}

static int32_t draw_token(const float *logits, int32_t n, const struct sampling *sampling, uint32_t index)
{
    struct sample_request request = {.sampling = sampling, .index = index};
    return draw_result(logits, n, &request).token;
}

static void draw_many(const float *logits, int32_t n, const struct sampling *sampling, int n_draws,
                      int *counts)
{
    struct sampler *sampler;
    struct error error;
    assert_ok(sampler_create(&sampler, n, &error), &error);
    float copy[N_WIDE];
    for (int i = 0; i < n; i++)
        counts[i] = 0;
    for (int i = 0; i < n_draws; i++) {
        struct sample_request request = {.sampling = sampling, .index = (uint32_t)i};
        struct sample_result result;
        memcpy(copy, logits, (size_t)n * sizeof *copy);
        sampler_draw(sampler, copy, &request, &result);
        assert_in_range(result.token, 0, n - 1);
        counts[result.token]++;
    }
    sampler_destroy(sampler);
}

static void make_logits(float *logits, int32_t n, uint64_t seed)
{
    for (int32_t i = 0; i < n; i++)
        logits[i] =
            (float)(philox_uniform(philox4x32((struct philox){{(uint32_t)i, 7, 7, 7}}, seed)) * 10.0 - 5.0);
}

static void set_allowed(uint32_t *mask, const int32_t *tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        mask[tokens[i] / 32] |= 1u << tokens[i] % 32;
}

// The distribution over the allowed tokens, as if the others were not in the vocabulary.
TEST(only_allowed_tokens_are_drawn_and_share_all_probability)
{
    static const int32_t tokens[] = {3, 31, 32, 64, 69};
    enum { N = 70, N_TOKENS = sizeof tokens / sizeof *tokens };
    struct sampling sampling = {
        .temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f, .logprobs = true, .top_logprobs = 20};
    uint32_t mask[(N + 31) / 32] = {0};
    float logits[N], few[N_TOKENS];
    make_logits(logits, N, 11);
    logits[5] = NAN; // of no allowed token
    set_allowed(mask, tokens, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++)
        few[i] = logits[tokens[i]];
    for (uint32_t index = 0; index < 200; index++) {
        float copy[N], few_copy[N_TOKENS];
        sampling.temperature = index % 3 ? 1.0f : 0.0f;
        sampling.n_logit_bias = index % 2;
        // a token that is not allowed, in both vocabularies
        sampling.logit_bias = &(struct logit_bias){4, 90.0f};
        memcpy(copy, logits, sizeof copy);
        memcpy(few_copy, few, sizeof few_copy);
        struct sample_request request = {
            .sampling = &sampling, .index = index, .allowed = mask, .n_allowed_words = token_mask_words(N)};
        struct sample_result got = draw_result(copy, N, &request);
        struct sampling alone = sampling;
        alone.n_logit_bias = 0;
        struct sample_result expected =
            draw_result(few_copy, N_TOKENS, &(struct sample_request){.sampling = &alone, .index = index});
        assert_int_equal(got.token, tokens[expected.token]);
        assert_memory_equal(&got.logprob, &expected.logprob, sizeof(float));
        assert_int_equal(got.n_top, N_TOKENS);
        for (int i = 0; i < N_TOKENS; i++)
            assert_int_equal(got.top[i].token, tokens[expected.top[i].token]);
    }
}

TEST(philox_gives_the_published_words)
{
    // Known answers of the paper's implementation, Random123.
    struct philox words = philox4x32((struct philox){{0, 0, 0, 0}}, 0);
    const uint32_t zeros[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(words.words, zeros, sizeof zeros);
    words = philox4x32((struct philox){{~0u, ~0u, ~0u, ~0u}}, ~0ull);
    const uint32_t ones[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(words.words, ones, sizeof ones);
    words =
        philox4x32((struct philox){{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822ull);
    const uint32_t pi[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(words.words, pi, sizeof pi);
}

TEST(greedy_takes_the_largest_and_of_equals_the_lowest_id)
{
    struct sampling greedy = plain_sampling(0.0f);
    float logits[40] = {0};
    for (int i = 0; i < 40; i++)
        logits[i] = -1.0f;
    logits[33] = logits[18] = logits[39] = 2.0f;
    assert_int_equal(draw_token(logits, 40, &greedy, 0), 18);
    logits[39] = nextafterf(2.0f, 3.0f);
    assert_int_equal(draw_token(logits, 40, &greedy, 0), 39);
    float zeros[] = {-0.0f, 0.0f};
    assert_int_equal(draw_token(zeros, 2, &greedy, 0), 0);
}

TEST(logits_that_are_no_numbers_give_no_token)
{
    struct sampling samplings[] = {plain_sampling(0.0f), plain_sampling(1.0f)};
    for (int s = 0; s < 2; s++)
        for (int at = 0; at < 40; at++) {
            float logits[40] = {0};
            logits[at] = NAN;
            assert_int_equal(draw_token(logits, 40, &samplings[s], 0), -1);
            logits[at] = INFINITY;
            assert_int_equal(draw_token(logits, 40, &samplings[s], 0), -1);
            logits[at] = FLT_MAX;
            assert_int_equal(draw_token(logits, 40, &samplings[s], 0), at);
        }
    float nothing[] = {-INFINITY, -INFINITY, -INFINITY};
    assert_int_equal(draw_token(nothing, 3, &samplings[0], 0), -1);
    assert_int_equal(draw_token(nothing, 3, &samplings[1], 0), -1);
    nothing[1] = -FLT_MAX;
    assert_int_equal(draw_token(nothing, 3, &samplings[0], 0), 1);
    assert_int_equal(draw_token(nothing, 3, &samplings[1], 0), 1);
}

TEST(a_draw_depends_on_seed_choice_and_index_alone)
{
    float logits[N_WIDE];
    make_logits(logits, N_WIDE, 1);
    struct sampling sampling = plain_sampling(1.0f), other = plain_sampling(1.0f);
    other.seed = 43;
    int same_seed = 0, same_choice = 0, same_index = 0;
    for (uint32_t i = 0; i < 100; i++) {
        struct sample_request request = {.sampling = &sampling, .index = i};
        int32_t token = draw_result(logits, N_WIDE, &request).token;
        assert_int_equal(draw_result(logits, N_WIDE, &request).token, token);
        same_seed += draw_token(logits, N_WIDE, &other, i) == token;
        request.choice = 1;
        same_choice += draw_result(logits, N_WIDE, &request).token == token;
        same_index += draw_token(logits, N_WIDE, &sampling, i + 100) == token;
    }
    assert_true(same_seed < 10 && same_choice < 10 && same_index < 10);
}

TEST(draws_are_those_of_every_other_machine)
{
    float logits[N_WIDE];
    make_logits(logits, N_WIDE, 2);
    struct sampling sampling = plain_sampling(0.8f);
    sampling.top_p = 0.95f;
    static const int32_t expected[12] = {819, 992, 762, 456, 698, 531, 22, 417, 169, 478, 147, 698};
    int32_t tokens[12];
    for (uint32_t i = 0; i < 12; i++)
        tokens[i] = draw_token(logits, N_WIDE, &sampling, i);
    assert_memory_equal(tokens, expected, sizeof tokens);
}

// Chi-squared of n_draws draws against the probabilities.
static double chi_squared(const int *counts, const double *probabilities, int n, int n_draws)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        double expected = probabilities[i] * n_draws;
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

TEST(tokens_come_as_often_as_their_probability)
{
    double probabilities[] = {0.05, 0.5, 0.15, 0.3};
    float logits[4];
    int counts[4];
    for (int i = 0; i < 4; i++)
        logits[i] = (float)log(probabilities[i]);
    struct sampling sampling = plain_sampling(1.0f);
    draw_many(logits, 4, &sampling, 40000, counts);
    assert_true(chi_squared(counts, probabilities, 4, 40000) < 16.27); // 3 degrees of freedom, 1 in 1000
    // Temperature 0.5 squares the probabilities, 2 takes their roots.
    double squares[] = {0.0025 / 0.365, 0.25 / 0.365, 0.0225 / 0.365, 0.09 / 0.365};
    sampling.temperature = 0.5f;
    draw_many(logits, 4, &sampling, 40000, counts);
    assert_true(chi_squared(counts, squares, 4, 40000) < 16.27);
    double roots[4], sum = 0.0;
    for (int i = 0; i < 4; i++)
        sum += roots[i] = sqrt(probabilities[i]);
    for (int i = 0; i < 4; i++)
        roots[i] /= sum;
    sampling.temperature = 2.0f;
    draw_many(logits, 4, &sampling, 40000, counts);
    assert_true(chi_squared(counts, roots, 4, 40000) < 16.27);
    sampling.temperature = FLT_MIN;
    draw_many(logits, 4, &sampling, 100, counts);
    assert_int_equal(counts[1], 100);
}

// Set of tokens that can be sampled from 4 with probabilities 0.05, 0.5, 0.15, 0.3, as bits.
static int drawn_token(const struct sampling *sampling)
{
    float logits[] = {logf(0.05f), logf(0.5f), logf(0.15f), logf(0.3f)};
    int counts[4], bits = 0;
    draw_many(logits, 4, sampling, 2000, counts);
    for (int i = 0; i < 4; i++)
        bits |= (counts[i] > 0) << i;
    return bits;
}

TEST(top_k_keeps_the_k_best)
{
    struct sampling sampling = plain_sampling(1.0f);
    const int kept[] = {15, 2, 10, 14, 15, 15};
    for (int k = 0; k < 6; k++) {
        sampling.top_k = k; // 0: off
        assert_int_equal(drawn_token(&sampling), kept[k]);
    }
    sampling.top_k = JOB_TOP_K_MAX;
    assert_int_equal(drawn_token(&sampling), 15);
}

TEST(of_equals_at_the_edge_of_top_k_the_lower_ids_stay)
{
    float logits[100];
    int counts[100];
    for (int i = 0; i < 100; i++)
        logits[i] = i == 50 ? 1.0f : 0.0f;
    struct sampling sampling = plain_sampling(1.0f);
    sampling.top_k = 4;
    draw_many(logits, 100, &sampling, 2000, counts);
    for (int i = 0; i < 100; i++)
        assert_int_equal(counts[i] > 0, i < 3 || i == 50);
}

TEST(top_p_keeps_the_fewest_that_reach_it)
{
    struct sampling sampling = plain_sampling(1.0f);
    static const struct {
        float top_p;
        int kept;
    } cases[] = {{1e-30f, 2},  {0.499f, 2},  {0.501f, 10}, {0.799f, 10},
                 {0.801f, 14}, {0.951f, 15}, {1.0f, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sampling.top_p = cases[i].top_p;
        assert_int_equal(drawn_token(&sampling), cases[i].kept);
    }
}

// Weights of less than 2^-53 are lost where each is added to a 1, and are not where they are added up before: so the
// total is above 2, and half of it above the first token's weight, in 1,024 lanes and no smaller power of 2.
TEST(the_sum_of_weights_has_1024_lanes)
{
    enum { N = 8192 };
    static float logits[N];
    struct sampling sampling = plain_sampling(1.0f);
    int n_second = 0;
    sampling.top_p = 0.5f;
    for (int i = 0; i < N; i++)
        logits[i] = i < 2 ? 0.0f : i % 1024 == 512 ? -36.75f : -INFINITY;
    for (uint32_t i = 0; i < 50; i++)
        n_second += draw_token(logits, N, &sampling, i) == 1;
    assert_in_range(n_second, 10, 40);
}

TEST(min_p_drops_what_is_too_far_below_the_best)
{
    struct sampling sampling = plain_sampling(1.0f);
    static const struct {
        float min_p;
        int kept;
    } cases[] = {{0.0f, 15},   {0.099f, 15}, {0.101f, 14}, {0.299f, 14},
                 {0.301f, 10}, {0.599f, 10}, {0.601f, 2},  {1.0f, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sampling.min_p = cases[i].min_p;
        assert_int_equal(drawn_token(&sampling), cases[i].kept);
    }
}

TEST(min_p_keeps_all_that_are_as_likely_as_the_best)
{
    float logits[] = {2.0f, 1.0f, 2.0f, nextafterf(2.0f, 0.0f), 2.0f};
    int counts[5];
    struct sampling sampling = plain_sampling(0x1p-20f); // the next smaller number is far below
    sampling.min_p = 1.0f;
    draw_many(logits, 5, &sampling, 2000, counts);
    for (int i = 0; i < 5; i++)
        assert_int_equal(counts[i] > 0, logits[i] == 2.0f);
}

TEST(top_p_counts_what_top_k_left)
{
    struct sampling sampling = plain_sampling(1.0f);
    sampling.top_k = 2; // 0.625, 0.375
    sampling.top_p = 0.62f;
    assert_int_equal(drawn_token(&sampling), 2);
    sampling.top_p = 0.63f;
    assert_int_equal(drawn_token(&sampling), 10);
}

// --- A sampler that sorts everything, in double precision ---

static const float *sort_logits;

static int compare_tokens(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    if (sort_logits[left] != sort_logits[right])
        return sort_logits[left] > sort_logits[right] ? -1 : 1;
    return left - right;
}

static int32_t draw_by_sorting(const float *logits, int32_t n, const struct sampling *s, uint32_t index)
{
    static int32_t order[N_WIDE];
    static double weights[N_WIDE];
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    sort_logits = logits;
    qsort(order, (size_t)n, sizeof *order, compare_tokens);
    double total = 0.0, sum = 0.0, best = (double)logits[order[0]];
    int32_t kept = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    for (int32_t i = 0; i < kept; i++)
        total += weights[i] = exp(((double)logits[order[i]] - best) / (double)s->temperature);
    int32_t i = 0;
    for (; i < kept && (i == 0 || s->top_p >= 1.0f || sum < (double)s->top_p * total); i++) {
        if (weights[i] < (double)s->min_p)
            break;
        sum += weights[i];
    }
    kept = i;
    double target = philox_uniform(philox4x32((struct philox){{index, 0, 0, 0}}, s->seed)) * sum;
    sum = 0.0;
    for (i = 0; i < kept - 1; i++) {
        sum += weights[i];
        if (sum > target)
            break;
    }
    return order[i];
}

TEST(partial_sorting_draws_what_full_sorting_draws)
{
    float logits[N_WIDE];
    for (uint32_t i = 0; i < 3000; i++) {
        struct philox random = philox4x32((struct philox){{i, 0, 0, 1}}, 5);
        struct sampling sampling = plain_sampling(0.1f + (float)(random.words[0] % 20) / 10.0f);
        int32_t n = 1 + (int32_t)(random.words[1] % N_WIDE);
        sampling.top_k = random.words[2] % 3 ? 0 : (int32_t)(random.words[2] % 200);
        sampling.top_p = random.words[3] % 2 ? 1.0f : (float)(1 + random.words[3] % 100) / 101.0f;
        sampling.min_p = random.words[1] % 4 ? 0.0f : (float)(random.words[0] % 50) / 300.0f;
        make_logits(logits, n, i);
        assert_int_equal(draw_token(logits, n, &sampling, i), draw_by_sorting(logits, n, &sampling, i));
    }
}

// --- Bias and penalties ---

TEST(logit_bias_adds_to_the_logit)
{
    struct sampling greedy = plain_sampling(0.0f);
    float logits[] = {1.0f, 2.0f, 3.0f, -INFINITY};
    struct logit_bias biases[] = {{0, 2.5f}, {3, 100.0f}};
    greedy.logit_bias = biases;
    greedy.n_logit_bias = 2;
    assert_int_equal(draw_token(logits, 4, &greedy, 0), 0); // and what can't come stays impossible
    biases[0] = (struct logit_bias){2, -100.0f};
    assert_int_equal(draw_token(logits, 4, &greedy, 0), 1);
    float extremes[] = {FLT_MAX, -FLT_MAX};
    biases[0] = (struct logit_bias){1, -100.0f};
    greedy.n_logit_bias = 1;
    assert_int_equal(draw_token(extremes, 2, &greedy, 0), 0);
}

// The logprobs after penalties can't be seen, so: the bias that makes a token just win or lose against
// another gives its logit.
static void assert_logit(const float *logits, const struct sample_request *request, int32_t token,
                         float expected)
{
    struct sampling sampling = *request->sampling;
    float with[9];
    memcpy(with, logits, 8 * sizeof *with);
    struct sample_request probe = *request;
    probe.sampling = &sampling;
    for (int i = 0; i < 8; i++)
        with[i] = i == token ? logits[i] : -INFINITY;
    with[8] = expected + 1e-4f;
    assert_int_equal(draw_result(with, 9, &probe).token, 8);
    with[8] = expected - 1e-4f;
    assert_int_equal(draw_result(with, 9, &probe).token, token);
}

TEST(penalties_count_prompt_and_generated_tokens_as_documented)
{
    struct sampling sampling = plain_sampling(0.0f);
    sampling.repetition_penalty = 2.0f;
    sampling.presence_penalty = 0.5f;
    sampling.frequency_penalty = 0.25f;
    const float logits[8] = {4.0f, 4.0f, 4.0f, -3.0f, -3.0f, 0.0f, 4.0f, 1.0f};
    const int32_t prompt[] = {0, 3, 0, 6}, generated[] = {1, 4, 1, 1, 6};
    struct sample_request request = {
        .sampling = &sampling, .prompt = prompt, .n_prompt = 4, .generated = generated, .n_generated = 5};
    assert_logit(logits, &request, 0, 2.0f);                    // prompt twice: halved once
    assert_logit(logits, &request, 1, 2.0f - 0.5f - 3 * 0.25f); // generated three times
    assert_logit(logits, &request, 2, 4.0f);                    // never seen
    assert_logit(logits, &request, 3, -6.0f);                   // negative: doubled
    assert_logit(logits, &request, 4, -6.0f - 0.5f - 0.25f);
    assert_logit(logits, &request, 6, 2.0f - 0.5f - 0.25f); // in both: the repetition penalty once
    sampling.presence_penalty = -2.0f;
    assert_logit(logits, &request, 1, 2.0f + 2.0f - 0.75f);
}

TEST(extreme_penalties_leave_finite_logits)
{
    struct sampling sampling = plain_sampling(0.0f);
    sampling.repetition_penalty = 1e-30f;
    float logits[] = {1e30f, 2e30f, -1e30f};
    const int32_t prompt[] = {0, 2};
    struct sample_request request = {.sampling = &sampling, .prompt = prompt, .n_prompt = 2};
    assert_int_equal(draw_result(logits, 3, &request).token, 0);
    sampling.temperature = 1.0f;
    assert_int_equal(draw_result(logits, 3, &request).token, 0);
}

TEST(a_penalised_draw_leaves_nothing_behind)
{
    struct sampler *sampler;
    struct error error;
    assert_ok(sampler_create(&sampler, N_WIDE, &error), &error);
    struct sampling penalised = plain_sampling(1.0f), other = plain_sampling(1.0f);
    penalised.repetition_penalty = 3.0f;
    penalised.frequency_penalty = 1.0f;
    other.repetition_penalty = 1.5f;
    int32_t seen[100], one = 7;
    for (int i = 0; i < 100; i++)
        seen[i] = i * 3;
    for (uint32_t i = 0; i < 50; i++) {
        float logits[N_WIDE], copy[N_WIDE];
        make_logits(logits, N_WIDE, i);
        struct sample_request request = {.sampling = &penalised,
                                         .index = i,
                                         .prompt = seen,
                                         .n_prompt = 100,
                                         .generated = seen,
                                         .n_generated = 50};
        struct sample_result result;
        memcpy(copy, logits, sizeof copy);
        sampler_draw(sampler, copy, &request, &result);
        assert_int_equal(result.token, draw_result(logits, N_WIDE, &request).token);
        request = (struct sample_request){.sampling = &other, .index = i, .prompt = &one, .n_prompt = 1};
        memcpy(copy, logits, sizeof copy);
        sampler_draw(sampler, copy, &request, &result);
        assert_int_equal(result.token, draw_result(logits, N_WIDE, &request).token);
    }
    sampler_destroy(sampler);
}

// --- Logprobs ---

TEST(logprobs_are_those_before_temperature_bias_and_filters)
{
    const double probabilities[] = {0.1, 0.4, 0.3, 0.15, 0.05};
    float logits[5];
    for (int i = 0; i < 5; i++)
        logits[i] = (float)log(probabilities[i]) + 3.0f;
    struct logit_bias bias = {4, 50.0f};
    const int32_t generated[] = {1, 2};
    struct sampling sampling = plain_sampling(0.3f);
    sampling.top_k = 1;
    sampling.logit_bias = &bias;
    sampling.n_logit_bias = 1;
    sampling.frequency_penalty = 1.0f;
    sampling.logprobs = true;
    sampling.top_logprobs = 3;
    struct sample_request request = {.sampling = &sampling, .generated = generated, .n_generated = 2};
    struct sample_result result = draw_result(logits, 5, &request);
    assert_int_equal(result.token, 4);
    assert_true(fabs((double)result.logprob - log(0.05)) < 1e-6);
    assert_int_equal(result.n_top, 3);
    const int32_t best[] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(result.top[i].token, best[i]);
        assert_true(fabs((double)result.top[i].logprob - log(probabilities[best[i]])) < 1e-6);
    }
}

TEST(top_logprobs_stop_at_the_vocabulary_and_order_equals_by_id)
{
    struct sampling sampling = plain_sampling(0.0f);
    sampling.logprobs = true;
    sampling.top_logprobs = JOB_TOP_LOGPROBS_MAX;
    float logits[30];
    for (int i = 0; i < 30; i++)
        logits[i] = 0.0f;
    struct sample_request request = {.sampling = &sampling};
    struct sample_result result = draw_result(logits, 30, &request);
    assert_int_equal(result.n_top, JOB_TOP_LOGPROBS_MAX);
    for (int i = 0; i < JOB_TOP_LOGPROBS_MAX; i++) {
        assert_int_equal(result.top[i].token, i);
        assert_true(fabs((double)result.top[i].logprob + log(30.0)) < 1e-6);
    }
    result = draw_result(logits, 3, &request);
    assert_int_equal(result.n_top, 3);
    sampling.top_logprobs = 0;
    result = draw_result(logits, 3, &request);
    assert_int_equal(result.n_top, 0);
    assert_true(fabs((double)result.logprob + log(3.0)) < 1e-6);
}
