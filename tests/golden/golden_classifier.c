// Scores of classification heads: of models of our own making against plain double precision, and the same bytes
// however a text is computed: alone or among others, in a step or in chunks of rows, by any threads and instruction set.
#include "engine/classifier.h"
#include "engine/cpu/backend.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_encoder.h"
#include "tests/support/reference_encoder.h"

#include <math.h>

// CONTEXT: longer than a segment of attention.
enum { N_VOCAB = 200, CONTEXT = 270, N_EMBD_MAX = 96, PAGE_POSITIONS = 16, LABELS_MAX = 8 };

struct classifier_way {
    const char *name;
    int n_rows, n_threads;
    enum cpu_level level;
};

static struct error error;

static void compute(struct model *model, const struct classifier_facts *facts, enum score_function function,
                    const struct classifier_way *way, const struct embedding_text *texts, int32_t n_texts,
                    float *scores)
{
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct classifier *classifier;
    struct forward_limits limits = {.n_tokens_max = way->n_rows,
                                    .n_outputs_max = way->n_rows,
                                    .n_sequences_max = way->n_rows < 8 ? way->n_rows : 8,
                                    .page_positions = PAGE_POSITIONS,
                                    .kv_type = KV_F32,
                                    .hidden_only = true};
    limits.n_pages = (int32_t)embedder_pages(&limits, model->shape.n_context);
    assert_ok(pool_create(&pool, way->n_threads, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, way->level, &error), &error);
    assert_ok(forward_create(&forward, model, backend, &limits, NULL, NULL, &error), &error);
    const struct classifier_options options = {.model = model,
                                               .facts = facts,
                                               .function = function,
                                               .forward = forward,
                                               .limits = limits,
                                               .n_longest = model->shape.n_context};
    assert_ok(classifier_create(&classifier, &options, &error), &error);
    assert_ok(classifier_compute(classifier, texts, n_texts, scores, &error), &error);
    classifier_destroy(classifier);
    forward_destroy(forward);
    backend->device.destroy(backend);
    pool_destroy(pool);
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

static void fill_ids(int32_t *ids, int32_t *types, int32_t n, int32_t seed)
{
    for (int32_t i = 0; i < n; i++) {
        ids[i] = (i * 37 + 11 * seed + 5) % N_VOCAB;
        types[i] = i > n / 2;
    }
}

// --- Models of our own making ---

// pooling, activation: what the head must do by itself, where the recipe has no key.
struct classifier_golden {
    const char *name, *pooling, *activation;
    struct encoder_recipe recipe;
};

static const struct classifier_golden goldens[] = {
    {"bert, one label", "first", "tanh", {.family = "bert", .seed = 1, .n_labels = 1}},
    {"bert", "first", "tanh", {.family = "bert", .seed = 2, .n_labels = 3, .n_embd = 36, .n_heads = 2}},
    {"distilbert", "first", "relu", {.seed = 3, .n_labels = 2, .drop_tensor = "token_types.weight"}},
    {"mpnet", "first", "tanh", {.family = "mpnet", .seed = 4, .n_labels = 2}},
    {"deberta", "first", "gelu", {.family = "deberta", .seed = 32, .n_labels = 3, .head_activation = "gelu"}},
    {"nomic-bert", "first", "tanh", {.family = "nomic-bert", .seed = 5, .n_labels = 7}},
    {"jina-bert-v2", "first", "tanh", {.family = "jina-bert-v2", .seed = 6, .n_labels = 1}},
    {"modern-bert, as llama.cpp", "mean", "gelu", {.family = "modern-bert", .seed = 7, .n_labels = 2}},
    {"modern-bert",
     "first",
     "silu",
     {.family = "modern-bert", .seed = 8, .n_labels = 4, .head_pooling = "first", .head_activation = "silu"}},
    {"modern-bert, tanh form",
     "mean",
     "gelu_tanh",
     {.family = "modern-bert", .seed = 9, .n_labels = 4, .head_activation = "gelu_pytorch_tanh"}},
    {"eurobert", "first", "gelu", {.family = "eurobert", .seed = 10, .n_labels = 3}},
    {"eurobert, mean",
     "mean",
     "gelu",
     {.family = "eurobert", .seed = 11, .n_labels = 3, .head_pooling = "mean"}},
    {"eurobert, late",
     "late",
     "gelu",
     {.family = "eurobert", .seed = 12, .n_labels = 3, .head_pooling = "late"}},
    {"a decoder", "last", "identity", {.family = "qwen2", .seed = 13, .n_labels = 3, .causal = true}},
    {"a decoder in both directions", "last", "identity", {.family = "qwen2", .seed = 14, .n_labels = 1}},
    {"gemma in both directions",
     "last",
     "identity",
     {.family = "gemma-embedding", .seed = 15, .n_labels = 2}},
};

enum { N_GOLDENS = sizeof goldens / sizeof *goldens };

TEST(scores_agree_with_double_precision)
{
    static const int32_t lengths[] = {1, 2, 15, 16, 17, 63, CONTEXT};
    static const struct classifier_way way = {"", 64, 2, CPU_AVX512};
    static double hidden[CONTEXT * N_EMBD_MAX];
    for (size_t g = 0; g < N_GOLDENS; g++) {
        const struct classifier_golden *golden = &goldens[g];
        char directory[64], path[96];
        struct classifier_facts facts;
        struct model *model = open_made(&golden->recipe, directory, path);
        double apart = 0.0, whole = 0.0;
        assert_ok(classifier_facts_read(&facts, model, &error), &error);
        assert_int_equal(facts.n_labels, golden->recipe.n_labels);
        assert_int_equal(facts.relevant, facts.n_labels == 1 ? 0 : -1);
        assert_int_equal(facts.function, facts.n_labels == 1 ? SCORE_SIGMOID : SCORE_SOFTMAX);
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            int32_t ids[CONTEXT], types[CONTEXT], n = lengths[l];
            float scores[LABELS_MAX];
            double logits[LABELS_MAX];
            fill_ids(ids, types, n, (int32_t)l);
            struct embedding_text text = {ids, n, model->token_types.data ? types : NULL};
            reference_hidden(path, ids, text.types, n, hidden);
            reference_label_logits(path, hidden, n, golden->pooling, golden->activation, logits);
            compute(model, &facts, SCORE_RAW, &way, &text, 1, scores);
            for (int32_t i = 0; i < facts.n_labels; i++) {
                double difference = (double)scores[i] - logits[i];
                apart += difference * difference;
                whole += logits[i] * logits[i];
            }
        }
        print_message("%s: squared error at most %.2g of the logits'\n", golden->name, apart / whole);
        model_close(model);
        remove_directory(directory);
        assert_true(apart / whole <= 1e-10); // false for a NaN
    }
}

