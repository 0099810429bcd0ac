// Embeddings of encoders: of models of our own making against plain double precision, of a real one (MiniLM)
// against vectors in double precision; and the same bytes however a text is computed: alone or among others, in
// a step or in chunks of rows, by any threads and instruction set.
#include "engine/cpu/backend.h"
#include "engine/embedding.h"
#include "engine/embedding_head.h"
#include "engine/file/gguf_quantize.h"
#include "engine/model/folder/model_folder.h"
#include "schemas/value.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_encoder.h"
#include "tests/support/reference_encoder.h"
#include "tests/support/shared_data.h"

#include <math.h>

// CONTEXT: longer than a segment of attention.
enum { N_VOCAB = 200, CONTEXT = 270, N_EMBD_MAX = 96, PAGE_POSITIONS = 16, TEXTS_MAX = 32 };

// How texts are computed.
struct encoder_way {
    const char *name;
    int n_rows, n_threads;
    enum cpu_level level;
};

struct encoder_bench {
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct embedder *embedder;
    int32_t width;
};

static struct error error;

static void bench_open(struct encoder_bench *bench, struct model *model, const struct encoder_way *way,
                       enum pooling pooling, int32_t n_dimensions)
{
    *bench = (struct encoder_bench){.model = model, .width = embedding_width(model)};
    struct forward_limits limits = {.n_tokens_max = way->n_rows,
                                    .n_outputs_max = way->n_rows,
                                    .n_sequences_max = way->n_rows < 8 ? way->n_rows : 8,
                                    .page_positions = PAGE_POSITIONS,
                                    .kv_type = KV_F32,
                                    .hidden_only = true};
    limits.n_pages = (int32_t)embedder_pages(&limits, model->shape.n_context);
    bench->width = n_dimensions ? n_dimensions : bench->width;
    assert_int_equal(embedder_longest(&limits, model), model->shape.n_context);
    assert_ok(pool_create(&bench->pool, way->n_threads, &error), &error);
    assert_ok(cpu_backend_create(&bench->backend, bench->pool, way->level, &error), &error);
    assert_ok(forward_create(&bench->forward, model, bench->backend, &limits, NULL, NULL, &error), &error);
    struct embedder_options options = {.model = model,
                                       .forward = bench->forward,
                                       .limits = limits,
                                       .pooling = pooling,
                                       .normalize = true,
                                       .n_dimensions = bench->width,
                                       .n_longest = model->shape.n_context};
    assert_ok(embedder_create(&bench->embedder, &options, &error), &error);
}

static void bench_close(struct encoder_bench *bench)
{
    embedder_destroy(bench->embedder);
    forward_destroy(bench->forward);
    bench->backend->device.destroy(bench->backend);
    pool_destroy(bench->pool);
}

static void compute(struct model *model, const struct encoder_way *way, enum pooling pooling,
                    const struct embedding_text *texts, int32_t n_texts, float *vectors)
{
    struct encoder_bench bench;
    bench_open(&bench, model, way, pooling, 0);
    assert_ok(embedder_compute(bench.embedder, texts, n_texts, vectors, &error), &error);
    bench_close(&bench);
}

static struct model *open_made(const struct encoder_recipe *recipe, char directory[64], char path[96])
{
    struct model *model;
    struct encoder_recipe whole = *recipe;
    whole.n_context = CONTEXT;
    make_directory(directory);
    snprintf(path, 96, "%s/model.gguf", directory);
    make_encoder(path, &whole);
    assert_ok(model_open(&model, path, &error), &error);
    return model;
}

static double distance(const float *vector, const double *expected, int32_t n)
{
    double dot = 0.0, a = 0.0, b = 0.0;
    for (int32_t i = 0; i < n; i++) {
        dot += (double)vector[i] * expected[i];
        a += (double)vector[i] * (double)vector[i];
        b += expected[i] * expected[i];
    }
    return 1.0 - dot / sqrt(a * b);
}

// --- Models of our own making ---

#define EXACT 1e-10
#define INT8  2e-3

struct encoder_golden {
    const char *name;
    struct encoder_recipe recipe;
    double bound; // of 1 - cosine
};

