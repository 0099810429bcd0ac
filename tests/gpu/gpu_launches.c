// Launches of a step by kernel, on the emulated device: what a layer adds, and what a step of one layer has.
// They are counted and not run. The model has the layers of Llama-3-8B in Q4_K_M, scaled down but for the
// width between gate and down, by which a launch writes the operand of the next one; else kernels are selected
// by types and numbers of rows. One line each, for gpu_counts.py:
//
//   launches STEP PART KERNEL N
//
// STEP: decode_1, decode_64, prefill_128 (rows). PART: layer_q4_k, layer_q6_k (the type of values and of
// down), layer_bf16 (all in BF16), layer_experts (2 of 8, all in Q4_K), one_layer (a step of a model with one, in Q4_K: of a prompt's last
// layer only the rows that are drawn from are computed to the end). The kernel's name is without its template
// arguments.
#include "engine/forward.h"
#include "gpu/emulation/stream.h"
#include "tests/gpu/gpu_machine.h"
#include "tests/support/cases.h"
#include "tests/support/open_model.h"

enum { KERNELS_MAX = 32, ROWS_MAX = 128, PAGE = 16, PROMPT_PAGES = ROWS_MAX / PAGE };

struct kernel_count {
    char name[64];
    int n;
};

struct launch_counts {
    struct kernel_count kernels[KERNELS_MAX];
    int n_kernels;
};

static struct launch_counts *counting; // NULL: launches are not counted

static int *count_of(struct launch_counts *counts, const char *name)
{
    for (int i = 0; i < counts->n_kernels; i++)
        if (strcmp(counts->kernels[i].name, name) == 0)
            return &counts->kernels[i].n;
    assert_true(counts->n_kernels < KERNELS_MAX);
    struct kernel_count *kernel = &counts->kernels[counts->n_kernels++];
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    return &kernel->n;
}

// The linker's option --wrap has launches come here.
void __real_emulated_stream_submit(void *stream, struct emulated_work *work);

void __wrap_emulated_stream_submit(void *stream, struct emulated_work *work)
{
    if (counting && work && work->kernel) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(work->kernel, "<"), work->kernel);
        ++*count_of(counting, name);
        free(work);
        return;
    }
    __real_emulated_stream_submit(stream, work);
}

struct counted_step {
    const char *name;
    int32_t n_sequences, n_tokens; // tokens of a sequence; one draw each
};

static void open_machine(struct machine *machine, const struct model *model)
{
    struct error error = {0};
    struct forward_limits limits = {.n_tokens_max = ROWS_MAX,
                                    .n_outputs_max = ROWS_MAX,
                                    .n_sequences_max = ROWS_MAX,
                                    .page_positions = PAGE,
                                    .n_pages = ROWS_MAX,
                                    .kv_type = KV_F16};
    *machine = (struct machine){0};
    assert_ok(pool_create(&machine->pool, 2, &error), &error);
    struct gpu_options options = {.pool = machine->pool, .eager = true};
    if (gpu_backend_create(&machine->backend, &options, &error) != STATUS_OK ||
        forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error))
        fail_msg("%s", error.text);
}

static void count_step(struct machine *machine, const struct counted_step *counted,
                       struct launch_counts *counts)
{
    struct sampling sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f};
    struct step_sequence sequences[ROWS_MAX];
    struct sample_request requests[ROWS_MAX];
    int32_t tokens[ROWS_MAX], positions[ROWS_MAX], outputs[ROWS_MAX], pages[ROWS_MAX + PROMPT_PAGES];
    int32_t n = counted->n_tokens, n_rows = counted->n_sequences * n;
    for (int32_t i = 0; i < ROWS_MAX + PROMPT_PAGES; i++)
        pages[i] = i % ROWS_MAX;
    for (int32_t i = 0; i < n_rows; i++) {
        tokens[i] = i % 300;
        positions[i] = i % n;
    }
    for (int32_t i = 0; i < counted->n_sequences; i++) {
        sequences[i] = (struct step_sequence){.first_row = i * n, .n_tokens = n, .pages = pages + i};
        requests[i] = (struct sample_request){.sampling = &sampling};
        outputs[i] = (i + 1) * n - 1;
    }
    struct step step = {.n_tokens = n_rows,
                        .tokens = tokens,
                        .positions = positions,
                        .n_sequences = counted->n_sequences,
                        .sequences = sequences,
                        .n_outputs = counted->n_sequences,
                        .output_rows = outputs,
                        .samples = requests};
    struct error error = {0};
    counting = counts;
    enum status status = forward_submit(machine->forward, &step, &error);
    counting = NULL;
    assert_int_equal(status, STATUS_OK);
}

static const struct counted_step steps[] = {{"decode_1", 1, 1},
                                            {"decode_64", 64, 1},
                                            {"prefill_128", 1, ROWS_MAX}};

enum { N_STEPS = sizeof steps / sizeof *steps };

static const struct {
    const char *name;
    struct model_recipe differs;
} parts[] = {{"layer_q4_k", {.family = "llama3"}},
             {"layer_q6_k", {.family = "llama3", .more_type = TENSOR_Q6_K}},
             {"layer_bf16", {.family = "llama3", .type = TENSOR_BF16}},
             {"layer_experts", {.family = "mixtral", .n_experts = 8, .n_experts_used = 2}}};

enum { N_PARTS = sizeof parts / sizeof *parts };

static void count_model(const struct model_recipe *differs, int32_t n_layers,
                        struct launch_counts counts[N_STEPS])
{
    struct model_recipe recipe = *differs;
    recipe.type = recipe.type == TENSOR_F32 ? TENSOR_Q4_K : recipe.type;
    recipe.seed = 5;
    recipe.n_layers = n_layers;
    recipe.n_embd = 768;
    recipe.n_heads = 6;
    recipe.n_kv_heads = 2;
    recipe.head_dim = 128;
    recipe.n_ff = 14336;
    recipe.n_vocab = 512;
    struct model *model = open_model_of(&recipe);
    for (int i = 0; i < N_STEPS; i++) {
        struct machine machine;
        open_machine(&machine, model);
        count_step(&machine, &steps[i], &counts[i]); // never collected: nothing was drawn
        machine_close(&machine);
    }
    model_close(model);
}

static void print_count(const char *step, const char *part, const char *kernel, int n)
{
    if (n != 0)
        printf("launches %s %s %s %d\n", step, part, kernel, n);
}

int main(void)
{
    static struct launch_counts one[N_PARTS][N_STEPS], two[N_PARTS][N_STEPS];
    if (device_missing())
        return 77;
    for (int part = 0; part < N_PARTS; part++) {
        count_model(&parts[part].differs, 1, one[part]);
        count_model(&parts[part].differs, 2, two[part]);
        for (int i = 0; i < N_STEPS; i++)
            for (int k = 0; k < two[part][i].n_kernels; k++) {
                const char *kernel = two[part][i].kernels[k].name;
                int n_one = *count_of(&one[part][i], kernel);
                print_count(steps[i].name, parts[part].name, kernel, two[part][i].kernels[k].n - n_one);
                if (part == 0)
                    print_count(steps[i].name, "one_layer", kernel, n_one);
            }
    }
    return 0;
}
