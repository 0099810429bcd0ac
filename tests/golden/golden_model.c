// Models of our own making against plain double precision: every family in float32, every tensor type in the
// llama family.
#include "engine/cpu/backend.h"
#include "engine/logits.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"
#include "tests/support/reference_forward.h"

#include <math.h>

enum { N_IDS = 40, N_VOCAB = 320 };

struct golden {
    const char *name;
    struct model_recipe recipe;
    enum kv_type kv_type;
    double nmse_max;
};

static void evaluate(const char *path, const int32_t *ids, enum kv_type kv_type, float *logits)
{
    struct error error = {0};
    struct model *model;
    struct pool *pool;
    struct backend *backend;
    assert_ok(model_open(&model, path, &error), &error);
    assert_int_equal(model->shape.n_vocab, N_VOCAB);
    assert_ok(pool_create(&pool, 2, &error), &error);
    assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
    assert_ok(logits_of_text(model, backend, kv_type, ids, N_IDS, logits, &error), &error);
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
}

static void logits_agree_with_double_precision(void **state)
{
    static float logits[N_IDS * N_VOCAB];
    static double expected[N_IDS * N_VOCAB];
    const struct golden *golden = *state;
    char directory[64], path[96];
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 97 + 13) % N_VOCAB;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &golden->recipe);
    reference_logits(path, ids, N_IDS, expected);
    evaluate(path, ids, golden->kv_type, logits);
    remove_directory(directory);
    double error = 0.0, norm = 0.0;
    for (int i = 0; i < N_IDS * N_VOCAB; i++) {
        error += ((double)logits[i] - expected[i]) * ((double)logits[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    print_message("%s: nmse %.2g of %.2g\n", golden->name, error / norm, golden->nmse_max);
    assert_true(error / norm <= golden->nmse_max);
}

// float32: rounding alone. Quantized: x is int8 in products.
#define EXACT 1e-10
#define INT8  3e-3
// gpt-oss's gated activation reaches further: one large item costs its 31 neighbors more of int8's range.
#define INT8_WIDE 1e-2

#define FAMILY(label, bound)                                                                                 \
    {                                                                                                        \
        "family " #label, {.family = #label, .seed = 11}, KV_F32, bound                                      \
    }
#define TYPE(label, bound)                                                                                   \
    {                                                                                                        \
        "type " #label, {.type = TENSOR_##label, .seed = 5, .n_embd = 256, .n_heads = 8, .n_ff = 512},       \
            KV_F32, bound                                                                                    \
    }

static struct golden goldens[] = {
    FAMILY(llama, EXACT),
    FAMILY(llama3, EXACT),
    FAMILY(mistral, EXACT),
    FAMILY(mixtral, EXACT),
    FAMILY(qwen2, EXACT),
    FAMILY(qwen2moe, EXACT),
    FAMILY(qwen3, EXACT),
    FAMILY(qwen3moe, EXACT),
    FAMILY(qwen3next, EXACT),
    FAMILY(qwen35, EXACT),
    FAMILY(qwen35moe, EXACT),
    FAMILY(qwen4_exp, EXACT),
    {"gates of sigmoids and blocks of one position of qwen4_exp",
     {.family = "qwen4_exp",
      .seed = 3,
      .larger = true,
      .n_layers = 8,
      .keys = {{"qwen4_exp.attention.indexer.block_size", GGUF_U32, 1, NULL}}},
     KV_F32,
     EXACT},
    {"blocks of 5 positions of qwen4_exp, pages of integers",
     {.family = "qwen4_exp",
      .seed = 4,
      .keys = {{"qwen4_exp.attention.indexer.block_size", GGUF_U32, 5, NULL},
               {"qwen4_exp.attention.indexer.top_k", GGUF_U32, 10, NULL}}},
     KV_F16,
     2e-7},
    {"a recurrent last layer, layers beyond",
     {.family = "qwen35", .seed = 3, .n_layers = 6, .n_beyond = 1},
     KV_F32,
     EXACT},
    FAMILY(lfm2, EXACT),
    FAMILY(lfm2moe, EXACT),
    {"biases of lfm2", {.family = "lfm2", .seed = 3, .larger = true, .n_layers = 5}, KV_F32, EXACT},
    FAMILY(granitehybrid, EXACT),
    {"one norm and biases of granitehybrid",
     {.family = "granitehybrid", .seed = 3, .larger = true, .n_layers = 5},
     KV_F32,
     EXACT},
    FAMILY(nemotron_h, EXACT),
    FAMILY(nemotron_h_moe, EXACT),
    {"a recurrent last layer and latent experts of nemotron_h_moe",
     {.family = "nemotron_h_moe", .seed = 3, .larger = true, .n_layers = 5},
     KV_F32,
     EXACT},
    {"family falcon-h1", {.family = "falcon-h1", .seed = 11}, KV_F32, EXACT},
    {"one norm of falcon-h1", {.family = "falcon-h1", .seed = 3, .larger = true}, KV_F32, EXACT},
    FAMILY(mamba2, EXACT),
    FAMILY(jamba, EXACT),
    FAMILY(mamba, EXACT),
    {"family kimi-linear", {.family = "kimi-linear", .seed = 11}, KV_F32, EXACT},
    {"other heads, latent queries and groups of experts of kimi-linear",
     {.family = "kimi-linear", .seed = 3, .larger = true, .n_layers = 6},
     KV_F32,
     EXACT},
    {"attention cut by head, a recurrent last layer of kimi-linear",
     {.family = "kimi-linear", .seed = 5, .split = true, .n_layers = 4},
     KV_F32,
     EXACT},
    {"norms without weights of mamba", {.family = "mamba", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"another epsilon of the norms of mamba",
     {.family = "mamba",
      .seed = 3,
      .larger = true,
      .keys = {{"mamba.ssm.dt_b_c_rms_epsilon", GGUF_F32, 0.25, NULL}}},
     KV_F32,
     EXACT},
    FAMILY(gemma, EXACT),
    FAMILY(gemma2, EXACT),
    FAMILY(gemma3, EXACT),
    FAMILY(phi2, EXACT),
    FAMILY(phi3, EXACT),
    FAMILY(gpt2, EXACT),
    FAMILY(gptneox, EXACT),
    FAMILY(starcoder2, EXACT),
    FAMILY(stablelm, EXACT),
    FAMILY(falcon, EXACT),
    FAMILY(bloom, EXACT),
    FAMILY(deepseek, EXACT),
    FAMILY(bailingmoe, EXACT),
    FAMILY(orion, EXACT),
    FAMILY(xverse, EXACT),
    FAMILY(maincoder, EXACT),
    {"family pangu-embedded", {.family = "pangu-embedded", .seed = 11}, KV_F32, EXACT},
    FAMILY(hunyuan_vl, EXACT),
    FAMILY(paddleocr, EXACT),
    FAMILY(bitnet, EXACT),
    {"squared ReLU of bitnet", {.family = "bitnet", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"ternary weights of bitnet",
     {.family = "bitnet", .type = TENSOR_TQ2_0, .seed = 5, .n_embd = 256, .n_ff = 512, .scaled = true},
     KV_F32,
     INT8},
    {"family modernbert-decoder",
     {.family = "modernbert-decoder", .seed = 11, .n_layers = 5, .window = 9},
     KV_F32,
     EXACT},
    {"biases of modernbert-decoder's head",
     {.family = "modernbert-decoder", .seed = 3, .larger = true, .tied = true},
     KV_F32,
     EXACT},
    {"family lara-mini", {.family = "lara-mini", .seed = 11, .window = 9}, KV_F32, EXACT},
    {"a recurrent last layer of lara-mini", {.family = "lara-mini", .seed = 3, .n_layers = 5}, KV_F32, EXACT},
    FAMILY(olmo, EXACT),
    FAMILY(nanochat, EXACT),
    FAMILY(olmo2, EXACT),
    FAMILY(granite, EXACT),
    {"family muse-glimmer",
     {.family = "muse-glimmer", .seed = 11, .n_layers = 5, .window = 9},
     KV_F32,
     EXACT},
    {"family granite-swa", {.family = "granite-swa", .seed = 11, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    FAMILY(granitemoe, EXACT),
    FAMILY(smollm3, EXACT),
    FAMILY(mistral3, EXACT),
    {"family gpt-oss", {.family = "gpt-oss", .seed = 11}, KV_F32, EXACT},
    FAMILY(glm4, EXACT),
    FAMILY(glm4moe, EXACT),
    FAMILY(deepseek2, EXACT),
    FAMILY(dots1, EXACT),
    FAMILY(seed_oss, EXACT),
    FAMILY(ernie4_5, EXACT),
    {"family command-r", {.family = "command-r", .seed = 11}, KV_F32, EXACT},
    FAMILY(cohere2, EXACT),
    {"family cohere2moe", {.family = "cohere2moe", .seed = 11, .n_layers = 6, .window = 9}, KV_F32, EXACT},
    {"the softmax and the sum of cohere2moe",
     {.family = "cohere2moe",
      .seed = 3,
      .n_layers = 5,
      .window = 9,
      .keys = {{"cohere2moe.expert_gating_func", GGUF_U32, 1, NULL},
               {"cohere2moe.expert_shared_averaged", GGUF_BOOL, 0, NULL}}},
     KV_F32,
     EXACT},
    FAMILY(internlm2, EXACT),
    FAMILY(qwen2vl, EXACT),
    FAMILY(qwen3vl, EXACT),
    FAMILY(qwen3vlmoe, EXACT),
    FAMILY(phimoe, EXACT),
    {"family exaone4", {.family = "exaone4", .seed = 11, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    {"family hunyuan-dense", {.family = "hunyuan-dense", .seed = 11}, KV_F32, EXACT},
    {"family hunyuan-moe", {.family = "hunyuan-moe", .seed = 11}, KV_F32, EXACT},
    {"family minimax-m2", {.family = "minimax-m2", .seed = 11}, KV_F32, EXACT},
    {"family minimax-m3", {.family = "minimax-m3", .seed = 11}, KV_F32, EXACT},
    {"two own blocks of minimax-m3, pages of integers",
     {.family = "minimax-m3",
      .seed = 3,
      .n_layers = 3,
      .keys = {{"minimax-m3.attention.indexer.local_blocks", GGUF_U32, 2, NULL},
               {"minimax-m3.attention.indexer.block_size", GGUF_U32, 3, NULL}}},
     KV_F16,
     2e-7},
    {"blocks of minimax-m3 of which none is its own",
     {.family = "minimax-m3",
      .seed = 4,
      .keys = {{"minimax-m3.attention.indexer.local_blocks", GGUF_U32, 0, NULL}}},
     KV_F32,
     EXACT},
    {"family ernie4_5-moe", {.family = "ernie4_5-moe", .seed = 11}, KV_F32, EXACT},
    FAMILY(olmoe, EXACT),
    FAMILY(nemotron, EXACT),
    FAMILY(minicpm3, EXACT),
    FAMILY(arcee, EXACT),
    FAMILY(apertus, EXACT),
    {"family afmoe", {.family = "afmoe", .seed = 11, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    {"family llama4", {.family = "llama4", .seed = 11, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    {"one expert of llama4", {.family = "llama4", .seed = 12, .n_experts_used = 1}, KV_F32, EXACT},
    {"family deci", {.family = "deci", .seed = 11, .n_layers = 7}, KV_F32, EXACT},
    {"layers without heads at the end of deci", {.family = "deci", .seed = 3, .n_layers = 8}, KV_F32, EXACT},
    FAMILY(openelm, EXACT),
    FAMILY(deepseek32, EXACT),
    {"family glm-dsa", {.family = "glm-dsa", .seed = 11, .n_layers = 5}, KV_F32, EXACT},
    {"one selected position of deepseek32",
     {.family = "deepseek32", .seed = 3, .keys = {{"deepseek32.attention.indexer.top_k", GGUF_U32, 1, NULL}}},
     KV_F32,
     EXACT},
    {"a latent of glm-dsa cut by head",
     {.family = "glm-dsa", .seed = 3, .split = true, .n_layers = 4},
     KV_F32,
     EXACT},
    {"selected positions of pages of integers", {.family = "deepseek32", .seed = 3}, KV_F16, 2e-7},
    {"selected positions of pages of bytes", {.family = "glm-dsa", .seed = 3}, KV_Q8_0, 1e-3},
    FAMILY(mimo2, EXACT),
    FAMILY(step35, EXACT),
    FAMILY(laguna, EXACT),
    {"windows and layers beyond of mimo2",
     {.family = "mimo2", .seed = 3, .window = 9, .n_layers = 6, .n_beyond = 2},
     KV_F32,
     EXACT},
    {"windows and an odd width of step35",
     {.family = "step35", .seed = 3, .window = 9, .head_dim = 20},
     KV_F32,
     EXACT},
    {"gates of items, YaRN and a router's cap of laguna",
     {.family = "laguna", .seed = 3, .larger = true, .window = 9},
     KV_F32,
     EXACT},
    FAMILY(gemma4, EXACT),
    FAMILY(gemma3n, EXACT),
    FAMILY(exaone, EXACT),
    {"family exaone-moe", {.family = "exaone-moe", .seed = 11, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    FAMILY(hy_v3, EXACT),
    FAMILY(hyperclovax, EXACT),
    FAMILY(chatglm, EXACT),
    {"family mellum", {.family = "mellum", .seed = 11, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    FAMILY(bailingmoe2, EXACT),
    FAMILY(flex_olmo, EXACT),
    FAMILY(jais2, EXACT),
    FAMILY(vaultgemma, EXACT),
    FAMILY(mistral4, EXACT),
    {"the temperature of mistral4", {.family = "mistral4", .seed = 3, .larger = true}, KV_F32, EXACT},
    FAMILY(minicpm, EXACT),
    FAMILY(starcoder, EXACT),
    FAMILY(gptj, EXACT),
    {"family gpt_neo", {.family = "gpt_neo", .seed = 11, .window = 9}, KV_F32, EXACT},
    FAMILY(bamba, EXACT),
    FAMILY(olmo_hybrid, EXACT),
    {"rotations of olmo_hybrid",
     {.family = "olmo_hybrid", .seed = 3, .larger = true, .n_layers = 5},
     KV_F32,
     EXACT},
    {"family lfm3", {.family = "lfm3", .seed = 11, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    TYPE(F16, EXACT),
    TYPE(BF16, 5e-4),
    TYPE(Q8_0, INT8),
    TYPE(Q4_0, INT8),
    TYPE(Q4_1, INT8),
    TYPE(Q5_0, INT8),
    TYPE(Q5_1, INT8),
    TYPE(Q2_K, INT8),
    TYPE(Q3_K, INT8),
    TYPE(Q4_K, INT8),
    TYPE(Q5_K, INT8),
    TYPE(Q6_K, INT8),
    TYPE(IQ4_NL, INT8),
    TYPE(IQ4_XS, INT8),
    TYPE(NVFP4, INT8),
    {"scales of matrices",
     {.type = TENSOR_NVFP4, .seed = 5, .n_embd = 256, .n_heads = 8, .n_ff = 512, .scaled = true},
     KV_F32,
     INT8},
    {"scales of experts",
     {.family = "qwen3moe", .type = TENSOR_NVFP4, .seed = 5, .n_embd = 256, .n_ff = 512, .scaled = true},
     KV_F32,
     INT8},
    {"scales of experts in float32", {.family = "mixtral", .seed = 5, .scaled = true}, KV_F32, EXACT},
    TYPE(IQ2_XXS, INT8),
    TYPE(IQ2_XS, INT8),
    TYPE(IQ2_S, INT8),
    TYPE(IQ3_XXS, INT8),
    TYPE(IQ3_S, INT8),
    TYPE(IQ1_S, INT8),
    TYPE(IQ1_M, INT8),
    TYPE(TQ1_0, INT8),
    TYPE(TQ2_0, INT8),
    {"two norms of falcon", {.family = "falcon", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"head norms and parallel residual of stablelm",
     {.family = "stablelm", .seed = 3, .larger = true},
     KV_F32,
     EXACT},
    {"long rope factors of phi3", {.family = "phi3", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"gptneox in series",
     {.family = "gptneox", .seed = 3, .keys = {{"gptneox.use_parallel_residual", GGUF_BOOL, 0, NULL}}},
     KV_F32,
     EXACT},
    {"gptneox with the tanh form",
     {.family = "gptneox", .seed = 3, .keys = {{"gptneox.hidden_activation", GGUF_STRING, 0, "gelu_new"}}},
     KV_F32,
     EXACT},
    {"five layers of smollm3", {.family = "smollm3", .seed = 3, .n_layers = 5}, KV_F32, EXACT},
    {"five layers of cohere2", {.family = "cohere2", .seed = 3, .n_layers = 5, .window = 9}, KV_F32, EXACT},
    {"norms of heads of command-r", {.family = "command-r", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"the temperature of mistral3", {.family = "mistral3", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"the longer context of gpt-oss", {.family = "gpt-oss", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"experts of gpt-oss in MXFP4",
     {.family = "gpt-oss", .seed = 3, .experts_type = TENSOR_MXFP4, .n_ff = 128},
     KV_F32,
     INT8_WIDE},
    {"two experts of mixtral, of which one computes",
     {.family = "mixtral", .seed = 3, .n_experts = 2, .n_experts_used = 1},
     KV_F32,
     EXACT},
    {"gates of gpt-oss that reach the limit", {.family = "gpt-oss", .seed = 3, .gain = 8}, KV_F32, 1e-9},
    {"windows of olmo2", {.family = "olmo2", .seed = 3, .larger = true, .n_layers = 5}, KV_F32, EXACT},
    {"sections of glm4", {.family = "glm4", .seed = 3, .larger = true}, KV_F32, EXACT},
    {"norms of heads of glm4moe, layers beyond",
     {.family = "glm4moe", .seed = 3, .larger = true, .n_layers = 3, .n_beyond = 1},
     KV_F32,
     EXACT},
    {"compressed queries and groups of experts of deepseek2",
     {.family = "deepseek2", .seed = 3, .larger = true, .n_layers = 3, .head_dim = 24},
     KV_F32,
     EXACT},
    {"a latent of deepseek2 cut by head", {.family = "deepseek2", .seed = 3, .split = true}, KV_F32, EXACT},
    {"a latent of deepseek2 in Q8_0", {.family = "deepseek2", .seed = 3, .type = TENSOR_Q8_0}, KV_F32, INT8},
    {"a latent of deepseek2 in BF16", {.family = "deepseek2", .seed = 3, .type = TENSOR_BF16}, KV_F32, 5e-4},
    {"pages in half precision", {.seed = 3}, KV_F32_OF_F16, 1e-5},
    {"pages of integers", {.seed = 3}, KV_F16, 2e-7},
    {"pages of bytes", {.seed = 3}, KV_Q8_0, 1e-3},
    {"an output matrix tied to the embedding", {.seed = 3, .tied = true}, KV_F32, EXACT},
    {"as many key-value heads as heads", {.seed = 3, .n_kv_heads = 4}, KV_F32, EXACT},
    {"one key-value head", {.seed = 3, .n_kv_heads = 1}, KV_F32, EXACT},
    {"widths that fill no vector",
     {.seed = 3, .n_embd = 52, .n_heads = 2, .head_dim = 26, .n_ff = 37},
     KV_F32,
     EXACT},
    {"six heads of bloom", {.family = "bloom", .seed = 3, .n_embd = 96, .n_heads = 6}, KV_F32, EXACT},
    {"a window shorter than a page", {.family = "mistral", .seed = 3, .window = 5}, KV_F32, EXACT},
    {"experts beside the MLP of gemma4, values from keys",
     {.family = "gemma4", .seed = 3, .larger = true, .window = 9},
     KV_F32,
     EXACT},
    {"gate and up of gemma4's experts in one tensor",
     {.family = "gemma4", .seed = 3, .larger = true, .split = true},
     KV_F32,
     EXACT},
    {"gate and up of gemma4's experts in one tensor of Q8_0",
     {.family = "gemma4", .seed = 3, .larger = true, .split = true, .experts_type = TENSOR_Q8_0},
     KV_F32,
     INT8},
    {"gemma4 with inputs of layers in Q8_0, pages of integers",
     {.family = "gemma4", .seed = 3, .type = TENSOR_Q8_0, .head_dim = 20},
     KV_F16,
     INT8},
    {"seven layers of gemma3n", {.family = "gemma3n", .seed = 3, .n_layers = 7, .window = 5}, KV_F32, EXACT},
    {"seven layers of gemma3", {.family = "gemma3", .seed = 3, .n_layers = 7, .window = 9}, KV_F32, EXACT},
};

int main(void)
{
    enum { N = sizeof goldens / sizeof *goldens };
    static struct CMUnitTest tests[N];
    for (int i = 0; i < N; i++)
        tests[i] =
            (struct CMUnitTest){goldens[i].name, logits_agree_with_double_precision, NULL, NULL, &goldens[i]};
    return _cmocka_run_group_tests("golden_model", tests, N, NULL, NULL);
}