static const struct encoder_golden goldens[] = {
    {"bert", {.family = "bert", .seed = 1}, EXACT},
    {"bert, widths that fill no vector",
     {.family = "bert", .seed = 1, .n_embd = 36, .n_heads = 2, .n_ff = 37},
     EXACT},
    {"bert as albert", {.family = "bert", .seed = 22, .shared = true}, EXACT},
    {"mpnet", {.family = "mpnet", .seed = 2}, EXACT},
    {"deberta v3", {.family = "deberta", .seed = 14}, EXACT},
    {"deberta v2 xl", {.family = "deberta", .seed = 15, .deberta = DEBERTA_V2_XL}, EXACT},
    {"deberta v1", {.family = "deberta", .seed = 16, .deberta = DEBERTA_V1}, EXACT},
    {"deberta, content to position",
     {.family = "deberta", .seed = 17, .deberta = DEBERTA_TO_POSITION},
     EXACT},
    {"deberta, position to content", {.family = "deberta", .seed = 18, .deberta = DEBERTA_TO_CONTENT}, EXACT},
    {"deberta, learned positions", {.family = "deberta", .seed = 19, .deberta = DEBERTA_ABSOLUTE}, EXACT},
    {"t5", {.family = "t5encoder", .seed = 20}, EXACT},
    {"t5 with relu", {.family = "t5encoder", .seed = 21, .plain = true}, EXACT},
    {"nomic-bert", {.family = "nomic-bert", .seed = 3}, EXACT},
    {"jina-bert-v2", {.family = "jina-bert-v2", .seed = 4}, EXACT},
    {"modern-bert", {.family = "modern-bert", .seed = 5, .n_layers = 5}, EXACT},
    {"modern-bert, a window of one", {.family = "modern-bert", .seed = 5, .window = 1, .n_layers = 4}, EXACT},
    {"eurobert", {.family = "eurobert", .seed = 6}, EXACT},
    {"jina-bert-v3", {.family = "jina-bert-v3", .seed = 10}, EXACT},
    {"gte", {.family = "gte", .seed = 11}, EXACT},
    {"nomic-bert-moe", {.family = "nomic-bert-moe", .seed = 12, .n_layers = 4}, EXACT},
    {"ultrabert", {.family = "ultrabert", .seed = 13, .n_layers = 5}, EXACT},
    {"ultrabert, a window of two", {.family = "ultrabert", .seed = 13, .window = 2, .n_layers = 4}, EXACT},
    {"gemma-embedding", {.family = "gemma-embedding", .seed = 7, .n_layers = 7}, EXACT},
    {"llama-embed", {.family = "llama-embed", .seed = 14}, EXACT},
    {"gemma-embedding2", {.family = "gemma-embedding2", .seed = 15, .n_layers = 7}, EXACT},
    {"gemma-embedding2, a window of four",
     {.family = "gemma-embedding2", .seed = 16, .n_layers = 5, .window = 4, .n_embd = 64},
     EXACT},
    {"qwen2 in both directions", {.family = "qwen2", .seed = 8}, EXACT},
    {"bert in F16", {.family = "bert", .seed = 9, .type = TENSOR_F16}, EXACT},
    {"bert in Q8_0", {.family = "bert", .seed = 9, .type = TENSOR_Q8_0, .n_embd = 96, .n_ff = 64}, INT8},
};

enum { N_GOLDENS = sizeof goldens / sizeof *goldens };

static const enum pooling poolings[] = {POOLING_MEAN, POOLING_FIRST, POOLING_LAST,
                                        POOLING_MAX,  POOLING_SQRT,  POOLING_WEIGHTED};

static double pool_item(enum pooling pooling, const double *hidden, int32_t n, int32_t n_embd)
{
    double sum = pooling == POOLING_MAX ? -INFINITY : 0.0, weights = 0.0;
    if (pooling == POOLING_FIRST || pooling == POOLING_LAST)
        return hidden[pooling == POOLING_FIRST ? 0 : (n - 1) * n_embd];
    for (int32_t p = 0; p < n; p++) {
        double weight = pooling == POOLING_WEIGHTED ? p + 1 : 1, item = hidden[p * n_embd];
        sum = pooling == POOLING_MAX ? fmax(sum, item) : sum + weight * item;
        weights += weight;
    }
    return pooling == POOLING_MAX ? sum : sum / (pooling == POOLING_SQRT ? sqrt(weights) : weights);
}

