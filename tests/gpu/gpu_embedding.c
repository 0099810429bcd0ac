// Embeddings on the GPU backend: near the CPU's, and the same bytes in steps of any size.
#include "engine/cpu/backend.h"
#include "engine/embedding.h"
#include "tests/gpu/gpu_machine.h"
#include "tests/support/cases.h"
#include "tests/support/open_model.h"

enum { N_EMBD = 64, N_TEXTS = 3, LONGEST = 40, N_VOCAB = 320 };

static const int32_t lengths[N_TEXTS] = {LONGEST, 3, 18};

// [N_TEXTS, N_EMBD]; steps of n_rows tokens.
static void embed_texts(const struct model *model, bool gpu, int32_t n_rows, enum pooling pooling,
                        float *vectors)
{
    static int32_t ids[N_TEXTS][LONGEST];
    struct embedding_text texts[N_TEXTS];
    struct machine machine = {0};
    struct embedder *embedder;
    struct error error = {0};
    struct forward_limits limits = {.n_tokens_max = n_rows,
                                    .n_outputs_max = n_rows,
                                    .n_sequences_max = 2,
                                    .page_positions = 16,
                                    .kv_type = gpu ? KV_F16 : KV_F32_OF_F16,
                                    .hidden_only = true};
    limits.n_pages = (int32_t)embedder_pages(&limits, LONGEST);
    for (int32_t t = 0; t < N_TEXTS; t++) {
        texts[t] = (struct embedding_text){ids[t], lengths[t]};
        for (int32_t i = 0; i < LONGEST; i++)
            ids[t][i] = (i * 53 + 7 * t + 2) % N_VOCAB;
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
                                         .n_longest = LONGEST,
                                         .n_dimensions = N_EMBD};
    assert_ok(embedder_create(&embedder, &embedding, &error), &error);
    assert_ok(embedder_compute(embedder, texts, N_TEXTS, vectors, &error), &error);
    embedder_destroy(embedder);
    machine_close(&machine);
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
        for (enum pooling pooling = POOLING_MEAN; pooling <= POOLING_LAST; pooling += 2) {
            if (!device_cases_are_wide() && (pooling == POOLING_LAST) != i % 2)
                continue;
            float expected[N_TEXTS * N_EMBD], together[N_TEXTS * N_EMBD], apart[N_TEXTS * N_EMBD];
            embed_texts(model, false, 64, pooling, expected);
            embed_texts(model, true, 64, pooling, together);
            embed_texts(model, true, 7, pooling, apart);
            double error = squared_error(together, expected, N_TEXTS * N_EMBD);
            print_message("row %zu: normalized squared error %.2g\n", i, error);
            assert_true(error <= rows[i].bound);
            assert_memory_equal(apart, together, sizeof together);
        }
        model_close(model);
    }
}

int main(void)
{
    if (device_missing())
        return 77;
    return cases_run();
}