TEST(a_function_makes_probabilities_of_logits)
{
    static const struct encoder_recipe recipe = {.seed = 21, .n_labels = 4};
    static const struct classifier_way way = {"", 64, 1, CPU_AVX512};
    char directory[64], path[96];
    int32_t ids[20], types[20];
    float logits[4], sigmoid[4], softmax[4];
    double sum = 0.0;
    struct classifier_facts facts;
    struct model *model = open_made(&recipe, directory, path);
    fill_ids(ids, types, 20, 1);
    struct embedding_text text = {ids, 20, types};
    assert_ok(classifier_facts_read(&facts, model, &error), &error);
    compute(model, &facts, SCORE_RAW, &way, &text, 1, logits);
    compute(model, &facts, SCORE_SIGMOID, &way, &text, 1, sigmoid);
    compute(model, &facts, SCORE_SOFTMAX, &way, &text, 1, softmax);
    for (int i = 0; i < 4; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < 4; i++) {
        assert_true(fabs((double)sigmoid[i] - 1.0 / (1.0 + exp(-(double)logits[i]))) < 1e-6);
        assert_true(fabs((double)softmax[i] - exp((double)logits[i]) / sum) < 1e-6);
    }
    model_close(model);
    remove_directory(directory);
}

TEST(scores_are_the_same_bytes_in_every_way)
{
    // a step's rows: 16
    static const int32_t lengths[] = {1, 15, 16, 17, 5, 40, CONTEXT - 1, CONTEXT, 3};
    static const struct classifier_way ways[] = {
        {"plain C, 1 thread", 256, 1, CPU_PLAIN}, {"2 threads", 256, 2, CPU_AVX512},
        {"steps of 16 rows", 16, 1, CPU_AVX2},    {"steps of 1 row", 1, 2, CPU_AVX512},
        {"steps of 17 rows", 17, 2, CPU_AVX512},  {"steps of 199 rows", 199, 1, CPU_AVX512},
    };
    enum { N_TEXTS = sizeof lengths / sizeof *lengths };
    static int32_t ids[N_TEXTS][CONTEXT], types[N_TEXTS][CONTEXT];
    static float expected[N_TEXTS * LABELS_MAX], scores[N_TEXTS * LABELS_MAX];
    struct embedding_text texts[N_TEXTS];
    for (size_t g = 0; g < N_GOLDENS; g++) {
        char directory[64], path[96];
        struct classifier_facts facts;
        struct model *model = open_made(&goldens[g].recipe, directory, path);
        assert_ok(classifier_facts_read(&facts, model, &error), &error);
        size_t n_labels = (size_t)facts.n_labels;
        for (int32_t t = 0; t < N_TEXTS; t++) {
            fill_ids(ids[t], types[t], lengths[t], t);
            texts[t] = (struct embedding_text){ids[t], lengths[t], model->token_types.data ? types[t] : NULL};
        }
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            compute(model, &facts, facts.function, &ways[w], texts, N_TEXTS, w ? scores : expected);
            if (w && memcmp(scores, expected, N_TEXTS * n_labels * sizeof *scores) != 0)
                fail_msg("%s, %s: other bytes", goldens[g].name, ways[w].name);
        }
        for (int32_t t = 0; t < N_TEXTS; t++) {
            compute(model, &facts, facts.function, &ways[1], &texts[t], 1, scores);
            assert_memory_equal(scores, expected + (size_t)t * n_labels, n_labels * sizeof *scores);
        }
        model_close(model);
        remove_directory(directory);
    }
}

