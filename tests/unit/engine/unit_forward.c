// The forward pass as its callers use it: steps without outputs, draws inside a step, a poisoned neighbor,
// and evaluate's errors.
#include "engine/cpu/backend.h"
#include "engine/logits.h"
#include "engine/sampler.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

#include <math.h>

enum { N_VOCAB = 320, PAGE_POSITIONS = 16, N_PAGES = 64, ROWS_MAX = 512, POISON = 17 };

// One model on one backend.
struct forward_bench {
    char directory[64], path[96];
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    uint64_t done_bytes, total_bytes;
    int32_t pages[N_PAGES];
    int32_t n_stored;            // of the next steps' sequence
    int32_t state_in, state_out; // of the next steps' sequence
};

static bool note_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct forward_bench *bench = context;
    assert_true(done_bytes >= bench->done_bytes && done_bytes <= total_bytes);
    bench->done_bytes = done_bytes;
    bench->total_bytes = total_bytes;
    return true;
}

static const struct forward_limits usual_limits = {.n_tokens_max = ROWS_MAX,
                                                   .n_outputs_max = ROWS_MAX,
                                                   .n_sequences_max = 4,
                                                   .page_positions = PAGE_POSITIONS,
                                                   .n_pages = N_PAGES,
                                                   .n_state_slots = 4,
                                                   .kv_type = KV_F16};

static void bench_init(struct forward_bench *bench, const struct model_recipe *recipe)
{
    struct error error = {0};
    *bench = (struct forward_bench){0};
    make_directory(bench->directory);
    snprintf(bench->path, sizeof bench->path, "%s/model.gguf", bench->directory);
    make_model(bench->path, recipe);
    assert_ok(model_open(&bench->model, bench->path, &error), &error);
    assert_ok(pool_create(&bench->pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&bench->backend, bench->pool, CPU_AVX512, &error), &error);
    for (int32_t i = 0; i < N_PAGES; i++)
        bench->pages[i] = i;
}

static void bench_load(struct forward_bench *bench)
{
    struct error error = {0};
    assert_ok(forward_create(&bench->forward, bench->model, bench->backend, &usual_limits, note_progress,
                             bench, &error),
              &error);
}

static void bench_finish(struct forward_bench *bench)
{
    forward_destroy(bench->forward);
    bench->backend->device.destroy(bench->backend);
    pool_destroy(bench->pool);
    model_close(bench->model);
    remove_directory(bench->directory);
}

// One sequence's ids [first, first + n) from the pages that begin at `page`; outputs of the last `n_outputs`
// rows.
static void run_part(struct forward_bench *bench, const int32_t *ids, int32_t first, int32_t n, int32_t page,
                     int32_t n_outputs, float *logits)
{
    struct error error = {0};
    int32_t positions[ROWS_MAX], rows[ROWS_MAX];
    for (int32_t i = 0; i < n; i++)
        positions[i] = first + i;
    for (int32_t i = 0; i < n_outputs; i++)
        rows[i] = n - n_outputs + i;
    struct step_sequence sequence = {.n_tokens = n,
                                     .position = first,
                                     .n_stored = bench->n_stored,
                                     .pages = bench->pages + page,
                                     .state_in = bench->state_in,
                                     .state_out = bench->state_out};
    struct step step = {.n_tokens = n,
                        .tokens = ids + first,
                        .positions = positions,
                        .n_sequences = 1,
                        .sequences = &sequence,
                        .n_outputs = n_outputs,
                        .output_rows = rows};
    assert_ok(forward_step(bench->forward, &step, NULL, logits, &error), &error);
}

TEST(a_prompt_computed_without_outputs_leaves_the_same_pages)
{
    static const char *const families[] = {"llama", "gemma2", "phi2", "qwen2moe", "gpt2", "qwen35"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        struct forward_bench bench;
        int32_t ids[50];
        static float whole[50 * N_VOCAB], last[N_VOCAB];
        for (int i = 0; i < 50; i++)
            ids[i] = (i * 37 + 5) % N_VOCAB;
        bench_init(&bench, &(struct model_recipe){.family = families[f], .seed = 1});
        bench_load(&bench);
        run_part(&bench, ids, 0, 50, 0, 50, whole);
        run_part(&bench, ids, 0, 30, 8, 0, NULL);
        run_part(&bench, ids, 30, 19, 8, 0, NULL);
        run_part(&bench, ids, 49, 1, 8, 1, last);
        assert_memory_equal(last, whole + 49 * N_VOCAB, sizeof last);
        bench_finish(&bench);
    }
}

