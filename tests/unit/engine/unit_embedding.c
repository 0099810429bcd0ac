// Embeddings: what the output weight makes of hidden states are the logits, what pooling makes of them, and the
// same bytes in steps of any size, whatever other texts they hold.
#include "engine/cpu/backend.h"
#include "engine/embedding.h"
#include "engine/logits.h"
#include "tests/support/cases.h"
#include "tests/support/open_model.h"

#include <math.h>

enum { N_VOCAB = 320, N_EMBD = 64, PAGE_POSITIONS = 16, LONGEST = 90, N_TEXTS = 7 };

// One model; each forward pass has its own backend.
struct embedding_bench {
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct embedder *embedder;
};

static int32_t ids[N_TEXTS][LONGEST];
static const int32_t lengths[N_TEXTS] = {5, 1, LONGEST, 17, 33, 16, 2};
static struct error error;

static void embedding_bench_open(struct embedding_bench *bench, const struct model_recipe *recipe)
{
    *bench = (struct embedding_bench){.model = open_model_of(recipe)};
    assert_ok(pool_create(&bench->pool, 2, &error), &error);
    for (int32_t t = 0; t < N_TEXTS; t++)
        for (int32_t i = 0; i < LONGEST; i++)
            ids[t][i] = (i * 37 + 5 + 11 * t) % N_VOCAB;
}

static void embedder_close(struct embedding_bench *bench)
{
    embedder_destroy(bench->embedder);
    forward_destroy(bench->forward);
    if (bench->backend)
        bench->backend->device.destroy(bench->backend);
    bench->embedder = NULL;
    bench->forward = NULL;
    bench->backend = NULL;
}

static void embedding_bench_close(struct embedding_bench *bench)
{
    embedder_close(bench);
    pool_destroy(bench->pool);
    model_close(bench->model);
}

static void embedder_open(struct embedding_bench *bench, int32_t n_rows, int32_t n_sequences,
                          struct embedder_options options)
{
    struct forward_limits limits = {.n_tokens_max = n_rows,
                                    .n_outputs_max = n_rows,
                                    .n_sequences_max = n_sequences,
                                    .page_positions = PAGE_POSITIONS,
                                    .kv_type = KV_F32,
                                    .hidden_only = true};
    embedder_close(bench);
    limits.n_pages = (int32_t)embedder_pages(&limits, LONGEST);
    assert_true(embedder_longest(&limits, bench->model) >= LONGEST);
    assert_ok(cpu_backend_create(&bench->backend, bench->pool, CPU_AVX512, &error), &error);
    assert_ok(forward_create(&bench->forward, bench->model, bench->backend, &limits, NULL, NULL, &error),
              &error);
    options.model = bench->model;
    options.forward = bench->forward;
    options.limits = limits;
    options.n_longest = LONGEST;
    if (!options.n_dimensions)
        options.n_dimensions = N_EMBD;
    assert_ok(embedder_create(&bench->embedder, &options, &error), &error);
}

// [N_TEXTS, N_EMBD] of the texts in one call.
static void embed_texts(struct embedding_bench *bench, float *vectors)
{
    struct embedding_text texts[N_TEXTS];
    for (int32_t t = 0; t < N_TEXTS; t++)
        texts[t] = (struct embedding_text){ids[t], lengths[t]};
    assert_ok(embedder_compute(bench->embedder, texts, N_TEXTS, vectors, &error), &error);
}

// The vector of a text's first n tokens.
static void embed_start(struct embedding_bench *bench, int32_t text, int32_t n, float *vector)
{
    struct embedding_text start = {ids[text], n};
    assert_ok(embedder_compute(bench->embedder, &start, 1, vector, &error), &error);
}

