// A sequence's logits are the same bytes however it is computed: alone or among others, in one chunk or token
// by token, with draft tokens or without, by one thread or two, by plain C or any faster kernels.
#include "engine/cpu/backend.h"
#include "engine/forward.h"
#include "engine/model/adapter.h"
#include "schemas/base/elementary.h"
#include "tests/support/cases.h"
#include "tests/support/forward_steps.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_adapter.h"
#include "tests/support/make_model.h"
#include "tests/support/wide.h"

#include <inttypes.h>

enum { SEQUENCES_MAX = STEP_SEQUENCES_MAX, ROWS_MAX = STEP_ROWS_MAX };

// How the first sequence is computed; the others run in the same batch.
struct batch_way {
    const char *name;
    int n_sequences, chunk;
    int n_threads;
    enum cpu_level level;
    int n_drafts; // in each step, of which some are wrong
    bool is_slow; // of plain C on many rows, which the others pass too: see computes()
};

struct batch_subject {
    const char *name;
    struct model_recipe recipe;
    enum kv_type kv_type;
    int length; // of the first sequence
    bool is_type;
    int activation_bits; // 0: 8
    const char *adapted; // names of matrices that an adapter has (tests/support/make_adapter.h); NULL: none
    const char *sets[2]; // likewise, of further sets of adapters; the others of a batch have all sets
    int32_t set;         // the first sequence's
};

static void compute_logits(const struct model *model, const struct batch_subject *subject,
                           const struct batch_way *way, float *logits)
{
    static struct running running[SEQUENCES_MAX];
    static struct made_step made;
    static float read[ROWS_MAX * N_VOCAB];
    struct error error = {0};
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct forward_limits limits = {.n_tokens_max = ROWS_MAX,
                                    .n_outputs_max = ROWS_MAX,
                                    .n_sequences_max = SEQUENCES_MAX + 1,
                                    .page_positions = PAGE_POSITIONS,
                                    .n_pages = PAGES_EACH * way->n_sequences,
                                    .n_state_slots = 2 * SEQUENCES_MAX,
                                    .kv_type = subject->kv_type};
    assert_ok(pool_create(&pool, way->n_threads, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, way->level, &error), &error);
    cpu_backend_set_activation_bits(backend, subject->activation_bits ? subject->activation_bits : 8);
    assert_ok(forward_create(&forward, model, backend, &limits, NULL, NULL, &error), &error);
    start_sequences(running, way->n_sequences, subject->length, way->chunk);
    for (int s = 0; s < way->n_sequences; s++)
        running[s].adapter_set = (subject->set + s) % model_n_adapter_sets(model);
    for (int turn = 0; make_step(&made, running, way->n_sequences, turn); turn++) {
        add_drafts(&made, running, model->shape.recurrent.n_layers ? 0 : way->n_drafts, turn);
        assert_ok(forward_step(forward, &made.step, NULL, read, &error), &error);
        size_t n = (size_t)made.n_first_outputs * N_VOCAB;
        memcpy(logits, read + (size_t)made.first_output * N_VOCAB, n * sizeof *logits);
        logits += n;
        n = (size_t)made.n_accepted * N_VOCAB;
        int32_t first_draft = made.step.n_outputs - made.n_accepted - made.n_rejected;
        memcpy(logits, read + (size_t)first_draft * N_VOCAB, n * sizeof *logits);
        logits += n;
    }
    forward_destroy(forward);
    backend->device.destroy(backend);
    pool_destroy(pool);
}

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

enum { FAMILY_LENGTH = 70, TYPE_LENGTH = 50, TYPE_LENGTH_NARROW = 24 };

