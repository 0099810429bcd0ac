// Embeddings on the GPU backend: near the CPU's, and the same bytes in steps of any size.
#include "engine/cpu/backend.h"
#include "engine/embedding.h"
#include "tests/gpu/gpu_machine.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_encoder.h"
#include "tests/support/open_model.h"

enum { N_EMBD_MAX = 96, N_TEXTS = 4, CONTEXT = 270, N_VOCAB = 200 };

// Of the texts but the first.
static const int32_t lengths[N_TEXTS] = {0, 3, 18, 33};

// [N_TEXTS, n_embd]; steps of n_rows tokens. The first text has `longest` tokens.
static void embed_texts(const struct model *model, bool gpu, int32_t n_rows, enum pooling pooling,
                        int32_t longest, float *vectors)
{
    static int32_t ids[N_TEXTS][CONTEXT], types[N_TEXTS][CONTEXT];
    struct embedding_text texts[N_TEXTS];
    struct machine machine = {0};
    struct embedder *embedder;
    struct error error = {0};
    struct forward_limits limits = {.n_tokens_max = n_rows,
                                    .n_outputs_max = n_rows,
                                    .n_sequences_max = 3,
                                    .page_positions = 16,
                                    .kv_type = gpu ? KV_F16 : KV_F32_OF_F16,
                                    .hidden_only = true};
    limits.n_pages = (int32_t)embedder_pages(&limits, longest);
    for (int32_t t = 0; t < N_TEXTS; t++) {
        texts[t] = (struct embedding_text){ids[t], t ? lengths[t] : longest,
                                           model->token_types.data ? types[t] : NULL};
        for (int32_t i = 0; i < texts[t].n_ids; i++) {
            ids[t][i] = (i * 53 + 7 * t + 2) % N_VOCAB;
            types[t][i] = i > texts[t].n_ids / 2;
        }
    }
    assert_ok(pool_create(&machine.pool, 2, &error), &error);
    struct gpu_options options = {.pool = machine.pool};
    enum status status = gpu ? gpu_backend_create(&machine.backend, &options, &error)
                             : cpu_backend_create(&machine.backend, machine.pool, CPU_AVX512, &error);
    if (status != STATUS_OK ||
        forward_create(&machine.forward, model, machine.backend, &limits, NULL, NULL, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    struct embedder_options embedding = {.model = model,
                                         .forward = machine.forward,
                                         .limits = limits,
                                         .pooling = pooling,
                                         .normalize = true,
                                         .n_longest = longest,
                                         .n_dimensions = model->shape.n_embd};
    assert_ok(embedder_create(&embedder, &embedding, &error), &error);
    assert_ok(embedder_compute(embedder, texts, N_TEXTS, vectors, &error), &error);
    embedder_destroy(embedder);
    machine_close(&machine);
}

static void check(const char *name, const struct model *model, enum pooling pooling, int32_t longest,
                  double bound)
{
    static float expected[N_TEXTS * N_EMBD_MAX], together[N_TEXTS * N_EMBD_MAX], apart[N_TEXTS * N_EMBD_MAX];
    size_t n = (size_t)N_TEXTS * (size_t)model->shape.n_embd;
    embed_texts(model, false, CONTEXT, pooling, longest, expected);
    embed_texts(model, true, longest + 20, pooling, longest, together);
    embed_texts(model, true, longest > 100 ? 97 : 7, pooling, longest, apart);
    double error = squared_error(together, expected, n);
    print_message("%s: normalized squared error %.2g\n", name, error);
    assert_true(error <= bound);
    assert_memory_equal(apart, together, n * sizeof *together);
}

TEST(vectors_are_near_the_cpus_and_the_same_bytes_in_any_steps)
{
    static const struct {
        struct model_recipe recipe;
        double bound;
    } rows[] = {{{.family = "llama", .seed = 11}, 1e-6},
                {{.family = "qwen3", .seed = 12, .type = TENSOR_Q8_0}, 2e-3},
                {{.family = "gpt2", .seed = 13}, 1e-6}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model *model = open_model_of(&rows[i].recipe);
        for (enum pooling pooling = POOLING_MEAN; pooling <= POOLING_LAST; pooling += 2)
            if (device_cases_are_wide() || (pooling == POOLING_LAST) == i % 2)
                check(rows[i].recipe.family, model, pooling, 40, rows[i].bound);
        model_close(model);
    }
}

// The first text is longer than the smaller steps, which compute it layer by layer; of the first family and of one with
// windows also longer than a segment of attention.
TEST(encoders_attend_in_both_directions_as_on_a_cpu)
{
    static const struct encoder_recipe rows[] = {
        {.family = "bert", .seed = 1},
        {.family = "bert", .seed = 9, .type = TENSOR_Q8_0, .n_embd = 96, .n_ff = 64},
        {.family = "mpnet", .seed = 2},
        {.family = "nomic-bert", .seed = 3},
        {.family = "nomic-bert-moe", .seed = 12, .n_layers = 4},
        {.family = "jina-bert-v2", .seed = 4},
        {.family = "jina-bert-v3", .seed = 10},
        {.family = "gte", .seed = 11},
        {.family = "modern-bert", .seed = 5, .n_layers = 4},
        {.family = "eurobert", .seed = 6},
        {.family = "ultrabert", .seed = 13, .n_layers = 5},
        {.family = "gemma-embedding", .seed = 7, .n_layers = 7},
        {.family = "qwen2", .seed = 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char directory[64], path[96];
        struct error error;
        struct model *model;
        struct encoder_recipe whole = rows[i];
        whole.n_context = CONTEXT;
        whole.n_vocab = N_VOCAB;
        make_directory(directory);
        snprintf(path, sizeof path, "%s/model.gguf", directory);
        make_encoder(path, &whole);
        assert_ok(model_open(&model, path, &error), &error);
        bool is_long = device_cases_are_wide() || i == 0 || strcmp(whole.family, "modern-bert") == 0;
        check(whole.family, model, POOLING_MEAN, is_long ? CONTEXT : 40,
              whole.type == TENSOR_F32 ? 1e-6 : 2e-3);
        model_close(model);
        remove_directory(directory);
    }
}

int main(void)
{
    if (device_missing())
        return 77;
    return cases_run();
}