TEST(the_output_weight_makes_logits_of_hidden_states)
{
    static const char *const families[] = {"llama", "qwen3", "qwen2moe", "phi2",
                                           "gpt2",  "gemma", "deepseek2"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        struct embedding_bench bench;
        static float logits[LONGEST * N_VOCAB], weights[N_VOCAB * N_EMBD];
        float vector[N_EMBD];
        embedding_bench_open(&bench, &(struct model_recipe){.family = families[f], .seed = 3});
        assert_ok(cpu_backend_create(&bench.backend, bench.pool, CPU_AVX512, &error), &error);
        assert_ok(logits_of_text(bench.model, bench.backend, KV_F32, ids[0], lengths[0], logits, &error),
                  &error);
        const struct tensor *output = &bench.model->output, *bias = &bench.model->output_bias;
        assert_int_equal(output->type, TENSOR_F32);
        memcpy(weights, output->data, sizeof weights);
        embedder_open(&bench, 16, 2, (struct embedder_options){.pooling = POOLING_LAST});
        for (int32_t n = 1; n <= lengths[0]; n++) {
            embed_start(&bench, 0, n, vector);
            for (int32_t v = 0; v < N_VOCAB; v++) {
                double sum = bias->data ? ((const float *)bias->data)[v] : 0;
                for (int32_t i = 0; i < N_EMBD; i++)
                    sum += (double)weights[v * N_EMBD + i] * vector[i];
                double expected = logits[(n - 1) * N_VOCAB + v];
                assert_true(fabs(sum - expected) <= 1e-4 * (1 + fabs(expected)));
            }
        }
        embedding_bench_close(&bench);
    }
}

TEST(pooling_takes_the_last_the_first_or_the_mean)
{
    struct embedding_bench bench;
    static float last[LONGEST + 1][N_EMBD], pooled[N_TEXTS * N_EMBD];
    enum { TEXT = 2 };
    embedding_bench_open(&bench, &(struct model_recipe){.seed = 4});
    embedder_open(&bench, 16, 4, (struct embedder_options){.pooling = POOLING_LAST});
    for (int32_t n = 1; n <= lengths[TEXT]; n++)
        embed_start(&bench, TEXT, n, last[n]);
    embed_texts(&bench, pooled);
    assert_memory_equal(pooled + TEXT * N_EMBD, last[LONGEST], sizeof last[0]);
    embedder_open(&bench, 16, 4, (struct embedder_options){.pooling = POOLING_FIRST});
    embed_texts(&bench, pooled);
    assert_memory_equal(pooled + TEXT * N_EMBD, last[1], sizeof last[0]);
    embedder_open(&bench, 16, 4, (struct embedder_options){.pooling = POOLING_MEAN});
    embed_texts(&bench, pooled);
    for (int32_t i = 0; i < N_EMBD; i++) {
        double sum = 0;
        for (int32_t n = 1; n <= LONGEST; n++)
            sum += last[n][i];
        assert_true(pooled[TEXT * N_EMBD + i] == (float)(sum * (1.0 / LONGEST)));
    }
    embedding_bench_close(&bench);
}

TEST(a_vector_is_cut_then_normalized)
{
    struct embedding_bench bench;
    static float whole[N_TEXTS * N_EMBD], cut[N_TEXTS * 5];
    embedding_bench_open(&bench, &(struct model_recipe){.seed = 4});
    embedder_open(&bench, 64, 4, (struct embedder_options){.pooling = POOLING_LAST});
    embed_texts(&bench, whole);
    embedder_open(&bench, 64, 4,
                  (struct embedder_options){.pooling = POOLING_LAST, .normalize = true, .n_dimensions = 5});
    embed_texts(&bench, cut);
    for (int32_t t = 0; t < N_TEXTS; t++) {
        double square = 0, length = 0;
        for (int32_t i = 0; i < 5; i++) {
            square += (double)whole[t * N_EMBD + i] * whole[t * N_EMBD + i];
            length += (double)cut[t * 5 + i] * cut[t * 5 + i];
        }
        assert_true(fabs(length - 1) < 1e-6);
        for (int32_t i = 0; i < 5; i++)
            assert_true(fabs(cut[t * 5 + i] - whole[t * N_EMBD + i] / sqrt(square)) < 1e-6);
    }
    embedding_bench_close(&bench);
}

TEST(each_text_has_its_own_dimensions_to_the_bytes_of_an_embedder_with_these)
{
    struct embedding_bench bench;
    static float expected[N_TEXTS * 5], vectors[N_TEXTS * N_EMBD], whole[N_TEXTS * N_EMBD];
    struct embedding_text texts[N_TEXTS];
    struct embedder_options options = {.pooling = POOLING_MEAN, .normalize = true};
    embedding_bench_open(&bench, &(struct model_recipe){.seed = 4});
    embedder_open(&bench, 64, 4, options);
    embed_texts(&bench, whole);
    for (int32_t t = 0; t < N_TEXTS; t++)
        texts[t] = (struct embedding_text){ids[t], lengths[t], NULL, t % 2 ? 5 : 0};
    assert_ok(embedder_compute(bench.embedder, texts, N_TEXTS, vectors, &error), &error);
    options.n_dimensions = 5;
    embedder_open(&bench, 64, 4, options);
    embed_texts(&bench, expected);
    for (int32_t t = 0; t < N_TEXTS; t++)
        if (t % 2)
            assert_memory_equal(vectors + t * N_EMBD, expected + t * 5, 5 * sizeof *expected);
        else
            assert_memory_equal(vectors + t * N_EMBD, whole + t * N_EMBD, N_EMBD * sizeof *whole);
    embedding_bench_close(&bench);
}