static void fill_ids(int32_t *ids, int32_t *types, int32_t n, int32_t seed)
{
    for (int32_t i = 0; i < n; i++) {
        ids[i] = (i * 37 + 11 * seed + 5) % N_VOCAB;
        types[i] = i > n / 2;
    }
}

TEST(vectors_agree_with_double_precision)
{
    static const int32_t lengths[] = {1, 2, 15, 16, 17, 63, CONTEXT};
    static const struct encoder_way way = {"", 64, 2, CPU_AVX512};
    static double hidden[CONTEXT * N_EMBD_MAX];
    for (size_t g = 0; g < N_GOLDENS; g++) {
        char directory[64], path[96];
        double worst = 0.0;
        struct model *model = open_made(&goldens[g].recipe, directory, path);
        bool typed = model->token_types.data != NULL;
        int32_t n_embd = model->shape.n_embd;
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            int32_t ids[CONTEXT], types[CONTEXT], n = lengths[l];
            fill_ids(ids, types, n, (int32_t)l);
            struct embedding_text text = {ids, n, typed ? types : NULL};
            reference_hidden(path, ids, text.types, n, hidden);
            for (size_t p = 0; p < sizeof poolings / sizeof *poolings; p++) {
                float vector[N_EMBD_MAX];
                double expected[N_EMBD_MAX];
                compute(model, &way, poolings[p], &text, 1, vector);
                for (int32_t i = 0; i < n_embd; i++)
                    expected[i] = pool_item(poolings[p], hidden + i, n, n_embd);
                double apart = distance(vector, expected, n_embd);
                worst = !(apart <= worst) ? apart : worst; // a NaN stays
            }
        }
        print_message("%s: 1 - cosine at most %.2g\n", goldens[g].name, worst);
        model_close(model);
        remove_directory(directory);
        assert_true(worst <= goldens[g].bound);
    }
}

TEST(vectors_are_the_same_bytes_in_every_way)
{
    // a step's rows: 16
    static const int32_t lengths[] = {1, 15, 16, 17, 5, 40, CONTEXT - 1, CONTEXT, 3};
    static const struct encoder_way ways[] = {
        {"plain C, 1 thread", 256, 1, CPU_PLAIN}, {"2 threads", 256, 2, CPU_AVX512},
        {"steps of 16 rows", 16, 1, CPU_AVX2},    {"steps of 1 row", 1, 2, CPU_AVX512},
        {"steps of 17 rows", 17, 2, CPU_AVX512},  {"steps of 199 rows", 199, 1, CPU_AVX512},
    };
    enum { N_TEXTS = sizeof lengths / sizeof *lengths };
    static int32_t ids[N_TEXTS][CONTEXT], types[N_TEXTS][CONTEXT];
    static float expected[N_TEXTS * N_EMBD_MAX], vectors[N_TEXTS * N_EMBD_MAX];
    struct embedding_text texts[N_TEXTS];
    for (size_t g = 0; g < N_GOLDENS; g++) {
        char directory[64], path[96];
        struct model *model = open_made(&goldens[g].recipe, directory, path);
        size_t width = (size_t)model->shape.n_embd;
        for (int32_t t = 0; t < N_TEXTS; t++) {
            fill_ids(ids[t], types[t], lengths[t], t);
            texts[t] = (struct embedding_text){ids[t], lengths[t], model->token_types.data ? types[t] : NULL};
        }
        for (int p = 0; p < 2; p++) {
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                compute(model, &ways[w], poolings[p], texts, N_TEXTS, w ? vectors : expected);
                if (w && memcmp(vectors, expected, N_TEXTS * width * sizeof *vectors) != 0)
                    fail_msg("%s, %s: other bytes", goldens[g].name, ways[w].name);
            }
            for (int32_t t = 0; t < N_TEXTS; t++) {
                compute(model, &ways[1], poolings[p], &texts[t], 1, vectors);
                assert_memory_equal(vectors, expected + (size_t)t * width, width * sizeof *vectors);
            }
        }
        model_close(model);
        remove_directory(directory);
    }
}