TEST(a_judge_scores_two_rows_of_the_output_matrix)
{
    enum { YES = 7, NO = 150, N = 33 };
    static const struct encoder_recipe recipe = {.family = "qwen2", .seed = 31, .causal = true};
    static const struct classifier_way way = {"", 64, 1, CPU_AVX512};
    static double hidden[N * N_EMBD_MAX];
    char directory[64], path[96], made[CLASSIFIER_LABEL_BYTES];
    int32_t ids[N], types[N];
    float scores[2];
    double logits[2] = {0};
    const struct judge_answer answers[2] = {{YES, TEXT("good")}, {NO, TEXT("bad")}};
    struct classifier_facts facts;
    struct model *model = open_made(&recipe, directory, path);
    const float *table = model->token_embd.data; // tied
    fill_ids(ids, types, N, 2);
    struct embedding_text text = {ids, N, NULL};
    reference_hidden(path, ids, NULL, N, hidden);
    for (int32_t i = 0; i < model->shape.n_embd; i++) {
        logits[0] += (double)table[YES * model->shape.n_embd + i] * hidden[(N - 1) * model->shape.n_embd + i];
        logits[1] += (double)table[NO * model->shape.n_embd + i] * hidden[(N - 1) * model->shape.n_embd + i];
    }
    assert_int_equal(classifier_facts_read(&facts, model, &error), STATUS_REFUSE); // there is no head
    assert_ok(classifier_facts_judge(&facts, model, answers, TEXT("{query}"), &error), &error);
    assert_true(text_equals_string(classifier_label(&facts, model, 0, made), "good"));
    assert_int_equal(facts.relevance, SCORE_SOFTMAX);
    compute(model, &facts, SCORE_RAW, &way, &text, 1, scores);
    for (int i = 0; i < 2; i++)
        assert_true(fabs((double)scores[i] - logits[i]) < 2e-5);
    compute(model, &facts, facts.relevance, &way, &text, 1, scores);
    assert_true(fabs((double)scores[0] - 1.0 / (1.0 + exp(logits[1] - logits[0]))) < 1e-5);
    assert_true(fabs((double)scores[0] + (double)scores[1] - 1.0) < 1e-6);
    model_close(model);
    remove_directory(directory);
}

TEST(a_head_that_lacks_a_part_is_refused_by_its_name)
{
    static const struct {
        struct encoder_recipe recipe;
        const char *expected;
    } rows[] = {
        {{.seed = 1}, "has no classification head: tensor cls.output.weight is missing"},
        {{.n_labels = 2, .drop_tensor = "cls.output.weight"},
         "tensor cls.output.weight is missing, the last"},
        {{.n_labels = 1, .drop_tensor = "cls.weight"}, "tensor cls.weight is missing, the pooler"},
        {{.family = "modern-bert", .n_labels = 1, .drop_tensor = "cls.weight"},
         "tensor cls.weight is missing"},
        {{.n_labels = 2, .head_pooling = "max"},
         "bert.classifier.pooling: expected first, mean, last or late"},
        {{.n_labels = 2, .head_activation = "mish"}, "bert.classifier.activation: expected tanh, relu"},
        {{.family = "modern-bert", .n_labels = 1, .head_pooling = "late"}, "file has \"late\""},
        {{.family = "qwen2", .n_labels = 1, .head_pooling = "late", .causal = true}, "file has \"late\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char directory[64], path[96];
        struct classifier_facts facts;
        struct model *model = open_made(&rows[i].recipe, directory, path);
        assert_int_equal(classifier_facts_read(&facts, model, &error), STATUS_REFUSE);
        if (!strstr(error.text, rows[i].expected))
            fail_msg("expected \"%s\" in: %s", rows[i].expected, error.text);
        model_close(model);
        remove_directory(directory);
    }
}

TEST(a_function_that_is_not_known_is_refused_where_it_is_asked_for)
{
    static const struct {
        const char *key;
        bool ranks;
    } rows[] = {{"bert.classifier.function", false}, {"bert.classifier.score_function", true}};
    for (int i = 0; i < 2; i++) {
        char directory[64], path[96];
        struct classifier_facts facts;
        enum score_function function;
        struct encoder_recipe recipe = {.n_labels = 1, .text_key = rows[i].key, .text = "torch.nn.Tanh"};
        struct model *model = open_made(&recipe, directory, path);
        assert_ok(classifier_facts_read(&facts, model, &error), &error);
        assert_ok(classifier_choose_function(&facts, model, !rows[i].ranks, &function, &error), &error);
        assert_int_equal(function, SCORE_SIGMOID);
        assert_int_equal(classifier_choose_function(&facts, model, rows[i].ranks, &function, &error),
                         STATUS_REFUSE);
        assert_non_null(strstr(error.text, "expected none, sigmoid or softmax, file has \"torch.nn.Tanh\""));
        model_close(model);
        remove_directory(directory);
    }
}