TEST(vectors_are_the_same_bytes_in_any_steps)
{
    static const char *const families[] = {"llama", "gemma2", "qwen2moe", "deepseek2"};
    static const enum pooling poolings[] = {POOLING_LAST, POOLING_MEAN};
    static float expected[N_TEXTS * N_EMBD], vectors[N_TEXTS * N_EMBD];
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        struct embedding_bench bench;
        embedding_bench_open(&bench,
                             &(struct model_recipe){.family = families[f], .type = TENSOR_Q8_0, .seed = 5});
        for (int p = 0; p < 2; p++) {
            struct embedder_options options = {.pooling = poolings[p], .normalize = true};
            embedder_open(&bench, 128, N_TEXTS, options);
            embed_texts(&bench, expected);
            embed_texts(&bench, vectors); // pages of the call before hold other texts
            assert_memory_equal(vectors, expected, sizeof expected);
            for (int32_t t = 0; t < N_TEXTS; t++) {
                embed_start(&bench, t, lengths[t], vectors);
                assert_memory_equal(vectors, expected + t * N_EMBD, N_EMBD * sizeof *vectors);
            }
            static const int32_t rows[] = {1, 7, 16, 300};
            for (int r = 0; r < 4; r++) {
                embedder_open(&bench, rows[r], r + 1, options);
                embed_texts(&bench, vectors);
                assert_memory_equal(vectors, expected, sizeof expected);
            }
        }
        embedding_bench_close(&bench);
    }
}

TEST(the_longest_text_fits_the_pages_and_the_context)
{
    struct embedding_bench bench;
    embedding_bench_open(&bench, &(struct model_recipe){.seed = 4, .n_context = 40});
    struct forward_limits limits = {.n_tokens_max = 32, .n_sequences_max = 3, .page_positions = 16};
    limits.n_pages = (int32_t)embedder_pages(&limits, 33);
    assert_int_equal(limits.n_pages, 3 + 32 / 16 + 3);
    assert_int_equal(embedder_longest(&limits, bench.model), 40); // not 48
    limits.n_pages -= 1;
    assert_int_equal(embedder_longest(&limits, bench.model), 32);
    limits.n_pages = 4;
    assert_int_equal(embedder_longest(&limits, bench.model), 0);
    embedding_bench_close(&bench);
}

TEST(the_model_says_how_to_pool)
{
    static const struct {
        int key; // 0: none
        enum pooling pooling;
        enum status status;
    } rows[] = {{0, POOLING_LAST, STATUS_OK},
                {POOLING_MEAN, POOLING_MEAN, STATUS_OK},
                {POOLING_FIRST, POOLING_FIRST, STATUS_OK},
                {POOLING_LAST, POOLING_LAST, STATUS_OK},
                {4, 0, STATUS_REFUSE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct embedding_bench bench;
        struct model_recipe recipe = {.seed = 4};
        if (rows[i].key)
            recipe.keys[0] = (struct made_key){"llama.pooling_type", GGUF_U32, rows[i].key, NULL};
        embedding_bench_open(&bench, &recipe);
        enum pooling pooling = 0;
        assert_int_equal(pooling_of_model(bench.model, &pooling, &error), rows[i].status);
        if (rows[i].status == STATUS_OK)
            assert_int_equal(pooling, rows[i].pooling);
        else
            assert_string_equal(
                error.text, "llama.pooling_type is 4, a reranker's (sheaf rerank; --pooling overrules it): "
                            "expected 1 (mean), 2 (cls) or 3 (last)");
        embedding_bench_close(&bench);
    }
    enum pooling pooling = 0;
    assert_true(pooling_find("cls", &pooling) && pooling == POOLING_FIRST);
    assert_string_equal(pooling_name(POOLING_MEAN), "mean");
    assert_false(pooling_find("model", &pooling));
}