TEST(linear_layers_follow_the_pooling_and_a_cut_follows_them)
{
    static const struct encoder_recipe recipe = {.seed = 3, .n_dense = 2};
    static const struct encoder_way way = {"", 64, 1, CPU_AVX512};
    static double hidden[20 * N_EMBD_MAX];
    char directory[64], path[96];
    int32_t ids[20], types[20];
    struct model *model = open_made(&recipe, directory, path);
    const float *first = model->dense[0].weight.data, *first_bias = model->dense[0].bias.data,
                *second = model->dense[1].weight.data;
    double expected[21];
    int32_t n_embd = model->shape.n_embd;
    fill_ids(ids, types, 20, 1);
    struct embedding_text text = {ids, 20, NULL};
    reference_hidden(path, ids, NULL, 20, hidden);
    assert_int_equal(embedding_width(model), 21);
    assert_null(model->dense[1].bias.data);
    for (int o = 0; o < 21; o++) {
        expected[o] = 0.0;
        for (int k = 0; k < 20; k++) {
            double sum = (double)first_bias[k];
            for (int32_t i = 0; i < n_embd; i++)
                sum += (double)first[k * n_embd + i] * pool_item(POOLING_MEAN, hidden + i, 20, n_embd);
            expected[o] += (double)second[o * 20 + k] * tanh(sum);
        }
    }
    for (int32_t n = 21; n > 0; n -= 10) {
        struct encoder_bench bench;
        float vector[21];
        double square = 0.0;
        bench_open(&bench, model, &way, POOLING_MEAN, n);
        assert_ok(embedder_compute(bench.embedder, &text, 1, vector, &error), &error);
        assert_true(distance(vector, expected, n) <= EXACT);
        for (int32_t i = 0; i < n; i++)
            square += (double)vector[i] * (double)vector[i];
        assert_true(fabs(square - 1.0) < 1e-6);
        bench_close(&bench);
    }
    model_close(model);
    remove_directory(directory);
}

TEST(nomic_bert_has_a_layer_norm_before_a_cut)
{
    static const struct encoder_recipe recipe = {.family = "nomic-bert", .seed = 3};
    static const struct encoder_way way = {"", 64, 1, CPU_AVX512};
    char directory[64], path[96];
    int32_t ids[20], types[20];
    float whole[N_EMBD_MAX], cut[8];
    struct model *model = open_made(&recipe, directory, path);
    struct encoder_bench bench;
    fill_ids(ids, types, 20, 1);
    struct embedding_text text = {ids, 20, NULL};
    compute(model, &way, POOLING_MEAN, &text, 1, whole);
    bench_open(&bench, model, &way, POOLING_MEAN, 8);
    assert_ok(embedder_compute(bench.embedder, &text, 1, cut, &error), &error);
    double mean = 0.0, expected[8];
    for (int32_t i = 0; i < model->shape.n_embd; i++)
        mean += (double)whole[i] / model->shape.n_embd;
    for (int i = 0; i < 8; i++)
        expected[i] = (double)whole[i] - mean;
    assert_true(distance(cut, expected, 8) <= EXACT);
    bench_close(&bench);
    model_close(model);
    remove_directory(directory);
}

// --- A real model ---

struct real_text {
    const struct value *facts;
    struct embedding_text text;
};

static int32_t *read_ids(const struct value *list, int32_t *n)
{
    *n = (int32_t)list->array.n_items;
    int32_t *ids = calloc(list->array.n_items, sizeof *ids);
    assert_non_null(ids);
    for (int32_t i = 0; i < *n; i++)
        ids[i] = (int32_t)list->array.items[i].integer;
    return ids;
}

static const struct value *read_golden(struct arena *arena)
{
    char path[512];
    static struct value json;
    assert_true(shared_path(path, sizeof path, "real/minilm/golden.json"));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = arena_allocate(arena, 1 << 20);
    size_t size = fread(text, 1, 1 << 20, file);
    fclose(file);
    assert_ok(json_decode_document((struct text){text, size}, arena, &json, &error), &error);
    return &json;
}

// The texts, then the pairs.
static int32_t read_real(const struct value *golden, struct real_text out[TEXTS_MAX])
{
    int32_t n = 0;
    for (int kind = 0; kind < 2; kind++) {
        const struct value *list = value_get(golden, kind ? "pairs" : "texts");
        for (size_t i = 0; i < list->array.n_items; i++) {
            const struct value *facts = &list->array.items[i], *types = value_get(facts, "types");
            struct embedding_text *text = &out[n].text;
            out[n++].facts = facts;
            text->ids = read_ids(value_get(facts, "ids"), &text->n_ids);
            int32_t n_types;
            text->types = types ? read_ids(types, &n_types) : NULL;
        }
    }
    return n;
}