// A state that is read and not written serves several continuations; so does a copy of it.
TEST(a_state_that_is_kept_serves_every_sequence_that_begins_alike)
{
    enum { N = 40, BRANCH = 25 };
    static const char *const families[] = {"qwen3next",      "qwen35moe",   "lfm2",   "granitehybrid",
                                           "nemotron_h_moe", "falcon-h1",   "mamba2", "jamba",
                                           "mamba",          "olmo_hybrid", "lfm3",   "kimi-linear",
                                           "qwen4_exp"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        struct forward_bench bench;
        int32_t ids[2][N];
        static float whole[N * N_VOCAB], part[N * N_VOCAB];
        for (int i = 0; i < N; i++) {
            ids[0][i] = (i * 37 + 5) % N_VOCAB;
            ids[1][i] = i < BRANCH ? ids[0][i] : (i * 11 + 3) % N_VOCAB;
        }
        bench_init(&bench, &(struct model_recipe){.family = families[f], .seed = 1});
        bench_load(&bench);
        run_part(&bench, ids[0], 0, BRANCH, 0, 0, NULL);
        forward_copy_state(bench.forward, 3, 0);
        for (int turn = 0; turn < 4; turn++) { // each continuation from the kept state, then from its copy
            int branch = turn % 2;
            bench.state_in = turn < 2 ? 0 : 3;
            bench.state_out = 1;
            run_part(&bench, ids[branch], BRANCH, N - BRANCH, 0, N - BRANCH, part);
            bench.state_out = 2;
            run_part(&bench, ids[branch], 0, N, 8, N, whole);
            assert_memory_equal(part, whole + BRANCH * N_VOCAB,
                                (size_t)(N - BRANCH) * N_VOCAB * sizeof *part);
        }
        bench_finish(&bench);
    }
}

TEST(a_device_without_recurrent_states_refuses_models_that_have_them)
{
    struct forward_bench bench;
    struct error error = {0};
    bench_init(&bench, &(struct model_recipe){.family = "qwen35"});
    bench.backend->device.states_create = NULL;
    assert_int_equal(forward_create(&bench.forward, bench.model, bench.backend, &usual_limits, NULL, NULL,
                                    &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "family qwen35 can't be computed on cpu/"));
    assert_non_null(strstr(error.text, "recurrent"));
    bench_finish(&bench);
}

TEST(a_device_without_an_operation_refuses_the_families_that_need_it)
{
    static const char *const families[] = {"apertus", "llama4", "bitnet"};
    for (int i = 0; i < 3; i++) {
        struct forward_bench bench;
        struct error error = {0};
        bench_init(&bench, &(struct model_recipe){.family = families[i]});
        if (i == 0)
            bench.backend->operations.xielu = NULL;
        else if (i == 2)
            bench.backend->operations.computes_all = false;
        else
            bench.backend->operations.weighs_inputs = false;
        assert_int_equal(forward_create(&bench.forward, bench.model, bench.backend, &usual_limits, NULL, NULL,
                                        &error),
                         STATUS_REFUSE);
        assert_non_null(strstr(error.text, "can't be computed on cpu/"));
        assert_non_null(strstr(error.text, families[i]));
        bench_finish(&bench);
    }
}

// As a prompt whose tokens are scored and whose pages others read: the same logits, and no page changes.
TEST(rows_that_are_stored_already_are_computed_and_not_stored)
{
    struct forward_bench bench;
    int32_t ids[50], others[50];
    static float whole[50 * N_VOCAB], again[30 * N_VOCAB], last[N_VOCAB];
    for (int i = 0; i < 50; i++) {
        ids[i] = (i * 37 + 5) % N_VOCAB;
        others[i] = (i * 11 + 3) % N_VOCAB;
    }
    bench_init(&bench, &(struct model_recipe){.seed = 1});
    bench_load(&bench);
    run_part(&bench, ids, 0, 50, 0, 50, whole);
    bench.n_stored = 30;
    run_part(&bench, ids, 0, 30, 0, 30, again);
    assert_memory_equal(again, whole, sizeof again);
    run_part(&bench, others, 0, 30, 0, 30, again);
    bench.n_stored = 0;
    run_part(&bench, ids, 49, 1, 0, 1, last);
    assert_memory_equal(last, whole + 49 * N_VOCAB, sizeof last);
    bench_finish(&bench);
}

TEST(loading_tells_its_progress_up_to_all_bytes)
{
    struct model_recipe recipes[] = {{.seed = 1}, {.seed = 1, .tied = true}};
    for (int i = 0; i < 2; i++) {
        struct forward_bench bench;
        bench_init(&bench, &recipes[i]);
        bench_load(&bench);
        assert_int_equal(bench.total_bytes, model_weight_bytes(bench.model));
        assert_int_equal(bench.done_bytes, bench.total_bytes);
        bench_finish(&bench);
    }
}