static const struct batch_way ways[] = {
    {"alone, at once, plain C, 1 thread", 1, LENGTH_MAX, 1, CPU_PLAIN},
    {"token by token", 1, 1, 1, CPU_PLAIN, .is_slow = true},
    {"in chunks of 7", 1, 7, 1, CPU_PLAIN, .is_slow = true},
    {"2 threads", 1, LENGTH_MAX, 2, CPU_PLAIN, .is_slow = true},
    {"among others", 4, 7, 2, CPU_PLAIN},
    {"AVX2", 1, LENGTH_MAX, 1, CPU_AVX2},
    {"AVX2, among others", 3, 5, 2, CPU_AVX2},
    {"AVX-VNNI, among others", 3, 5, 2, CPU_AVXVNNI},
    {"AVX-512", 1, LENGTH_MAX, 1, CPU_AVX512},
    {"AVX-512, token by token", 1, 1, 2, CPU_AVX512},
    {"AVX-512, among others", 5, 13, 2, CPU_AVX512},
    {"AMX, among others", 5, 13, 2, CPU_AMX},
    {"with drafts, plain C", 1, 1, 1, CPU_PLAIN, 5, .is_slow = true},
    {"with drafts, among others", 4, 3, 2, CPU_AVX2, 20},
    {"with drafts, AVX-512", 2, 1, 2, CPU_AVX512, 8},
};

// Slow ways take most of the time: with the address sanitizer minutes. Families are computed in all of them.
static bool computes(const struct batch_subject *subject, const struct batch_way *way)
{
    bool is_cheap = !SANITIZED && !subject->is_type && subject->length <= FAMILY_LENGTH;
    return !way->is_slow || is_cheap || (tests_are_wide() && !SANITIZED);
}

static void add_adapter(struct model *model, const char *directory, const char *names, uint64_t seed,
                        bool is_set)
{
    struct error error = {0};
    struct made_adapter made;
    struct buffer unknown = {0};
    char path[96];
    if (!names)
        return;
    snprintf(path, sizeof path, "%s/adapter-%d.gguf", directory, (int)seed);
    make_adapter(&made, model->gguf, names, seed, seed % 2 ? 5 : 17, 4.0f);
    write_adapter(&made, path, model_family_name(model), TENSOR_F32);
    assert_ok(is_set ? model_add_adapter_set(model, path, 1.0, &unknown, &error)
                     : model_add_adapter(model, path, 1.0, &unknown, &error),
              &error);
    finish_adapter(&made);
}

// `alone`: with the adapters of the first sequence's set alone, for all sequences.
static struct model *open_made(const struct batch_subject *subject, bool alone, char directory[64])
{
    struct error error = {0};
    struct model *model;
    char path[96];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &subject->recipe);
    assert_ok(model_open(&model, path, &error), &error);
    add_adapter(model, directory, subject->adapted, 41, false);
    for (int i = 0; i < 2; i++)
        if (!alone || subject->set == i + 1)
            add_adapter(model, directory, subject->sets[i], 42 + (uint64_t)i, !alone);
    return model;
}

static void logits_are_the_same_bytes_in_every_way(void **state)
{
    static float first[LENGTH_MAX * N_VOCAB], other[LENGTH_MAX * N_VOCAB];
    struct batch_subject narrow = *(const struct batch_subject *)*state;
    const struct batch_subject *subject = &narrow;
    char directory[64];
    if (narrow.is_type && (SANITIZED || !tests_are_wide()))
        narrow.length = TYPE_LENGTH_NARROW;
    if (subject->sets[0]) {
        struct batch_subject alone = narrow;
        alone.set = 0;
        struct model *reference = open_made(subject, true, directory);
        compute_logits(reference, &alone, &ways[0], first);
        model_close(reference);
        remove_directory(directory);
    }
    struct model *model = open_made(subject, false, directory);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        size_t n_bytes = (size_t)subject->length * N_VOCAB * sizeof *first;
        if (!computes(subject, &ways[i]))
            continue;
        memset(other, 0, n_bytes);
        const bool is_first = i == 0 && !subject->sets[0];
        compute_logits(model, subject, &ways[i], is_first ? first : other);
        if (!is_first && memcmp(first, other, n_bytes) != 0)
            fail_msg("%s, %s: other bytes", subject->name, ways[i].name);
    }
    model_close(model);
    remove_directory(directory);
}

#define FAMILY(label)                                                                                        \
    {                                                                                                        \
        "family " #label, {.family = #label, .seed = 21}, KV_F16, 70                                         \
    }