struct vector_closeness {
    double worst, mean; // of the cosines
    int n_same;         // of the ordinary texts, those with the reference's nearest neighbor
};

static int nearest(const double *cosines, int n, int self)
{
    int best = self == 0;
    for (int i = 0; i < n; i++)
        if (i != self && cosines[i] > cosines[best])
            best = i;
    return best;
}

enum { N_ORDINARY = 15, REAL_WIDTH = 384 };

static struct vector_closeness compare_real(const struct real_text *texts, int32_t n, const char *pooling,
                                            const float *vectors)
{
    struct vector_closeness close = {.worst = 1.0};
    static double expected[TEXTS_MAX][REAL_WIDTH];
    for (int32_t t = 0; t < n; t++) {
        const struct value *vector = value_get(texts[t].facts, pooling);
        for (int i = 0; i < REAL_WIDTH; i++)
            expected[t][i] = vector->array.items[i].number;
        double cosine = 1.0 - distance(vectors + t * REAL_WIDTH, expected[t], REAL_WIDTH);
        close.mean += cosine / n;
        close.worst = cosine < close.worst ? cosine : close.worst;
    }
    for (int t = 0; t < N_ORDINARY; t++) {
        double ours[N_ORDINARY], reference[N_ORDINARY];
        for (int u = 0; u < N_ORDINARY; u++) {
            double other[REAL_WIDTH];
            for (int i = 0; i < REAL_WIDTH; i++)
                other[i] = (double)vectors[u * REAL_WIDTH + i];
            ours[u] = 1.0 - distance(vectors + t * REAL_WIDTH, other, REAL_WIDTH);
            reference[u] = 0.0;
            for (int i = 0; i < REAL_WIDTH; i++)
                reference[u] += expected[t][i] * expected[u][i];
        }
        close.n_same += nearest(ours, N_ORDINARY, t) == nearest(reference, N_ORDINARY, t);
    }
    return close;
}

TEST(a_real_encoder_gives_its_vectors_in_every_type)
{
    static const struct {
        const char *name; // NULL: as the folder has it
        bool pairs;
        double worst, mean;
    } types[] = {{NULL, true, 1.0 - 1e-10, 1.0 - 1e-10},
                 {"f32", true, 1.0 - 1e-10, 1.0 - 1e-10},
                 {"q8_0", false, 0.999, 0.9995}};
    static const struct encoder_way way = {"", 128, 2, CPU_AVX512};
    static float vectors[TEXTS_MAX * REAL_WIDTH];
    struct real_text texts[TEXTS_MAX] = {{0}};
    struct arena arena = {0};
    char folder[512];
    if (!shared_path(folder, sizeof folder, "real/minilm"))
        skip();
    const struct value *golden = read_golden(&arena);
    int32_t n_all = read_real(golden, texts), n_texts = (int32_t)value_get(golden, "texts")->array.n_items;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct model *model;
        struct gguf *gguf;
        enum tensor_type type;
        struct embedding_text wanted[TEXTS_MAX];
        int32_t n = types[i].pairs ? n_all : n_texts;
        for (int32_t t = 0; t < n; t++)
            wanted[t] = texts[t].text;
        assert_ok(model_folder_open(&gguf, folder, &error), &error);
        if (types[i].name) {
            assert_true(gguf_quantize_type(types[i].name, &type));
            assert_ok(gguf_quantize(&gguf, gguf, type, NULL, &error), &error);
        }
        assert_ok(model_open_taking(&model, gguf, &error), &error);
        for (int p = 0; p < 2; p++) {
            compute(model, &way, poolings[p], wanted, n, vectors);
            struct vector_closeness close = compare_real(texts, n, p ? "cls" : "mean", vectors);
            print_message("%s, %s: cosines from %.12f, mean %.12f\n", types[i].name ? types[i].name : "f16",
                          p ? "cls" : "mean", close.worst, close.mean);
            assert_true(close.worst >= types[i].worst && close.mean >= types[i].mean);
            assert_int_equal(close.n_same, N_ORDINARY);
        }
        model_close(model);
    }
    for (int32_t t = 0; t < n_all; t++) {
        free((void *)(uintptr_t)texts[t].text.ids);
        free((void *)(uintptr_t)texts[t].text.types);
    }
    arena_finish(&arena);
}