static bool stop_half_way(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    ++*(int *)context;
    return done_bytes < total_bytes / 2;
}

TEST(loading_ends_where_progress_says_so)
{
    int n_calls = 0;
    struct forward_bench bench;
    struct error error;
    bench_init(&bench, &(struct model_recipe){.seed = 1});
    assert_int_equal(forward_create(&bench.forward, bench.model, bench.backend, &usual_limits, stop_half_way,
                                    &n_calls, &error),
                     STATUS_RESTART);
    assert_null(bench.forward);
    bench_load(&bench);
    assert_in_range(n_calls, 1, gguf_n_tensors(bench.model->gguf) - 1);
    bench_finish(&bench);
}

TEST(memory_is_counted_before_it_is_allocated)
{
    struct forward_bench bench;
    bench_init(&bench, &(struct model_recipe){.seed = 1});
    // 2 layers x 16 positions x 2 key-value heads x (16 + 16) items; in 16 bits, with the scales of keys and
    // of values
    assert_int_equal(forward_page_bytes(bench.model, bench.backend, 16, KV_F16),
                     2 * 16 * 2 * (32 * 2 + 2 * 4));
    assert_int_equal(forward_page_bytes(bench.model, bench.backend, 16, KV_F32), 2 * 16 * 2 * 32 * 4);
    struct forward_limits limits = {.n_tokens_max = 10, .n_outputs_max = 3};
    // x, normed, branch, q, k, v, heads, gate, up by row; x, normed, heads, logits by output
    uint64_t rows = 10 * (3 * 64 + 64 + 32 + 32 + 64 + 96 + 96), outputs = 3 * (3 * 64 + 320);
    assert_int_equal(forward_matrix_bytes(bench.model, &limits), 4 * (rows + outputs));
    bench_finish(&bench);
}

// Two sequences in one step: `ids` of 8 each, the last rows drawn.
static void run_pair(struct forward_bench *bench, const int32_t ids[2][8], const struct sampling *sampling,
                     struct sample_result results[2], float *logits)
{
    struct error error = {0};
    int32_t tokens[16], positions[16], rows[] = {7, 15};
    struct step_sequence sequences[2];
    struct sample_request requests[2];
    for (int s = 0; s < 2; s++) {
        sequences[s] = (struct step_sequence){.first_row = 8 * s, .n_tokens = 8, .pages = bench->pages + s};
        requests[s] = (struct sample_request){.sampling = sampling, .index = (uint32_t)s};
        for (int i = 0; i < 8; i++) {
            tokens[8 * s + i] = ids[s][i];
            positions[8 * s + i] = i;
        }
    }
    struct step step = {.n_tokens = 16,
                        .tokens = tokens,
                        .positions = positions,
                        .n_sequences = 2,
                        .sequences = sequences,
                        .n_outputs = 2,
                        .output_rows = rows,
                        .samples = logits ? NULL : requests};
    assert_ok(forward_step(bench->forward, &step, results, logits, &error), &error);
}

static const int32_t pair_ids[2][8] = {{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}};

// Of six layers four have keys and values of their own: three with heads of 16, one with heads of 32
// dimensions.
TEST(shared_layers_have_no_pages_and_a_mapped_table_no_memory)
{
    struct forward_bench bench;
    bench_init(&bench, &(struct model_recipe){.family = "gemma4", .seed = 2});
    assert_int_equal(forward_page_bytes(bench.model, bench.backend, 16, KV_F32),
                     16 * 2 * 4 * (3 * (16 + 16) + 32 + 32));
    assert_int_equal(model_mapped_bytes(bench.model), 300 * 6 * 12 * 4);
    assert_int_equal(forward_weight_bytes(bench.model, bench.backend),
                     model_weight_bytes(bench.model) - model_mapped_bytes(bench.model));
    bench_finish(&bench);
}

TEST(a_backend_whose_layers_are_alike_refuses_others_by_name)
{
    struct forward_bench bench;
    struct error error = {0};
    bench_init(&bench, &(struct model_recipe){.family = "gemma3n", .seed = 2});
    bench.backend->operations.set_columns = NULL;
    assert_int_equal(forward_create(&bench.forward, bench.model, bench.backend, &usual_limits, NULL, NULL,
                                    &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "family gemma3n can't be computed on cpu/"));
    bench_finish(&bench);
}