#define TYPE(label)                                                                                          \
    {                                                                                                        \
        "type " #label, {.type = TENSOR_##label, .seed = 22, .n_embd = 256, .n_heads = 8, .n_ff = 512},      \
            KV_F32, TYPE_LENGTH, true                                                                        \
    }

static struct batch_subject subjects[] = {
    FAMILY(llama),
    FAMILY(llama3),
    FAMILY(mistral),
    FAMILY(mixtral),
    FAMILY(qwen2),
    FAMILY(qwen2moe),
    FAMILY(qwen3),
    FAMILY(qwen3moe),
    FAMILY(qwen3next),
    FAMILY(qwen35moe),
    {"family qwen35, a recurrent last layer", {.family = "qwen35", .seed = 21, .n_layers = 5}, KV_F16, 70},
    FAMILY(lfm2),
    {"family lfm2moe", {.family = "lfm2moe", .seed = 21, .larger = true, .n_layers = 5}, KV_F16, 70},
    FAMILY(granitehybrid),
    {"family granitehybrid, longer than tokens at a time",
     {.family = "granitehybrid", .seed = 22, .larger = true},
     KV_F32,
     LENGTH_MAX},
    FAMILY(nemotron_h),
    {"family nemotron_h_moe", {.family = "nemotron_h_moe", .seed = 21, .n_layers = 6}, KV_F16, 70},
    {"family nemotron_h_moe, latent experts",
     {.family = "nemotron_h_moe", .seed = 22, .larger = true, .n_layers = 6},
     KV_F16,
     70},
    {"family falcon-h1", {.family = "falcon-h1", .seed = 21}, KV_F16, 70},
    FAMILY(mamba2),
    FAMILY(jamba),
    {"family kimi-linear", {.family = "kimi-linear", .seed = 21}, KV_F16, 70},
    {"family kimi-linear, cut by head",
     {.family = "kimi-linear", .seed = 22, .larger = true, .split = true, .n_layers = 5},
     KV_F32,
     70},
    {"family mamba", {.family = "mamba", .seed = 21, .larger = true}, KV_F16, 70},
    FAMILY(gemma),
    FAMILY(gemma2),
    FAMILY(gemma3),
    FAMILY(phi2),
    FAMILY(phi3),
    FAMILY(gpt2),
    FAMILY(gptneox),
    FAMILY(starcoder2),
    FAMILY(stablelm),
    FAMILY(falcon),
    FAMILY(bloom),
    FAMILY(olmo),
    FAMILY(nanochat),
    FAMILY(olmo2),
    FAMILY(granite),
    {"family muse-glimmer", {.family = "muse-glimmer", .seed = 21, .n_layers = 5}, KV_F16, 70},
    {"family granite-swa", {.family = "granite-swa", .seed = 21, .n_layers = 5}, KV_F16, 70},
    FAMILY(smollm3),
    FAMILY(glm4),
    FAMILY(glm4moe),
    FAMILY(cohere2),
    {"family deci", {.family = "deci", .seed = 21, .n_layers = 8}, KV_F16, 70},
    FAMILY(openelm),
    {"family deepseek32", {.family = "deepseek32", .seed = 21}, KV_F16, 70},
    {"family glm-dsa, pages in bytes", {.family = "glm-dsa", .seed = 21, .n_layers = 4}, KV_Q8_0, 70},
    {"family mimo2", {.family = "mimo2", .seed = 21, .window = 20}, KV_F16, 70},
    {"family step35", {.family = "step35", .seed = 21, .window = 20}, KV_F16, 70},
    {"family laguna", {.family = "laguna", .seed = 21, .larger = true, .window = 20}, KV_F16, 70},
    FAMILY(gemma4),
    FAMILY(gemma3n),
    {"family gemma4, experts", {.family = "gemma4", .seed = 21, .larger = true, .split = true}, KV_F16, 70},
    {"family gemma4, pages in bytes", {.family = "gemma4", .seed = 33, .head_dim = 20}, KV_Q8_0, 70},
    {"family mistral3", {.family = "mistral3", .seed = 21, .larger = true}, KV_F16, 70},
    {"family gpt-oss", {.family = "gpt-oss", .seed = 21, .larger = true}, KV_F16, 70},
    {"family deepseek2", {.family = "deepseek2", .seed = 21, .larger = true}, KV_F16, 70},
    {"family deepseek2, cut by head", {.family = "deepseek2", .seed = 21, .split = true}, KV_F16, 70},
    FAMILY(phimoe),
    FAMILY(exaone4),
    {"family hunyuan-moe", {.family = "hunyuan-moe", .seed = 21}, KV_F16, 70},
    {"family minimax-m2", {.family = "minimax-m2", .seed = 21}, KV_F16, 70},
    {"family ernie4_5-moe", {.family = "ernie4_5-moe", .seed = 21}, KV_F16, 70},
    FAMILY(nemotron),
    FAMILY(minicpm3),
    FAMILY(apertus),
    FAMILY(afmoe),
    {"family llama4", {.family = "llama4", .seed = 21, .n_layers = 4, .window = 20}, KV_F16, 70},
    {"family exaone-moe", {.family = "exaone-moe", .seed = 21, .n_layers = 4, .window = 20}, KV_F16, 70},
    {"family mistral4", {.family = "mistral4", .seed = 21, .larger = true}, KV_F16, 70},
    FAMILY(gptj),
    FAMILY(gpt_neo),
    {"family olmo_hybrid", {.family = "olmo_hybrid", .seed = 21, .larger = true, .n_layers = 5}, KV_F16, 70},
    {"family lfm3", {.family = "lfm3", .seed = 21, .n_layers = 5, .window = 20}, KV_F16, 70},
    TYPE(F32),
    TYPE(F16),
    TYPE(BF16),
    TYPE(Q8_0),
    TYPE(Q4_0),
    TYPE(Q4_1),
    TYPE(Q5_0),
    TYPE(Q5_1),
    TYPE(Q2_K),
    TYPE(Q3_K),
    TYPE(Q4_K),
    TYPE(Q5_K),
    TYPE(Q6_K),
    TYPE(IQ4_NL),
    TYPE(IQ4_XS),
    TYPE(NVFP4),
    {"scales of experts",
     {.family = "qwen3moe", .type = TENSOR_NVFP4, .seed = 32, .n_embd = 256, .n_ff = 512, .scaled = true},
     KV_F16,
     70},
    TYPE(IQ2_XXS),
    TYPE(IQ2_XS),
    TYPE(IQ2_S),
    TYPE(IQ3_XXS),
    TYPE(IQ3_S),
    TYPE(IQ1_S),
    TYPE(IQ1_M),
    TYPE(TQ1_0),
    TYPE(TQ2_0),
    {"activations of 16 bits, Q4_K",
     {.type = TENSOR_Q4_K, .seed = 35, .n_embd = 256, .n_heads = 8, .n_ff = 512},
     KV_F32,
     TYPE_LENGTH,
     true,
     16},
    {"activations of 16 bits, scales of experts",
     {.family = "qwen3moe", .type = TENSOR_NVFP4, .seed = 36, .n_embd = 256, .n_ff = 512, .scaled = true},
     KV_F16,
     70,
     .activation_bits = 16},
    {"activations of 16 bits, latents",
     {.family = "deepseek2", .type = TENSOR_Q8_0, .seed = 37, .larger = true},
     KV_F16,
     70,
     .activation_bits = 16},
    {"an adapter of all matrices",
     {.type = TENSOR_Q8_0, .seed = 38},
     KV_F16,
     70,
     .adapted = "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down output"},
    {"an adapter of fused matrices of F32, widths that fill no vector",
     {.family = "phi3", .seed = 39, .n_embd = 52, .n_heads = 2, .n_ff = 37},
     KV_F32,
     70,
     .adapted = "attn_qkv ffn_up ffn_down"},
    {"an adapter beside experts",
     {.family = "qwen2moe", .type = TENSOR_Q4_K, .seed = 40, .n_embd = 256, .n_ff = 512},
     KV_F16,
     70,
     .adapted = "attn_q attn_v ffn_gate_inp ffn_up_shexp"},
    {"rows without adapters among adapted ones",
     {.type = TENSOR_Q8_0, .seed = 41},
     KV_F16,
     70,
     .sets = {"attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down output", "attn_v ffn_up"}},
    {"rows of one adapter among others",
     {.type = TENSOR_Q8_0, .seed = 41},
     KV_F16,
     70,
     .sets = {"attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down output", "attn_v ffn_up"},
     .set = 1},
    {"rows of another adapter, beside one of all rows",
     {.family = "qwen2moe", .type = TENSOR_Q4_K, .seed = 41, .n_embd = 256, .n_ff = 512},
     KV_F16,
     70,
     .adapted = "attn_q ffn_up_shexp",
     .sets = {"attn_q attn_v ffn_gate_inp", "attn_q attn_output ffn_gate_inp ffn_down_shexp"},
     .set = 2},
    {"two norms of falcon", {.family = "falcon", .seed = 26, .larger = true}, KV_F16, 70},
    {"head norms of stablelm", {.family = "stablelm", .seed = 27, .larger = true}, KV_F16, 70},
    {"longer than a segment of attention", {.seed = 23, .n_layers = 3}, KV_F32, LENGTH_MAX},
    {"longer than a segment, half precision, windows",
     {.family = "mistral", .seed = 24, .window = 270},
     KV_F16,
     LENGTH_MAX},
    {"longer than a segment, windows that do not slide",
     {.family = "llama4", .seed = 24, .window = 270},
     KV_F16,
     LENGTH_MAX},
    {"longer than a segment, selected positions",
     {.family = "deepseek32",
      .seed = 24,
      .keys = {{"deepseek32.attention.indexer.top_k", GGUF_U32, 262, NULL}}},
     KV_F32,
     LENGTH_MAX},
    {"pages in bytes", {.seed = 28, .n_layers = 3}, KV_Q8_0, LENGTH_MAX},
    {"pages in bytes, windows, soft caps", {.family = "gemma2", .seed = 29}, KV_Q8_0, 70},
    {"pages in bytes of latents", {.family = "deepseek2", .seed = 30, .larger = true}, KV_Q8_0, 70},
    {"widths that fill no vector, pages in bytes",
     {.seed = 31, .n_embd = 52, .n_heads = 2, .head_dim = 26, .n_ff = 37},
     KV_Q8_0,
     70},
    {"widths that fill no vector",
     {.seed = 25, .n_embd = 52, .n_heads = 2, .head_dim = 26, .n_ff = 37},
     KV_F16,
     70},
};

