// The whole forward pass on the GPU backend, for all families and weight types: near the CPU's logits, the
// same bytes alone and among others and in any chunks, and the same draws from a graph as from launches one
// by one.
#include "engine/cpu/backend.h"
#include "engine/forward.h"
#include "tests/support/cases.h"
#include "tests/support/forward_steps.h"
#include "tests/gpu/gpu_machine.h"
#include "tests/support/open_model.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { SEQUENCES_MAX = 4, ROWS_MAX = 600 };

struct forward_subject {
    const char *name;
    struct model_recipe recipe;
    enum kv_type kv_type;
    int length;
    bool repeats; // each of its operations is another subject's too: runs where all do (tests/support/wide.h)
    int32_t n_rows_max; // 0: ROWS_MAX
    bool untuned;       // loading computes no steps, as for a hybrid
};

#define FAMILY(family_name)                                                                                  \
    {                                                                                                        \
        family_name, {.family = family_name, .seed = 11}, KV_F16, 24                                         \
    }
#define FAMILY_ALIKE(family_name)                                                                            \
    {                                                                                                        \
        family_name, {.family = family_name, .seed = 11}, KV_F16, 24, .repeats = true                        \
    }
#define TYPE(type_name)                                                                                      \
    {                                                                                                        \
#type_name,                                                                                          \
            {.type = TENSOR_##type_name, .seed = 12, .n_layers = 1, .n_embd = 256, .n_ff = 256 }, KV_F16, 20 \
    }
// Whole groups of gates: the operand behind them has a scale that follows from the weights (gpu/output_bound.h).
#define GATES(family_name, type_name, ...)                                                                   \
    {                                                                                                        \
        "gates of " family_name,                                                                             \
            {.family = family_name, .type = TENSOR_##type_name, .seed = 37, .n_ff = 256}, KV_F16, 24,        \
            __VA_ARGS__                                                                                      \
    }

static struct forward_subject subjects[] = {
    FAMILY("llama"),
    FAMILY_ALIKE("llama3"),
    FAMILY_ALIKE("mistral"),
    FAMILY("mixtral"),
    FAMILY_ALIKE("qwen2"),
    FAMILY("qwen2moe"),
    FAMILY_ALIKE("qwen3"),
    FAMILY("qwen3moe"),
    FAMILY_ALIKE("gemma"),
    FAMILY("gemma2"),
    FAMILY("gemma3"),
    FAMILY("phi2"),
    FAMILY("phi3"),
    FAMILY("gpt2"),
    FAMILY_ALIKE("gptneox"),
    FAMILY_ALIKE("starcoder2"),
    FAMILY("stablelm"),
    FAMILY("falcon"),
    FAMILY("bloom"),
    FAMILY("olmo"),
    FAMILY("olmo2"),
    FAMILY("nanochat"),
    FAMILY("granite"),
    {"granite-swa", {.family = "granite-swa", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24},
    {"sinks of granite-swa with pages in bytes",
     {.family = "granite-swa", .seed = 3, .window = 9, .type = TENSOR_F16},
     KV_Q8_0,
     40},
    {"muse-glimmer", {.family = "muse-glimmer", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24},
    {"cohere2moe", {.family = "cohere2moe", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24},
    {"cohere2moe in F16",
     {.family = "cohere2moe", .seed = 5, .n_layers = 5, .window = 20, .type = TENSOR_F16},
     KV_F16,
     40},
    {"muse-glimmer in F16", {.family = "muse-glimmer", .seed = 3, .type = TENSOR_F16}, KV_F16, 40},
    FAMILY("smollm3"),
    FAMILY("glm4"),
    FAMILY("glm4moe"),
    FAMILY("cohere2"),
    FAMILY("gpt-oss"),
    FAMILY("phimoe"),
    FAMILY("hunyuan-moe"),
    FAMILY("bailingmoe"),
    FAMILY_ALIKE("deepseek"),
    FAMILY("orion"),
    FAMILY_ALIKE("xverse"),
    FAMILY_ALIKE("maincoder"),
    FAMILY_ALIKE("pangu-embedded"),
    FAMILY_ALIKE("hunyuan_vl"),
    FAMILY_ALIKE("paddleocr"),
    FAMILY("nemotron"),
    FAMILY("minicpm3"),
    FAMILY("qwen3next"),
    FAMILY("qwen35"),
    FAMILY_ALIKE("qwen35moe"),
    FAMILY_ALIKE("olmo_hybrid"),
    FAMILY("kimi-linear"),
    FAMILY("lfm2"),
    FAMILY_ALIKE("lfm2moe"),
    FAMILY_ALIKE("granitehybrid"),
    FAMILY("falcon-h1"),
    FAMILY_ALIKE("nemotron_h"),
    FAMILY("nemotron_h_moe"),
    FAMILY("jamba"),
    FAMILY_ALIKE("mamba2"),
    {"rows of several blocks of a convolution", {.family = "qwen35", .seed = 11, .n_layers = 4}, KV_F16, 150},
    {"norms without weights of mamba", {.family = "mamba", .seed = 3, .larger = true}, KV_F16, 24},
    {"afmoe", {.family = "afmoe", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24},
    FAMILY("gemma4"),
    {"experts beside the MLP of gemma4",
     {.family = "gemma4", .seed = 3, .larger = true, .window = 9},
     KV_F16,
     40},
    {"gate and up of gemma4's experts in one tensor",
     {.family = "gemma4", .seed = 3, .larger = true, .split = true},
     KV_F16,
     24},
    {"gemma4 in F16", {.family = "gemma4", .seed = 3, .type = TENSOR_F16}, KV_F16, 40},
    {"gemma4 with pages in bytes", {.family = "gemma4", .seed = 3, .head_dim = 20}, KV_Q8_0, 40},
    {"windows of gemma4, longer than a segment of attention",
     {.family = "gemma4", .seed = 3, .n_layers = 2, .window = 40},
     KV_F16,
     LENGTH_MAX},
    {"seven layers of gemma3n", {.family = "gemma3n", .seed = 3, .n_layers = 7, .window = 5}, KV_F16, 24},
    FAMILY_ALIKE("gemma3n"),
    {"gemma3n in Q8_0", {.family = "gemma3n", .seed = 3, .type = TENSOR_Q8_0}, KV_F16, 24},
    {"llama4", {.family = "llama4", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24},
    {"one expert of llama4 in F16",
     {.family = "llama4", .seed = 12, .n_experts_used = 1, .type = TENSOR_F16, .n_ff = 256},
     KV_F16,
     40},
    {"chunks of llama4, longer than a segment of attention",
     {.family = "llama4", .seed = 24, .window = 270},
     KV_F16,
     LENGTH_MAX},
    FAMILY("apertus"),
    {"apertus in F16", {.family = "apertus", .seed = 11, .type = TENSOR_F16, .n_ff = 256}, KV_F16, 24},
    FAMILY("mistral4"),
    {"the temperature of mistral4", {.family = "mistral4", .seed = 3, .larger = true}, KV_F16, 24},
    {"deci", {.family = "deci", .seed = 11, .n_layers = 7}, KV_F16, 24},
    FAMILY("openelm"),
    {"mimo2", {.family = "mimo2", .seed = 3, .window = 9, .n_layers = 6}, KV_F16, 24},
    {"step35", {.family = "step35", .seed = 3, .window = 9, .head_dim = 20}, KV_F16, 24},
    {"laguna", {.family = "laguna", .seed = 3, .larger = true, .window = 9}, KV_F16, 24},
    FAMILY_ALIKE("internlm2"),
    FAMILY_ALIKE("qwen2vl"),
    FAMILY_ALIKE("qwen3vl"),
    FAMILY_ALIKE("qwen3vlmoe"),
    FAMILY_ALIKE("hunyuan-dense"),
    FAMILY_ALIKE("minimax-m2"),
    FAMILY_ALIKE("ernie4_5"),
    FAMILY_ALIKE("ernie4_5-moe"),
    FAMILY_ALIKE("olmoe"),
    FAMILY_ALIKE("arcee"),
    FAMILY_ALIKE("exaone"),
    FAMILY_ALIKE("hy_v3"),
    FAMILY_ALIKE("hyperclovax"),
    FAMILY_ALIKE("chatglm"),
    FAMILY_ALIKE("bailingmoe2"),
    FAMILY_ALIKE("flex_olmo"),
    FAMILY_ALIKE("jais2"),
    FAMILY_ALIKE("vaultgemma"),
    FAMILY_ALIKE("minicpm"),
    FAMILY_ALIKE("starcoder"),
    FAMILY_ALIKE("gptj"),
    FAMILY_ALIKE("bamba"),
    FAMILY_ALIKE("granitemoe"),
    FAMILY_ALIKE("mistral3"),
    FAMILY_ALIKE("command-r"),
    FAMILY_ALIKE("dots1"),
    FAMILY_ALIKE("seed_oss"),
    FAMILY_ALIKE("mamba"),
    {"exaone4", {.family = "exaone4", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24, .repeats = true},
    {"exaone-moe",
     {.family = "exaone-moe", .seed = 11, .n_layers = 5, .window = 9},
     KV_F16,
     24,
     .repeats = true},
    {"mellum", {.family = "mellum", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24, .repeats = true},
    {"gpt_neo", {.family = "gpt_neo", .seed = 11, .window = 9}, KV_F16, 24, .repeats = true},
    {"lfm3", {.family = "lfm3", .seed = 11, .n_layers = 5, .window = 9}, KV_F16, 24, .repeats = true},
    TYPE(F32),
    TYPE(F16),
    TYPE(BF16),
    TYPE(Q8_0),
    TYPE(Q4_0),
    TYPE(Q5_1),
    TYPE(Q2_K),
    TYPE(Q3_K),
    TYPE(Q4_K),
    TYPE(Q5_K),
    TYPE(Q6_K),
    TYPE(IQ4_XS),
    TYPE(NVFP4),
    {"factors of matrices",
     {.type = TENSOR_NVFP4, .seed = 5, .n_layers = 1, .n_embd = 256, .n_ff = 256, .scaled = true},
     KV_F16,
     20},
    {"factors of experts",
     {.family = "qwen3moe",
      .type = TENSOR_NVFP4,
      .seed = 5,
      .n_layers = 1,
      .n_embd = 256,
      .n_ff = 512,
      .scaled = true},
     KV_F16,
     20},
    {"factors of experts in float32", {.family = "mixtral", .seed = 5, .scaled = true}, KV_F16, 20},
    {"factors of a latent",
     {.family = "deepseek2", .seed = 11, .scaled = true, .type = TENSOR_Q8_0},
     KV_F16,
     24},
    GATES("mixtral", Q8_0, .repeats = false),
    GATES("qwen2moe", F16, .repeats = true),
    GATES("gemma2", Q8_0, .repeats = false),
    GATES("phi3", Q4_0, .repeats = false),
    GATES("stablelm", F16, .repeats = true),
    GATES("olmo2", Q8_0, .repeats = true),
    GATES("glm4moe", F16, .repeats = true),
    GATES("cohere2", BF16, .repeats = false),
    GATES("gpt-oss", F16, .repeats = false),
    {"a gate of another type",
     {.type = TENSOR_Q4_0, .gate_type = TENSOR_Q8_0, .seed = 12, .n_layers = 1, .n_embd = 256, .n_ff = 256},
     KV_F16,
     20},
    {"two norms of falcon", {.family = "falcon", .seed = 26, .larger = true}, KV_F16, 40},
    {"head norms of stablelm", {.family = "stablelm", .seed = 27, .larger = true}, KV_F16, 40},
    {"longer than a segment of attention",
     {.seed = 23, .n_layers = 1, .type = TENSOR_Q8_0},
     KV_F16,
     LENGTH_MAX},
    {"latents of many heads, some at a time",
     {.family = "deepseek2", .seed = 31, .n_layers = 1, .n_heads = 8, .head_dim = 24, .type = TENSOR_F16},
     KV_F16,
     LENGTH_MAX},
    {"latent attention", {.family = "deepseek2", .seed = 11}, KV_F16, 24},
    {"latent attention in F16", {.family = "deepseek2", .seed = 11, .type = TENSOR_F16}, KV_F16, 24},
    {"compressed queries of deepseek2",
     {.family = "deepseek2", .seed = 3, .larger = true, .head_dim = 24},
     KV_F16,
     30},
    {"a latent of deepseek2 cut by head", {.family = "deepseek2", .seed = 3, .split = true}, KV_F16, 24},
    FAMILY("deepseek32"),
    {"glm-dsa", {.family = "glm-dsa", .seed = 11, .n_layers = 5}, KV_F16, 24},
    {"one selected position of deepseek32",
     {.family = "deepseek32", .seed = 3, .keys = {{"deepseek32.attention.indexer.top_k", GGUF_U32, 1, NULL}}},
     KV_F16,
     24},
    {"as many selected positions as deepseek32 sees",
     {.family = "deepseek32",
      .seed = 3,
      .keys = {{"deepseek32.attention.indexer.top_k", GGUF_U32, 24, NULL}}},
     KV_F16,
     24},
    {"selected positions of several pages and segments",
     {.family = "deepseek32",
      .seed = 5,
      .n_layers = 2,
      .keys = {{"deepseek32.attention.indexer.top_k", GGUF_U32, 260, NULL}}},
     KV_F16,
     LENGTH_MAX},
    {"selected positions of a latent cut by head",
     {.family = "glm-dsa", .seed = 3, .split = true, .n_layers = 4},
     KV_F16,
     40},
    // One layer: with more layers the errors of 8-bit pages change the selection.
    {"selected positions of pages in bytes", {.family = "deepseek32", .seed = 3, .n_layers = 1}, KV_Q8_0, 40},
    {"wide heads",
     {.family = "qwen3", .seed = 28, .n_layers = 1, .n_heads = 2, .n_kv_heads = 1, .head_dim = 288},
     KV_F16,
     24},
    {"pages in bytes", {.seed = 29, .n_embd = 128}, KV_Q8_0, 40},
    {"widths that fill no vector",
     {.seed = 25, .n_embd = 52, .n_heads = 2, .head_dim = 26, .n_ff = 37},
     KV_F16,
     40},
    // Of MLPs of five split-K chunks and two tiles of outputs, for 4 multiprocessors (gpu/kernels/gemm_wgmma.h).
    {"tiles of two blocks",
     {.type = TENSOR_Q8_0, .seed = 12, .n_layers = 1, .n_embd = 128, .n_ff = 2304},
     KV_F16,
     20},
};

// --- A model on a backend ---

// `gpu` NULL: on the CPU.
static void machine_open_with(struct machine *machine, const struct model *model,
                              const struct forward_subject *subject, const struct gpu_options *gpu)
{
    struct error error = {0};
    int32_t n_rows_max = subject->n_rows_max ? subject->n_rows_max : ROWS_MAX;
    struct forward_limits limits = {.n_tokens_max = n_rows_max,
                                    .n_outputs_max = n_rows_max,
                                    .n_sequences_max = SEQUENCES_MAX,
                                    .page_positions = PAGE_POSITIONS,
                                    .n_pages = PAGES_EACH * SEQUENCES_MAX,
                                    .n_state_slots = 2 * SEQUENCES_MAX,
                                    // what a GPU's pages hold
                                    .kv_type = gpu ? subject->kv_type : KV_F32_OF_F16};
    *machine = (struct machine){0};
    assert_ok(pool_create(&machine->pool, 2, &error), &error);
    struct gpu_options options = gpu ? *gpu : (struct gpu_options){0};
    options.pool = machine->pool;
    enum status status = gpu ? gpu_backend_create(&machine->backend, &options, &error)
                             : cpu_backend_create(&machine->backend, machine->pool, CPU_AVX512, &error);
    if (status == STATUS_OK && subject->untuned)
        machine->backend->device.tune = NULL;
    if (status != STATUS_OK ||
        forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error))
        fail_msg("%s", error.text);
}

static void machine_open(struct machine *machine, const struct model *model,
                         const struct forward_subject *subject, bool gpu, bool eager)
{
    machine_open_with(machine, model, subject, gpu ? &(struct gpu_options){.eager = eager} : NULL);
}

// --- Sequences ---

// The first sequence's logits [length, N_VOCAB].
static void compute_logits(struct machine *machine, int n_sequences, int length, int chunk, float *logits)
{
    static struct running running[SEQUENCES_MAX];
    static struct made_step made;
    static float read[ROWS_MAX * N_VOCAB];
    struct error error = {0};
    start_sequences(running, n_sequences, length, chunk);
    for (int turn = 0; make_step(&made, running, n_sequences, turn); turn++) {
        assert_ok(forward_step(machine->forward, &made.step, NULL, read, &error), &error);
        size_t n = (size_t)made.n_first_outputs * N_VOCAB;
        memcpy(logits, read + (size_t)made.first_output * N_VOCAB, n * sizeof *logits);
        logits += n;
    }
}

// --- Tests ---

// Of float32 weights only the pages' binary16 shows, or their bytes (tests/gpu/gpu_attention.c counts how
// much); the CPU's quantized rows show elsewhere, and routing may tip over.
static double bound_of(const struct forward_subject *subject)
{
    return subject->recipe.type == TENSOR_F32 && subject->kv_type != KV_Q8_0 ? 1e-6 : 2e-3;
}

static void logits_are_near_the_cpus_and_the_same_bytes_in_every_way(void **state)
{
    static float expected[LENGTH_MAX * N_VOCAB], first[LENGTH_MAX * N_VOCAB], other[LENGTH_MAX * N_VOCAB];
    const struct forward_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    struct machine cpu, gpu;
    size_t n = (size_t)subject->length * N_VOCAB;
    machine_open(&cpu, model, subject, false, false);
    compute_logits(&cpu, 1, subject->length, LENGTH_MAX, expected);
    machine_close(&cpu);
    machine_open(&gpu, model, subject, true, false);
    compute_logits(&gpu, 1, subject->length, LENGTH_MAX, first);
    double error = squared_error(first, expected, n);
    print_message("%s: normalized squared error %.2g\n", subject->name, error);
    assert_true(error <= bound_of(subject));
    // In chunks and among three others.
    compute_logits(&gpu, SEQUENCES_MAX, subject->length, subject->length > 100 ? 100 : 7, other);
    assert_memory_equal(other, first, n * sizeof *first);
    machine_close(&gpu);
    model_close(model);
}

// As compute capability 8.6, 8.9 and 12.0 have it: no wgmma, and 99 KiB of shared memory for a block.
static void little_shared_memory_gives_the_bytes_of_much(void **state)
{
    static float expected[LENGTH_MAX * N_VOCAB], got[LENGTH_MAX * N_VOCAB];
    const struct forward_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    for (int little = 0; little < 2; little++) {
        struct gpu_options options = {.no_wgmma = little, .shared_bytes_max = little ? 99 << 10 : 0};
        struct machine machine;
        machine_open_with(&machine, model, subject, &options);
        compute_logits(&machine, SEQUENCES_MAX, subject->length, subject->length > 100 ? 100 : 7,
                       little ? got : expected);
        machine_close(&machine);
    }
    assert_memory_equal(got, expected, (size_t)subject->length * N_VOCAB * sizeof *got);
    model_close(model);
}

// --- Graphs ---

enum { DRAWN = 12, MASK_WORDS = (N_VOCAB + 31) / 32 };

// Step by step; each step submitted before the one before is collected; the same, and its sampling after
// that.
enum way { AT_ONCE, AHEAD, APART };

// Some tokens of each sequence, with four kinds of settings.
struct generation {
    int n_sequences;
    struct running running[SEQUENCES_MAX];
    struct sampling settings[SEQUENCES_MAX];
    // of two steps
    struct made_step made[2];
    struct sample_request requests[2][SEQUENCES_MAX];
    uint32_t masks[2][SEQUENCES_MAX][MASK_WORDS];
};

static void generation_start(struct generation *g, int n_sequences)
{
    *g = (struct generation){.n_sequences = n_sequences};
    start_sequences(g->running, n_sequences, 20, 20);
    for (int s = 0; s < n_sequences; s++) {
        g->running[s].length = 20;
        g->running[s].chunk = 20;
        g->settings[s] = (struct sampling){.temperature = s ? 0.9f : 0.0f,
                                           .top_p = s == 2 ? 0.8f : 1.0f,
                                           .repetition_penalty = s == 3 ? 1.2f : 1.0f,
                                           .seed = (uint64_t)(5 + s),
                                           .logprobs = s == 1 || s == 3,
                                           .top_logprobs = s == 3 ? 5 : 0};
    }
}

// The masks are empty so far; the second sequence has none.
static struct step *make_drawing_step(struct generation *g, int index, bool pending, bool masked)
{
    struct made_step *made = &g->made[index % 2];
    assert_true(make_step(made, g->running, g->n_sequences, 0));
    made->step.n_outputs = g->n_sequences;
    made->step.samples = g->requests[index % 2];
    memset(g->masks[index % 2], 0, sizeof g->masks[0]);
    for (int s = 0; s < g->n_sequences; s++) {
        made->outputs[s] = made->sequences[s].first_row + made->sequences[s].n_tokens - 1;
        g->requests[index % 2][s] =
            (struct sample_request){.sampling = &g->settings[s],
                                    .index = (uint32_t)index,
                                    .pending = pending ? 1 + s : 0,
                                    .prompt = g->running[s].ids,
                                    .n_prompt = 20,
                                    .generated = g->running[s].ids + 20,
                                    .n_generated = index - pending,
                                    .allowed = masked && s != 1 ? g->masks[index % 2][s] : NULL,
                                    .n_allowed_words = MASK_WORDS};
    }
    return &made->step;
}

// A quarter of the tokens, which depends on the token before.
static void fill_masks(struct generation *g, int index)
{
    for (int s = 0; s < g->n_sequences; s++)
        for (int token = 0; token < N_VOCAB; token++)
            if ((token * 7 + g->running[s].ids[19 + index] * 3 + s) % 4 == 0)
                g->masks[index % 2][s][token / 32] |= UINT32_C(1) << token % 32;
}

static void take_drawn(struct generation *g, int index, const struct sample_result *results,
                       struct sample_result drawn[SEQUENCES_MAX][DRAWN])
{
    for (int s = 0; s < g->n_sequences; s++) {
        drawn[s][index] = results[s];
        assert_in_range(results[s].token, 0, N_VOCAB - 1);
        g->running[s].ids[20 + index] = results[s].token;
    }
}

static void check_status(enum status status, const struct error *error)
{
    if (status != STATUS_OK)
        fail_msg("%s", error->text);
}

static void generate(struct machine *machine, int n_sequences, enum way way, bool masked,
                     struct sample_result drawn[SEQUENCES_MAX][DRAWN])
{
    static struct generation g;
    struct sample_result results[SEQUENCES_MAX];
    struct error error = {0};
    generation_start(&g, n_sequences);
    for (int index = 0; index < DRAWN; index++) {
        bool pending = way != AT_ONCE && index > 0;
        struct step *step = make_drawing_step(&g, index, pending, masked);
        step->samples_apart = way == APART;
        if (masked && way != APART)
            fill_masks(&g, index);
        if (way == AT_ONCE)
            check_status(forward_step(machine->forward, step, results, NULL, &error), &error);
        else
            check_status(forward_submit(machine->forward, step, &error), &error);
        if (pending)
            check_status(forward_collect(machine->forward, results, &error), &error);
        if (way == AT_ONCE || pending)
            take_drawn(&g, index - pending, results, drawn);
        if (masked && way == APART)
            fill_masks(&g, index);
        if (way == APART)
            check_status(forward_submit_sampling(machine->forward, step, &error), &error);
        for (int s = 0; s < n_sequences; s++) {
            if (way != AT_ONCE)
                g.running[s].ids[g.running[s].length] = -1 - s;
            g.running[s].length++;
        }
    }
    if (way == AT_ONCE)
        return;
    check_status(forward_collect(machine->forward, results, &error), &error);
    take_drawn(&g, DRAWN - 1, results, drawn);
}

static void a_graph_draws_what_launches_one_by_one_draw(void **state)
{
    static struct sample_result eager[SEQUENCES_MAX][DRAWN], graph[SEQUENCES_MAX][DRAWN],
        again[SEQUENCES_MAX][DRAWN];
    const struct forward_subject *subject = *state;
    bool is_repeated = subject->repeats && !device_cases_are_wide(); // what does not depend on the model
    struct model *model = open_model_of(&subject->recipe);
    struct machine machine;
    machine_open(&machine, model, subject, true, true);
    generate(&machine, 3, AT_ONCE, false, eager);
    assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, 0);
    generate(&machine, SEQUENCES_MAX, AT_ONCE, false, eager); // the first three draw the same among four
    machine_close(&machine);
    machine_open(&machine, model, subject, true, false);
    generate(&machine, SEQUENCES_MAX, AT_ONCE, false, graph);
    struct gpu_counts counts = gpu_backend_counts(machine.backend);
    assert_int_equal(counts.n_graphs, 1);
    assert_int_equal(counts.n_replayed, DRAWN - 3); // prompts, then one step eagerly, one captured
    assert_memory_equal(graph, eager, sizeof eager);
    // Three sequences run in the graph of four, padded, and a trace inside it changes nothing.
    generate(&machine, 3, AT_ONCE, false, again);
    assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, 1);
    assert_memory_equal(again, eager, 3 * sizeof eager[0]);
    if (is_repeated) {
        machine_close(&machine);
        model_close(model);
        return;
    }
    struct step_times times = {0};
    machine.backend->device.trace(machine.backend, &times);
    generate(&machine, 3, AT_ONCE, false, again);
    assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, 2);
    assert_memory_equal(again, eager, 3 * sizeof eager[0]);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_true(times.us[phase] > 0.0);
    // Ahead too, where a traced graph is needed twice: a step's events are read while the next one runs.
    generate(&machine, SEQUENCES_MAX, AHEAD, false, again);
    assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, 3);
    assert_memory_equal(again, eager, sizeof eager);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_true(times.us[phase] > 0.0);
    machine.backend->device.trace(machine.backend, NULL);
    generate(&machine, SEQUENCES_MAX, AHEAD, false, again);
    assert_memory_equal(again, eager, sizeof eager);
    machine_close(&machine);
    machine_open(&machine, model, subject, true, true);
    generate(&machine, SEQUENCES_MAX, AHEAD, false, again);
    assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, 0);
    assert_memory_equal(again, eager, sizeof eager);
    machine_close(&machine);
    model_close(model);
}

// A step whose sampling waits for masks has a graph of each part; a trace adds up the times of both.
static void sampling_submitted_apart_draws_what_whole_steps_draw(void **state)
{
    static struct sample_result whole[SEQUENCES_MAX][DRAWN], free_ones[SEQUENCES_MAX][DRAWN],
        apart[SEQUENCES_MAX][DRAWN];
    const struct forward_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    struct machine machine;
    machine_open(&machine, model, subject, true, true);
    generate(&machine, SEQUENCES_MAX, AT_ONCE, true, whole);
    generate(&machine, SEQUENCES_MAX, AT_ONCE, false, free_ones);
    assert_memory_equal(whole[1], free_ones[1], sizeof whole[1]);
    assert_memory_not_equal(whole, free_ones, sizeof whole);
    generate(&machine, SEQUENCES_MAX, APART, true, apart);
    assert_memory_equal(apart, whole, sizeof whole);
    machine_close(&machine);
    machine_open(&machine, model, subject, true, false);
    generate(&machine, SEQUENCES_MAX, APART, true, apart);
    assert_memory_equal(apart, whole, sizeof whole);
    struct gpu_counts counts = gpu_backend_counts(machine.backend);
    assert_int_equal(counts.n_graphs, 2);
    assert_int_equal(counts.n_replayed, DRAWN - 3); // prompts, then one step eagerly, one captured
    assert_int_equal(counts.n_apart, DRAWN);
    assert_int_equal(counts.n_apart_replayed, DRAWN - 4); // it is padded from the captured step on
    generate(&machine, 3, APART, true, apart);            // in the graphs of four
    assert_memory_equal(apart, whole, 3 * sizeof whole[0]);
    generate(&machine, SEQUENCES_MAX, AHEAD, false, apart);
    assert_memory_equal(apart, free_ones, sizeof free_ones);
    assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, 3);
    struct step_times times = {0};
    machine.backend->device.trace(machine.backend, &times);
    generate(&machine, SEQUENCES_MAX, APART, true, apart);
    assert_memory_equal(apart, whole, sizeof whole);
    assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, 7); // two sets of events
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_true(times.us[phase] > 0.0);
    machine.backend->device.trace(machine.backend, NULL);
    machine_close(&machine);
    model_close(model);
}

// --- A prefix that sequences share ---

enum { PREFIX = 256, PREFIX_PAGES = PREFIX / PAGE_POSITIONS };

// Draws behind one prefix, which is computed once, for the sequences [first, end).
static void generate_after_prefix(struct machine *machine, int first, int end,
                                  struct sample_result drawn[SEQUENCES_MAX][DRAWN])
{
    static struct running running[SEQUENCES_MAX];
    static struct made_step made;
    struct sampling settings[SEQUENCES_MAX];
    struct sample_request requests[SEQUENCES_MAX];
    struct sample_result results[SEQUENCES_MAX];
    struct error error = {0};
    for (int s = first; s < end; s++) {
        struct running *r = &running[s - first];
        *r = (struct running){.length = PREFIX + 2 + s, .chunk = 3 + s, .done = PREFIX};
        for (int i = 0; i < LENGTH_MAX; i++)
            r->ids[i] = (i * 89 + (i < PREFIX ? 0 : s * 31)) % N_VOCAB;
        for (int i = 0; i < PAGES_EACH; i++)
            r->pages[i] =
                i < PREFIX_PAGES ? 2 * i + 1 : 2 * (s * (PAGES_EACH - PREFIX_PAGES) + i - PREFIX_PAGES);
        settings[s - first] = (struct sampling){.temperature = s ? 0.9f : 0.0f,
                                                .top_p = 1.0f,
                                                .repetition_penalty = 1.0f,
                                                .seed = (uint64_t)(5 + s),
                                                .logprobs = true};
    }
    struct running prefix = running[0];
    prefix.length = prefix.chunk = PREFIX;
    prefix.done = 0;
    assert_true(make_step(&made, &prefix, 1, 0));
    made.step.n_outputs = 0;
    assert_ok(forward_step(machine->forward, &made.step, NULL, NULL, &error), &error);
    int n = end - first;
    for (int index = 0; index < DRAWN; index++) {
        assert_true(make_step(&made, running, n, 0));
        made.step.n_outputs = n;
        made.step.samples = requests;
        for (int s = 0; s < n; s++) {
            made.outputs[s] = made.sequences[s].first_row + made.sequences[s].n_tokens - 1;
            requests[s] = (struct sample_request){.sampling = &settings[s], .index = (uint32_t)index};
        }
        assert_ok(forward_step(machine->forward, &made.step, results, NULL, &error), &error);
        for (int s = 0; s < n; s++) {
            drawn[first + s][index] = results[s];
            running[s].ids[running[s].length++] = results[s].token;
        }
    }
}

static void a_shared_prefix_is_read_once_and_does_not_show(void **state)
{
    static struct sample_result together[SEQUENCES_MAX][DRAWN], alone[SEQUENCES_MAX][DRAWN],
        eager[SEQUENCES_MAX][DRAWN];
    const struct forward_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    struct machine machine;
    machine_open(&machine, model, subject, true, true);
    int step =
        device_cases_are_wide() ? 1 : SEQUENCES_MAX - 1; // else the first and the last are computed alone
    for (int s = 0; s < SEQUENCES_MAX; s += step)
        generate_after_prefix(&machine, s, s + 1, alone);
    assert_int_equal(gpu_backend_counts(machine.backend).shared_bytes_saved, 0);
    generate_after_prefix(&machine, 0, SEQUENCES_MAX, eager);
    struct gpu_counts counts = gpu_backend_counts(machine.backend);
    // Three of four reads of a segment, in each step, layer and head; keys and values are filled up to 32 and
    // 16 dimensions.
    const struct model_shape *shape = &model->shape;
    int64_t item_bits = subject->kv_type == KV_Q8_0 ? 8 : 16,
            dims = (shape->attention.key_dim + 31) / 32 * 32 + (shape->attention.value_dim + 15) / 16 * 16;
    int64_t least =
        (int64_t)DRAWN * 3 * shape->n_layers * shape->attention.n_kv_heads * PREFIX * dims * item_bits / 8;
    assert_true(counts.shared_bytes_saved >= least && counts.shared_bytes_saved <= least / 8 * 9);
    machine_close(&machine);
    machine_open(&machine, model, subject, true, false);
    generate_after_prefix(&machine, 0, SEQUENCES_MAX, together);
    counts = gpu_backend_counts(machine.backend);
    assert_int_equal(counts.n_graphs, 1);
    assert_int_equal(counts.n_replayed, DRAWN - 3);
    assert_true(counts.shared_bytes_saved >= least);
    assert_memory_equal(together, eager, sizeof eager);
    for (int s = 0; s < SEQUENCES_MAX; s += step)
        assert_memory_equal(eager[s], alone[s], sizeof alone[s]);
    machine_close(&machine);
    model_close(model);
}

enum {
    TILED_ROWS = 80, // of a step: tiles are measured with 32, 64 and 80 rows
    TILED_SIZES = 3,
    TILED_PRODUCTS =
        5, // queries, keys and values; the output of attention; gate and up; down; the output matrix
};

// All tiles are measured when the model is loaded, none by a step, and the answers have the bytes of tiles by rows.
static void tiles_are_measured_at_load_and_give_the_bytes_of_tiles_by_rows(void **state)
{
    static struct sample_result by_rows[SEQUENCES_MAX][DRAWN], measured[SEQUENCES_MAX][DRAWN];
    struct model *model = open_model_of(&((const struct forward_subject *)*state)->recipe);
    for (enum gpu_tiles tiles = GPU_TILES_MEASURED; tiles <= GPU_TILES_BY_ROWS; tiles++) {
        bool measures = tiles == GPU_TILES_MEASURED;
        struct machine machine;
        machine_open_with(&machine, model, *state, &(struct gpu_options){.tiles = tiles});
        struct gpu_counts loaded = gpu_backend_counts(machine.backend);
        assert_int_equal(loaded.n_tilings, measures ? TILED_SIZES * TILED_PRODUCTS : 0);
        assert_int_equal(loaded.n_steps, measures ? TILED_SIZES : 0);
        generate(&machine, SEQUENCES_MAX, AHEAD, false, measures ? measured : by_rows);
        assert_int_equal(gpu_backend_counts(machine.backend).n_tilings, loaded.n_tilings);
        assert_true(gpu_backend_counts(machine.backend).n_replayed > 0);
        machine_close(&machine);
    }
    assert_memory_equal(measured, by_rows, sizeof by_rows);
    model_close(model);
}

// In a step of 80 rows with 4 outputs the first products see all rows.
static void without_autotuning_the_first_step_measures_tiles(void **state)
{
    static struct sample_result by_rows[SEQUENCES_MAX][DRAWN], measured[SEQUENCES_MAX][DRAWN];
    struct forward_subject subject = *(const struct forward_subject *)*state;
    struct model *model = open_model_of(&subject.recipe);
    subject.untuned = true;
    for (enum gpu_tiles tiles = GPU_TILES_MEASURED; tiles <= GPU_TILES_BY_ROWS; tiles++) {
        bool measures = tiles == GPU_TILES_MEASURED;
        struct machine machine;
        machine_open_with(&machine, model, &subject, &(struct gpu_options){.tiles = tiles});
        assert_int_equal(gpu_backend_counts(machine.backend).n_tilings, 0);
        generate(&machine, SEQUENCES_MAX, AHEAD, false, measures ? measured : by_rows);
        assert_int_equal(gpu_backend_counts(machine.backend).n_tilings, measures);
        machine_close(&machine);
    }
    assert_memory_equal(measured, by_rows, sizeof by_rows);
    model_close(model);
}

// The steps of autotuning, of one and two sequences, in families with other steps: they leave nothing behind that shows.
static void autotuning_leaves_nothing_behind(void **state)
{
    static float expected[LENGTH_MAX * N_VOCAB], got[LENGTH_MAX * N_VOCAB];
    const struct forward_subject *subject = *state;
    struct model *model = open_model_of(&subject->recipe);
    for (enum gpu_tiles tiles = GPU_TILES_MEASURED; tiles <= GPU_TILES_BY_ROWS; tiles++) {
        struct machine machine;
        machine_open_with(&machine, model, subject, &(struct gpu_options){.tiles = tiles});
        assert_int_equal(gpu_backend_counts(machine.backend).n_steps, tiles == GPU_TILES_MEASURED);
        compute_logits(&machine, 1, subject->length, 9, tiles == GPU_TILES_MEASURED ? got : expected);
        machine_close(&machine);
    }
    assert_memory_equal(got, expected, (size_t)subject->length * N_VOCAB * sizeof *got);
    model_close(model);
}

static char said[200]; // the last line

static void note_said(const char *text)
{
    snprintf(said, sizeof said, "%s", text);
}

static void tiles_of_a_file_are_not_measured_again(void **state)
{
    static struct sample_result drawn[2][SEQUENCES_MAX][DRAWN];
    char path[] = "/tmp/gpu_forward_XXXXXX/tiles";
    char *name = strrchr(path, '/');
    *name = '\0';
    assert_non_null(mkdtemp(path));
    *name = '/';
    struct model *model = open_model_of(&((const struct forward_subject *)*state)->recipe);
    for (int start = 0; start < 2; start++) {
        struct gpu_options options = {.tiles = GPU_TILES_MEASURED, .tiles_path = path, .say = note_said};
        int n = start == 0 ? TILED_SIZES * TILED_PRODUCTS : 0, got, n_rows;
        double elapsed_s;
        struct machine machine;
        machine_open_with(&machine, model, *state, &options);
        assert_int_equal(sscanf(said, "tiles: measured %d matrix products of up to %d rows in %lf s", &got,
                                &n_rows, &elapsed_s),
                         3);
        assert_int_equal(got, n);
        assert_int_equal(n_rows, TILED_ROWS);
        generate(&machine, SEQUENCES_MAX, AHEAD, false, drawn[start]);
        assert_int_equal(gpu_backend_counts(machine.backend).n_tilings, n);
        machine_close(&machine);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    model_close(model);
    assert_int_equal(unlink(path), 0);
    *name = '\0';
    assert_int_equal(rmdir(path), 0);
}

// With two steps under way, eager ones and graphs, and with masks uploaded after the step.
static void uploads_at_once_and_late_give_the_bytes_of_steps_one_by_one(void **state)
{
    if (!device_is_emulated())
        skip();
    static struct sample_result expected[2][SEQUENCES_MAX][DRAWN], drawn[SEQUENCES_MAX][DRAWN];
    struct model *model = open_model_of(&((const struct forward_subject *)*state)->recipe);
    struct machine machine;
    machine_open(&machine, model, *state, true, true);
    for (int masked = 0; masked < 2; masked++)
        generate(&machine, SEQUENCES_MAX, AT_ONCE, masked, expected[masked]);
    machine_close(&machine);
    for (enum device_upload_order order = UPLOADS_LATE; order <= UPLOADS_AT_ONCE; order++) {
        machine_open_with(&machine, model, *state, &(struct gpu_options){.upload_order = order});
        for (int masked = 0; masked < 2; masked++) {
            generate(&machine, SEQUENCES_MAX, masked ? APART : AHEAD, masked, drawn);
            assert_memory_equal(drawn, expected[masked], sizeof drawn);
        }
        assert_true(gpu_backend_counts(machine.backend).n_replayed > 0);
        machine_close(&machine);
    }
    model_close(model);
}

// On a device with little more than the model takes, a graph's memory could end the worker.
static void without_memory_for_graphs_steps_are_launched_one_by_one(void **state)
{
    if (!device_is_emulated())
        skip();
    static struct sample_result roomy[SEQUENCES_MAX][DRAWN], tight[SEQUENCES_MAX][DRAWN];
    struct model *model = open_model_of(&((const struct forward_subject *)*state)->recipe);
    for (uint64_t bytes = 60ull << 20; bytes <= 240ull << 20; bytes *= 4) {
        struct machine machine;
        machine_open_with(&machine, model, *state, &(struct gpu_options){.emulated_memory_bytes = bytes});
        generate(&machine, SEQUENCES_MAX, AHEAD, false, bytes > 100ull << 20 ? roomy : tight);
        assert_int_equal(gpu_backend_counts(machine.backend).n_graphs, bytes > 100ull << 20);
        machine_close(&machine);
    }
    assert_memory_equal(tight, roomy, sizeof roomy);
    model_close(model);
}

// A subject takes seconds under the address sanitizer. The host's side and the kernels' bounds are the
// same for all, and gpu_products and gpu_attention show it every shape.
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 7 };
#else
enum { STRIDE = 1 };
#endif

// An argument chooses tests by name, with * and ?.
int main(int argc, char **argv)
{
    if (device_missing())
        return 77;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };
    static struct CMUnitTest tests[N_SUBJECTS + 20];
    bool is_wide = device_cases_are_wide();
    int n = 0;
    for (int i = 0; i < N_SUBJECTS; i += STRIDE)
        if (is_wide || !subjects[i].repeats)
            tests[n++] = (struct CMUnitTest){subjects[i].name,
                                             logits_are_near_the_cpus_and_the_same_bytes_in_every_way, NULL,
                                             NULL, &subjects[i]};
    static struct forward_subject captured[] = {
        {"captured", {.family = "llama", .type = TENSOR_Q8_0, .seed = 11, .n_ff = 128}, KV_F16, 24},
        {"captured, experts",
         {.family = "mixtral", .type = TENSOR_F16, .seed = 11, .n_ff = 128},
         KV_F16,
         24,
         .repeats = true},
        {"captured, recurrent layers",
         {.family = "qwen35", .seed = 11, .n_layers = 4},
         KV_F16,
         24,
         .repeats = true},
        {"captured, scans", {.family = "mamba2", .seed = 11}, KV_F16, 24, .repeats = true},
        {"captured, layers that differ", {.family = "gemma4", .seed = 11}, KV_F16, 24, .repeats = true},
        {"captured, residual streams", {.family = "gemma3n", .seed = 11}, KV_F16, 24, .repeats = true},
        {"captured, sparse attention", {.family = "deepseek32", .seed = 11}, KV_F16, 24},
        {"captured, chunks",
         {.family = "llama4", .seed = 11, .n_layers = 5, .window = 9},
         KV_F16,
         24,
         .repeats = true},
    };
    enum { N_CAPTURED = sizeof captured / sizeof *captured };
    for (int i = 0; i < 2; i++)
        captured[i].recipe.n_layers = is_wide ? 2 : 1;
    for (int i = 0; i < N_CAPTURED; i++)
        tests[n++] = (struct CMUnitTest){captured[i].name, a_graph_draws_what_launches_one_by_one_draw, NULL,
                                         NULL, &captured[i]};
    static struct forward_subject tiled = {
        "tiled",
        {.family = "llama", .type = TENSOR_Q8_0, .seed = 11, .n_layers = 1, .n_ff = 128},
        KV_F16,
        24,
        .n_rows_max = TILED_ROWS};
    static struct forward_subject shared[] = {
        {"shared",
         {.family = "llama", .type = TENSOR_F16, .seed = 11, .n_layers = 1, .n_ff = 128},
         KV_F16,
         24},
        {"shared, bytes", {.family = "gemma2", .seed = 12, .n_layers = 2}, KV_Q8_0, 24},
    };
    for (int i = 0; i < 2; i++)
        tests[n++] =
            (struct CMUnitTest){i ? "a shared prefix, gemma2 with pages in bytes" : "a shared prefix, llama",
                                a_shared_prefix_is_read_once_and_does_not_show, NULL, NULL, &shared[i]};
    // The kernels that request much shared memory: GEMMs of each number of rows, of experts and of heads; attention of
    // wide keys, of latents, and of pages in bytes.
    static struct forward_subject little[] = {
        {"99 KiB, Q4_K",
         {.type = TENSOR_Q4_K, .seed = 12, .n_layers = 1, .n_embd = 256, .n_ff = 256},
         KV_F16,
         250},
        {"99 KiB, BF16",
         {.type = TENSOR_BF16, .seed = 12, .n_layers = 1, .n_embd = 256, .n_ff = 256},
         KV_F16,
         140},
        {"99 KiB, experts", {.family = "mixtral", .type = TENSOR_F16, .seed = 11, .n_ff = 128}, KV_F16, 140},
        {"99 KiB, wide heads in bytes",
         {.family = "qwen3", .seed = 28, .n_layers = 1, .n_heads = 2, .n_kv_heads = 1, .head_dim = 288},
         KV_Q8_0,
         24},
        {"99 KiB, latents",
         {.family = "deepseek2", .seed = 31, .n_layers = 1, .n_heads = 8, .head_dim = 24, .type = TENSOR_F16},
         KV_F16,
         40},
        {"99 KiB, recurrent layers", {.family = "qwen35", .seed = 11, .n_layers = 4}, KV_F16, 40},
    };
    enum { N_LITTLE = sizeof little / sizeof *little };
    for (int i = 0; i < N_LITTLE; i++)
        tests[n++] = (struct CMUnitTest){little[i].name, little_shared_memory_gives_the_bytes_of_much, NULL,
                                         NULL, &little[i]};
    tests[n++] =
        (struct CMUnitTest){"no memory for graphs", without_memory_for_graphs_steps_are_launched_one_by_one,
                            NULL, NULL, &captured[0]};
    tests[n++] =
        (struct CMUnitTest){"measured tiles", tiles_are_measured_at_load_and_give_the_bytes_of_tiles_by_rows,
                            NULL, NULL, &tiled};
    static struct forward_subject tuned[] = {
        {"autotuning, sparse attention", {.family = "deepseek32", .seed = 11}, KV_F16, 24, .n_rows_max = 32},
        {"autotuning, recurrent layers",
         {.family = "qwen35", .seed = 11, .n_layers = 4},
         KV_F16,
         24,
         .repeats = true,
         .n_rows_max = 32},
        {"autotuning, scans",
         {.family = "mamba2", .seed = 11},
         KV_F16,
         24,
         .repeats = true,
         .n_rows_max = 32},
        {"autotuning, layers that differ",
         {.family = "gemma4", .seed = 11},
         KV_F16,
         24,
         .repeats = true,
         .n_rows_max = 32},
        {"autotuning, residual streams", {.family = "gemma3n", .seed = 11}, KV_F16, 24, .n_rows_max = 32},
        {"autotuning, positions",
         {.family = "gpt2", .seed = 11},
         KV_F16,
         24,
         .repeats = true,
         .n_rows_max = 32},
    };
    enum { N_TUNED = sizeof tuned / sizeof *tuned };
    for (int i = 0; i < N_TUNED; i++)
        if (is_wide || !tuned[i].repeats)
            tests[n++] =
                (struct CMUnitTest){tuned[i].name, autotuning_leaves_nothing_behind, NULL, NULL, &tuned[i]};
    tests[n++] = (struct CMUnitTest){"tiles by steps", without_autotuning_the_first_step_measures_tiles, NULL,
                                     NULL, &tiled};
    tests[n++] =
        (struct CMUnitTest){"tiles of a file", tiles_of_a_file_are_not_measured_again, NULL, NULL, &tiled};
    tests[n++] = (struct CMUnitTest){"sampling apart", sampling_submitted_apart_draws_what_whole_steps_draw,
                                     NULL, NULL, &captured[0]};
    tests[n++] =
        (struct CMUnitTest){"upload orders", uploads_at_once_and_late_give_the_bytes_of_steps_one_by_one,
                            NULL, NULL, &captured[0]};
    // The sequences, of 20 tokens at first, pass the number of selected positions.
    static struct forward_subject passing = {
        "passing",
        {.family = "deepseek32",
         .seed = 11,
         .keys = {{"deepseek32.attention.indexer.top_k", GGUF_U32, 26, NULL}}},
        KV_F16,
        24};
    tests[n++] = (struct CMUnitTest){"upload orders, sparse attention",
                                     uploads_at_once_and_late_give_the_bytes_of_steps_one_by_one, NULL, NULL,
                                     &passing};
    return _cmocka_run_group_tests("tests", tests, (size_t)n, NULL, NULL);
}