TEST(a_backend_without_sparse_attention_refuses_it_by_name)
{
    struct forward_bench bench;
    struct error error = {0};
    bench_init(&bench, &(struct model_recipe){.family = "deepseek32", .seed = 2});
    bench.backend->operations.select_positions = NULL;
    assert_int_equal(forward_create(&bench.forward, bench.model, bench.backend, &usual_limits, NULL, NULL,
                                    &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "family deepseek32 can't be computed on cpu/"));
    bench_finish(&bench);
}

TEST(a_backend_without_blocks_or_streams_refuses_models_that_need_them_by_name)
{
    static const struct {
        const char *family, *why;
    } cases[] = {{"minimax-m3", "its attention is sparse"}, {"qwen4_exp", "it has several residual streams"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forward_bench bench;
        struct error error = {0};
        bench_init(&bench, &(struct model_recipe){.family = cases[i].family, .seed = 2});
        bench.backend->operations.selects_blocks = false;
        bench.backend->operations.merge_streams = NULL;
        assert_int_equal(forward_create(&bench.forward, bench.model, bench.backend, &usual_limits, NULL, NULL,
                                        &error),
                         STATUS_REFUSE);
        assert_non_null(strstr(error.text, cases[i].why));
        bench_finish(&bench);
    }
}

// Latents of 32 and 8 dimensions, values of 32, and in each of two layers a key of 20 for the indexer, always in
// float32.
TEST(pages_of_sparse_attention_hold_the_indexers_keys)
{
    struct forward_bench bench;
    bench_init(&bench, &(struct model_recipe){.family = "deepseek32", .seed = 2});
    assert_int_equal(forward_page_bytes(bench.model, bench.backend, 16, KV_F32), 16 * 2 * 4 * (40 + 32 + 20));
    assert_int_equal(forward_page_bytes(bench.model, bench.backend, 16, KV_F16),
                     16 * 2 * (2 * (40 + 32) + 2 * 4 + 4 * 20));
    bench_finish(&bench);
}

TEST(a_draw_in_a_step_is_the_samplers_draw_from_its_logits)
{
    struct forward_bench bench;
    struct error error;
    struct sampler *sampler;
    struct sample_result results[2], expected;
    static float logits[2 * N_VOCAB];
    struct sampling sampling = {.temperature = 0.9f,
                                .top_p = 0.9f,
                                .repetition_penalty = 1.0f,
                                .seed = 4,
                                .logprobs = true,
                                .top_logprobs = 3};
    bench_init(&bench, &(struct model_recipe){.seed = 2});
    bench_load(&bench);
    run_pair(&bench, pair_ids, &sampling, NULL, logits);
    run_pair(&bench, pair_ids, &sampling, results, NULL);
    assert_ok(sampler_create(&sampler, N_VOCAB, &error), &error);
    for (int s = 0; s < 2; s++) {
        struct sample_request request = {.sampling = &sampling, .index = (uint32_t)s};
        sampler_draw(sampler, logits + s * N_VOCAB, &request, &expected);
        assert_int_equal(results[s].token, expected.token);
        assert_true(results[s].logprob == expected.logprob);
        assert_int_equal(results[s].n_top, 3);
        assert_int_equal(results[s].top[2].token, expected.top[2].token);
    }
    sampler_destroy(sampler);
    bench_finish(&bench);
}

TEST(a_poisoned_sequence_gets_no_token_and_harms_no_other)
{
    static const char *const families[] = {"llama", "qwen2moe", "gpt2", "phi2"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        struct forward_bench bench;
        struct sample_result results[2];
        static float healthy[2 * N_VOCAB], poisoned[2 * N_VOCAB];
        struct sampling sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f};
        int32_t ids[2][8];
        memcpy(ids, pair_ids, sizeof ids);
        ids[1][3] = POISON;
        bench_init(&bench,
                   &(struct model_recipe){.family = families[f], .seed = 2, .poisoned_token = POISON});
        bench_load(&bench);
        run_pair(&bench, pair_ids, &sampling, NULL, healthy);
        run_pair(&bench, ids, &sampling, NULL, poisoned);
        assert_memory_equal(poisoned, healthy, N_VOCAB * sizeof *healthy);
        assert_true(isnan(poisoned[N_VOCAB]));
        run_pair(&bench, ids, &sampling, results, NULL);
        assert_true(results[0].token >= 0);
        assert_int_equal(results[1].token, -1);
        run_pair(&bench, pair_ids, &sampling, NULL, poisoned); // and nothing stays behind
        assert_memory_equal(poisoned, healthy, sizeof healthy);
        bench_finish(&bench);
    }
}