enum { N = sizeof subjects / sizeof *subjects };

// FNV-1a.
static uint64_t checksum(uint64_t sum, const void *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        sum = (sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001B3u;
    return sum;
}

static uint64_t checksum_elementary(void)
{
    uint64_t sum = 0;
    for (int i = -40000; i < 40000; i++) {
        double x = i * 0.0173, values[4] = {elementary_exp(x), elementary_log(fabs(x) + 1e-9)};
        elementary_sincos(x, &values[2], &values[3]);
        float negative = elementary_exp_negative((float)-fabs(x / 7));
        sum = checksum(checksum(sum, values, sizeof values), &negative, sizeof negative);
    }
    return sum;
}

static void print_checksums(void)
{
    static float logits[LENGTH_MAX * N_VOCAB];
    const struct batch_way way = {"among others", 3, 13, 2, CPU_AVX512};
    printf("elementary functions: %016" PRIx64 "\n", checksum_elementary());
    for (int i = 0; i < N; i++) {
        char directory[64];
        struct model *model = open_made(&subjects[i], false, directory);
        compute_logits(model, &subjects[i], &way, logits);
        size_t n_bytes = (size_t)subjects[i].length * N_VOCAB * sizeof *logits;
        printf("%s: %016" PRIx64 "\n", subjects[i].name, checksum(0, logits, n_bytes));
        model_close(model);
        remove_directory(directory);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bytes") == 0) {
        print_checksums();
        return 0;
    }
    static struct CMUnitTest tests[N];
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){subjects[i].name, logits_are_the_same_bytes_in_every_way, NULL, NULL,
                                       &subjects[i]};
    return _cmocka_run_group_tests("golden_invariance", tests, N, NULL, NULL);
}