// Two sequences of the same ids in one step; which of them have long_context.
static void run_contexts(struct forward_bench *bench, const bool lengthened[2], float logits[2 * N_VOCAB])
{
    struct error error = {0};
    int32_t tokens[16], positions[16], rows[] = {7, 15};
    struct step_sequence sequences[2];
    for (int i = 0; i < 16; i++) {
        tokens[i] = pair_ids[0][i % 8];
        positions[i] = i % 8;
    }
    for (int s = 0; s < 2; s++)
        sequences[s] = (struct step_sequence){
            .first_row = 8 * s, .n_tokens = 8, .pages = bench->pages + s, .long_context = lengthened[s]};
    struct step step = {.n_tokens = 16,
                        .tokens = tokens,
                        .positions = positions,
                        .n_sequences = 2,
                        .sequences = sequences,
                        .n_outputs = 2,
                        .output_rows = rows};
    assert_ok(forward_step(bench->forward, &step, NULL, logits, &error), &error);
}

TEST(rope_factors_of_a_long_context_are_those_of_its_sequence_alone)
{
    struct forward_bench bench;
    static float logits[2][2][2 * N_VOCAB];
    size_t bytes = N_VOCAB * sizeof(float);
    bench_init(&bench, &(struct model_recipe){.family = "phi3", .seed = 3, .larger = true});
    bench_load(&bench);
    for (int first = 0; first < 2; first++)
        for (int second = 0; second < 2; second++)
            run_contexts(&bench, (bool[]){first, second}, logits[first][second]);
    assert_memory_not_equal(logits[0][0], logits[1][1], bytes);
    for (int other = 0; other < 2; other++)
        for (int own = 0; own < 2; own++) {
            assert_memory_equal(logits[own][other], logits[own][own], bytes);
            assert_memory_equal(logits[other][own] + N_VOCAB, logits[own][own], bytes);
        }
    bench_finish(&bench);
}

TEST(evaluate_cuts_long_texts_without_a_trace)
{
    enum { LONG = LOGITS_CHUNK_TOKENS + 44 };
    static float whole[LONG * N_VOCAB], part[LOGITS_CHUNK_TOKENS * N_VOCAB];
    struct forward_bench bench;
    struct error error = {0};
    int32_t ids[LONG];
    for (int i = 0; i < LONG; i++)
        ids[i] = (i * 53 + 1) % N_VOCAB;
    struct model_recipe recipe = {.seed = 6, .n_layers = 1, .n_context = LONG};
    bench_init(&bench, &recipe);
    assert_ok(logits_of_text(bench.model, bench.backend, KV_F32, ids, LONG, whole, &error), &error);
    bench_finish(&bench);
    bench_init(&bench, &recipe);
    assert_ok(logits_of_text(bench.model, bench.backend, KV_F32, ids, LOGITS_CHUNK_TOKENS - 3, part, &error),
              &error);
    assert_memory_equal(part, whole, (LOGITS_CHUNK_TOKENS - 3) * N_VOCAB * sizeof *part);
    bench_finish(&bench);
}

TEST(evaluate_rejects_what_does_not_fit_the_model)
{
    static float logits[8 * N_VOCAB];
    struct forward_bench bench;
    struct error error = {0};
    int32_t ids[9] = {0};
    bench_init(&bench, &(struct model_recipe){.seed = 6, .n_context = 8});
    assert_int_equal(logits_of_text(bench.model, bench.backend, KV_F32, ids, 0, logits, &error),
                     STATUS_REJECT);
    assert_int_equal(error.code, ERROR_EMPTY_PROMPT);
    assert_int_equal(logits_of_text(bench.model, bench.backend, KV_F32, ids, 9, logits, &error),
                     STATUS_REJECT);
    assert_int_equal(error.code, ERROR_CONTEXT_LENGTH);
    assert_string_equal(error.text, "9 tokens: the model's context has 8");
    ids[3] = N_VOCAB;
    assert_int_equal(logits_of_text(bench.model, bench.backend, KV_F32, ids, 8, logits, &error),
                     STATUS_REJECT);
    assert_int_equal(error.code, ERROR_TOKEN_RANGE);
    assert_string_equal(error.text, "token 320 at 3: the vocabulary has 320");
    ids[3] = -1;
    assert_int_equal(logits_of_text(bench.model, bench.backend, KV_F32, ids, 8, logits, &error),
                     STATUS_REJECT);
    ids[3] = N_VOCAB - 1;
    assert_ok(logits_of_text(bench.model, bench.backend, KV_F32, ids, 8, logits, &error), &error);
    bench_finish(&bench);
}
