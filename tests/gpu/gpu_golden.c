// The bytes that a device must give, predicted: a fixed set of products, attention, row-wise kernels and
// draws, at the widths of production models, whose results' hashes are in golden_bytes.txt.
//
//   gpu_golden FILE          compares; names every case that differs
//   gpu_golden FILE write    writes the emulation's hashes, of both capabilities
//
// Emulated, both columns are checked; on a device, its capability's. Cases marked ~ contain ex2.approx, whose
// last bit no document defines: on a device a difference is printed and is no failure.
//
// Each case with indices is computed again far away: its weights, rows and pages stand at indices whose
// offsets exceed 2^32 bytes, of which only those that are used exist. An address that is computed in 32 bits
// is found by the fault it causes, or by other bytes.
#include "engine/file/dequantize.h"
#include "gpu/device.h"
#include "gpu/emulation/emulate.h"
#include "gpu/kernels/kernels.h"
#include "gpu/kernels/kernels_attention.h"
#include "gpu/kernels/kernels_rows.h"
#include "gpu/kernels/kernels_sample.h"
#include "gpu/kernels/tiles.h"
#include "schemas/base/hash.h"
#include "tests/kernel/product_data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct device *device;
static int n_failed;

enum { ARRAYS_MAX = 32, CASES_MAX = 64, NAME_BYTES = 64 };
static void *arrays[ARRAYS_MAX]; // device memory of the running case
static int n_arrays;

// --- Device memory ---

static void wait_for_device(void)
{
    struct error error;
    if (device_wait(device, &error) != STATUS_OK) {
        printf("%s\n", error.text);
        exit(1);
    }
}

static void *require_memory(void *memory)
{
    if (!memory) {
        printf("out of memory\n");
        exit(1);
    }
    return memory;
}

// NULL items: zeros.
static void *on_device(const void *items, size_t size)
{
    void *memory = require_memory(device_allocate(device, size)),
         *pinned = require_memory(device_pin(device, size));
    if (items)
        memcpy(pinned, items, size);
    else
        memset(pinned, 0, size);
    device_upload(device, memory, pinned, size);
    wait_for_device();
    device_unpin(device, pinned);
    return arrays[n_arrays++] = memory;
}

static void *from_device(const void *memory, size_t size)
{
    void *items = require_memory(malloc(size)), *pinned = require_memory(device_pin(device, size));
    device_download(device, pinned, memory, size);
    wait_for_device();
    memcpy(items, pinned, size);
    device_unpin(device, pinned);
    return items;
}

static void free_arrays(void)
{
    while (n_arrays > 0)
        device_free(device, arrays[--n_arrays]);
}

// The address that lies `offset` bytes before: what is read at that offset from it, is at `memory`.
static void *address_before(const void *memory, uint64_t offset)
{
    return (void *)((uintptr_t)memory - (uintptr_t)offset);
}

static float *random_floats(size_t n, float size, uint64_t *seed)
{
    float *items = require_memory(calloc(n, sizeof *items)); // zeroed: gcc 14 does not see the loop fill it
    for (size_t i = 0; i < n; i++)
        items[i] = size * random_float(seed);
    return items;
}

static float *floats_on_device(size_t n, float size, uint64_t *seed)
{
    float *items = random_floats(n, size, seed), *memory = on_device(items, n * sizeof *items);
    free(items);
    return memory;
}

// --- Cases ---

struct outcome {
    unsigned char *bytes;
    size_t size;
};

struct golden_case {
    const char *name;
    struct outcome (*compute)(const struct golden_case *which, bool far);
    int32_t type, n_inputs, n_outputs, n_rows; // of products; others: as their function says
    bool has_far, approximate;
};

// Place of a case at large indices: this expert, and this row of x and y.
enum { FAR_ROW = 600000 };

static int32_t far_expert(uint64_t matrix_bytes)
{
    return (int32_t)((4ull << 30) / matrix_bytes) + 5;
}

static void check_near_exact(const struct golden_case *which, const struct tensor *tensor, const float *x,
                             const float *y)
{
    size_t n_inputs = (size_t)which->n_inputs;
    float *weights = require_memory(malloc(n_inputs * sizeof *weights));
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    size_t row_bytes = n_inputs / traits->block_items * traits->block_bytes;
    double wrong = 0, size = 0;
    for (int32_t i = 0; i < 16; i++) { // the first and last outputs, and some between
        int32_t output = (int32_t)((int64_t)i * (which->n_outputs - 1) / 15), row = i % which->n_rows;
        traits->dequantize((const unsigned char *)tensor->data + (size_t)output * row_bytes, weights,
                           n_inputs);
        double sum = 0;
        for (size_t k = 0; k < n_inputs; k++) {
            double term = (double)weights[k] * (double)x[(size_t)row * n_inputs + k];
            sum += term;
            size += term * term;
        }
        double off = (double)y[(size_t)row * (size_t)which->n_outputs + (size_t)output] - sum;
        wrong += off * off;
    }
    if (!(wrong <= (tensor->type == TENSOR_BF16 ? 1e-5 : 1e-6) * size)) {
        printf("%s: normalized mean squared error %g\n", which->name, wrong / size);
        n_failed++;
    }
    free(weights);
}

// y [n_rows, n_outputs] of the weight packed at `tiles` and x at `floats`, which stand at expert and row 0 or
// far away.
static struct outcome multiply(const struct golden_case *which, const void *tiles, const float *floats,
                               bool far)
{
    int32_t n = which->n_rows, expert = 0, row = far ? FAR_ROW : 0;
    int64_t y_stride = ((int64_t)which->n_outputs + 4095) / 4096 * 4096;
    uint64_t matrix_bytes = tiles_bytes((enum tensor_type)which->type, which->n_outputs, which->n_inputs);
    int32_t *rows = require_memory(malloc((size_t)n * sizeof *rows));
    for (int32_t i = 0; i < n; i++)
        rows[i] = row + i;
    int32_t *device_rows = on_device(rows, (size_t)n * sizeof *rows), *expert_first = NULL;
    if (far) {
        expert = far_expert(matrix_bytes);
        int32_t *first = require_memory(calloc((size_t)expert + 2, sizeof *first));
        first[expert + 1] = n;
        expert_first = on_device(first, ((size_t)expert + 2) * sizeof *first);
        free(first);
    }
    float *y = on_device(NULL, (size_t)(n * y_stride) * sizeof *y);
    const float *x = address_before(floats, (uint64_t)row * (uint64_t)which->n_inputs * sizeof *x);
    struct activation_operand operand = {
        which->type == TENSOR_BF16 ? OPERAND_BFLOAT : OPERAND_HALF,
        n,
        which->n_inputs,
        on_device(NULL, activation_operand_bytes(n, which->n_inputs)),
        on_device(NULL, (size_t)n * sizeof(float)),
        product_is_wgmma(device_facts(device)->has_wgmma && emulate_capability_now() >= 90,
                         device_facts(device)->shared_bytes_max, n, far ? 1 : 0)};
    struct activation_operand_launch make = {operand, x, which->n_inputs, device_rows, 1};
    launch_activation_operand(device_stream(device), &make);
    struct product_launch product = {.type = (enum tensor_type)which->type,
                                     .n_parts = 1,
                                     .x = operand,
                                     .floats.items = x,
                                     .floats.stride = which->n_inputs,
                                     .floats.rows = device_rows,
                                     .floats.rows_divisor = 1,
                                     .n_experts = far ? expert + 1 : 0,
                                     .expert_first = expert_first,
                                     .expert_order = far ? device_rows : NULL,
                                     .device.shared_bytes_max = device_facts(device)->shared_bytes_max,
                                     .device.n_multiprocessors = device_facts(device)->n_multiprocessors};
    product.parts[0] =
        (struct product_part){address_before(tiles, (uint64_t)expert * matrix_bytes), NULL,
                              address_before(y, (uint64_t)row * (uint64_t)y_stride * sizeof *y), y_stride,
                              which->n_outputs};
    launch_product(device_stream(device), &product);
    float *strided = from_device(y, (size_t)(n * y_stride) * sizeof *y);
    size_t row_bytes = (size_t)which->n_outputs * sizeof *y;
    struct outcome outcome = {require_memory(malloc((size_t)n * row_bytes)), (size_t)n * row_bytes};
    for (int32_t i = 0; i < n; i++)
        memcpy(outcome.bytes + (size_t)i * row_bytes, strided + i * y_stride, row_bytes);
    free(strided);
    free(rows);
    return outcome;
}

static struct outcome compute_product(const struct golden_case *which, bool far)
{
    uint64_t seed = 101;
    struct tensor tensor =
        product_tensor((enum tensor_type)which->type, which->n_outputs, which->n_inputs, FILL_RANDOM, &seed);
    void *tiles = require_memory(malloc(tiles_bytes(tensor.type, which->n_outputs, which->n_inputs)));
    tiles_pack(tiles, tensor.type, &tensor, 0, 0, tiles_panels(which->n_outputs));
    void *device_tiles = on_device(tiles, tiles_bytes(tensor.type, which->n_outputs, which->n_inputs));
    float *x = random_floats((size_t)which->n_rows * (size_t)which->n_inputs, 3, &seed);
    float *device_x = on_device(x, (size_t)which->n_rows * (size_t)which->n_inputs * sizeof *x);
    struct outcome outcome = multiply(which, device_tiles, device_x, far);
    check_near_exact(which, &tensor, x, (const float *)(const void *)outcome.bytes);
    free(tiles);
    free(x);
    free((void *)tensor.data);
    return outcome;
}

// One token of 32 heads of 128 dimensions, 8 of keys, at position n_inputs; pages of `type`.
static struct outcome compute_attention(const struct golden_case *which, bool far)
{
    enum { N_HEADS = 32, N_KV_HEADS = 8, DIM = 128, PAGE = 16, FAR_PAGE = 200000 };
    uint64_t seed = 102;
    int32_t n = which->n_inputs + 1, n_pages = (n + PAGE - 1) / PAGE, first = far ? FAR_PAGE : 0;
    struct attention_pages pages = {NULL, 1,    far ? FAR_PAGE + n_pages : n_pages, N_KV_HEADS, DIM,
                                    DIM,  PAGE, (enum kv_type)which->type};
    uint64_t page_bytes = N_KV_HEADS * (PAGE / ATTENTION_BLOCK) * attention_block_bytes(&pages);
    pages.memory =
        address_before(on_device(NULL, (size_t)n_pages * page_bytes), (uint64_t)first * page_bytes);
    int32_t *tables = require_memory(malloc((size_t)n_pages * sizeof *tables)),
            *row_sequences = require_memory(calloc((size_t)n, sizeof *row_sequences));
    for (int32_t i = 0; i < n_pages; i++)
        tables[i] = first + n_pages - 1 - i;
    struct attention_sequence stored = {0, n, 0, 0, 0, 0}, asked = {0, 1, n - 1, 0, 0, 0};
    int32_t *device_tables = on_device(tables, (size_t)n_pages * sizeof *tables);
    float *k = floats_on_device((size_t)n * N_KV_HEADS * DIM, 1, &seed),
          *v = floats_on_device((size_t)n * N_KV_HEADS * DIM, 1, &seed);
    struct attention_store store = {.pages = pages,
                                    .sequences = on_device(&stored, sizeof stored),
                                    .row_sequences =
                                        on_device(row_sequences, (size_t)n * sizeof *row_sequences),
                                    .tables = device_tables,
                                    .n_rows = n,
                                    .k = k,
                                    .v = v,
                                    .k_stride = N_KV_HEADS * DIM,
                                    .v_stride = N_KV_HEADS * DIM};
    launch_attention_store(device_stream(device), &store);
    float *out = on_device(NULL, N_HEADS * DIM * sizeof *out);
    struct attention_launch call = {.pages = pages,
                                    .sequences = on_device(&asked, sizeof asked),
                                    .tables = device_tables,
                                    .extent.n_sequences = 1,
                                    .extent.n_rows = 1,
                                    .extent.n_rows_most = 1,
                                    .extent.n_part_rows = 1,
                                    .extent.n_positions_most = n,
                                    .q = floats_on_device(N_HEADS * DIM, 4, &seed),
                                    .out = out,
                                    .strides.q = N_HEADS * DIM,
                                    .strides.out = N_HEADS * DIM,
                                    .n_heads = N_HEADS,
                                    .scoring.scale = 0x1.6a09e6p-4f, // 1 / sqrt(128)
                                    .device.n_multiprocessors = 0,
                                    .device.shared_bytes_max = device_facts(device)->shared_bytes_max};
    launch_attention(device_stream(device), &call);
    free(tables);
    free(row_sequences);
    return (struct outcome){from_device(out, N_HEADS * DIM * sizeof *out), N_HEADS * DIM * sizeof *out};
}

// n_rows of n_inputs: a residual sum and its norm.
static struct outcome compute_norm(const struct golden_case *which, bool far)
{
    uint64_t seed = 103;
    size_t n = (size_t)which->n_inputs, n_items = (size_t)which->n_rows * n;
    struct device_matrix in = {floats_on_device(n_items, 2, &seed), which->n_inputs},
                         addend = {floats_on_device(n_items, 1, &seed), which->n_inputs},
                         out = {on_device(NULL, n_items * sizeof(float)), which->n_inputs};
    struct norm_launch norm = {.out = out,
                               .in = in,
                               .n_rows = which->n_rows,
                               .n_groups = 1,
                               .n = which->n_inputs,
                               .rms = true,
                               .weight = floats_on_device(n, 1, &seed),
                               .epsilon = 1e-5f,
                               .addend = addend,
                               .scale = 1.0f};
    launch_norm(device_stream(device), &norm);
    return (struct outcome){from_device(out.items, n_items * sizeof(float)), n_items * sizeof(float)};
}

static struct outcome compute_activation(const struct golden_case *which, bool far)
{
    uint64_t seed = 104;
    size_t n_items = (size_t)which->n_rows * (size_t)which->n_inputs;
    struct device_matrix gate = {floats_on_device(n_items, 8, &seed), which->n_inputs},
                         up = {floats_on_device(n_items, 2, &seed), which->n_inputs},
                         out = {on_device(NULL, n_items * sizeof(float)), which->n_inputs};
    launch_activate(device_stream(device), out, gate, up, which->n_rows, which->n_inputs,
                    (enum activation_kind)which->type);
    return (struct outcome){from_device(out.items, n_items * sizeof(float)), n_items * sizeof(float)};
}

// The last token of a vocabulary; far away, of a table of more than 4 GiB.
static struct outcome compute_embedding(const struct golden_case *which, bool far)
{
    uint64_t seed = 105;
    struct tensor tensor =
        product_tensor((enum tensor_type)which->type, 1, which->n_inputs, FILL_RANDOM, &seed);
    const struct tensor_traits *traits = tensor_traits(tensor.type);
    int64_t row_bytes = which->n_inputs / (int32_t)traits->block_items * (int64_t)traits->block_bytes;
    int32_t token = far ? (int32_t)((5ll << 30) / row_bytes) : 0;
    struct device_table table = {address_before(on_device(tensor.data, (size_t)row_bytes),
                                                (uint64_t)token * (uint64_t)row_bytes),
                                 row_bytes, token + 1, which->type};
    struct device_matrix out = {on_device(NULL, (size_t)which->n_inputs * sizeof(float)), which->n_inputs};
    launch_embed(device_stream(device), &(struct embed_launch){.out = out,
                                                               .n_rows = 1,
                                                               .n_cols = which->n_inputs,
                                                               .table = table,
                                                               .tokens = on_device(&token, sizeof token),
                                                               .scale = 1.0f});
    free((void *)tensor.data);
    size_t size = (size_t)which->n_inputs * sizeof(float);
    return (struct outcome){from_device(out.items, size), size};
}

// One draw from n_inputs logits with top-k `n_outputs`; far away, the second of two rows of logits.
static struct outcome compute_draw(const struct golden_case *which, bool far)
{
    uint64_t seed = 106;
    int32_t n_vocab = which->n_inputs, output = far ? 2 : 0;
    int64_t stride = far ? 1 << 30 : n_vocab;
    struct sample_settings settings[3] = {{0}};
    settings[output] = (struct sample_settings){.seed = 42,
                                                .temperature = which->n_outputs ? 0.8f : 0.0f,
                                                .top_p = 0.95f,
                                                .penalties.repetition = 1.0f,
                                                .top_k = which->n_outputs,
                                                .n_top = 5,
                                                .flags = SAMPLE_WANTED | SAMPLE_LOGPROBS};
    float *logits = floats_on_device((size_t)n_vocab, 12, &seed);
    struct sample_arguments arguments = {
        .logits = address_before(logits, (uint64_t)output * (uint64_t)stride * sizeof(float)),
        .stride = stride,
        .n_vocab = n_vocab,
        .n_outputs = output + 1,
        .settings = on_device(settings, sizeof settings),
        .states = on_device(NULL, 3 * sizeof(struct sample_state)),
        .outcomes = on_device(NULL, 3 * sizeof(struct sample_outcome)),
        .top = on_device(NULL, (size_t)3 * JOB_TOP_LOGPROBS_MAX * sizeof(struct token_logprob))};
    launch_sample_logprobs(device_stream(device), &arguments);
    launch_sample_draw(device_stream(device), &arguments);
    struct sample_outcome *outcomes = from_device(arguments.outcomes, 3 * sizeof *outcomes);
    outcomes[0] = outcomes[output];
    return (struct outcome){(unsigned char *)outcomes, sizeof *outcomes};
}

#define PRODUCT(type, n_inputs, n_outputs, n_rows, has_far)                                                  \
    {                                                                                                        \
        "product_" #type "_" #n_inputs "x" #n_outputs "_rows_" #n_rows, compute_product, TENSOR_##type,      \
            n_inputs, n_outputs, n_rows, has_far, false                                                      \
    }

static const struct golden_case cases[] = {
    PRODUCT(F32, 4096, 33, 1, true),
    PRODUCT(F16, 4096, 33, 1, true),
    PRODUCT(F16, 4096, 33, 17, true),
    PRODUCT(BF16, 4096, 33, 9, false),
    PRODUCT(Q8_0, 4096, 33, 9, false),
    PRODUCT(Q4_0, 4096, 33, 9, false),
    PRODUCT(Q4_K, 4096, 33, 1, true),
    PRODUCT(Q4_K, 4096, 33, 17, false),
    PRODUCT(Q5_K, 4096, 33, 9, false),
    PRODUCT(Q6_K, 4096, 33, 9, false),
    PRODUCT(F16, 4096, 300, 64, false),
    PRODUCT(BF16, 4096, 300, 96, false),
    PRODUCT(F16, 4096, 300, 130, false),
    PRODUCT(BF16, 4096, 300, 130, false),
    PRODUCT(Q4_K, 4096, 300, 64, false),
    PRODUCT(Q4_K, 4096, 300, 96, false),
    PRODUCT(Q4_K, 4096, 300, 130, false),
    PRODUCT(Q4_K, 14336, 17, 2, false),
    PRODUCT(Q8_0, 128, 128256, 1, false),
    {"~attention_f16_300", compute_attention, KV_F16, 299, 0, 0, true, true},
    {"~attention_q8_0_40", compute_attention, KV_Q8_0, 39, 0, 0, true, true},
    {"norm_4096", compute_norm, 0, 4096, 0, 3, false, false},
    {"norm_14336", compute_norm, 0, 14336, 0, 2, false, false},
    {"silu_14336", compute_activation, ACTIVATION_SILU, 14336, 0, 2, false, false},
    {"gelu_4096", compute_activation, ACTIVATION_GELU, 4096, 0, 2, false, false},
    {"embedding_q4_k_4096", compute_embedding, TENSOR_Q4_K, 4096, 0, 0, true, false},
    {"embedding_f16_4096", compute_embedding, TENSOR_F16, 4096, 0, 0, true, false},
    {"draw_greedy_128256", compute_draw, 0, 128256, 0, 0, true, false},
    {"draw_top_k_40_128256", compute_draw, 0, 128256, 40, 0, true, false},
};

enum { N_CASES = sizeof cases / sizeof *cases };

static void fail(const char *name, const char *what)
{
    printf("not ok %s: %s\n", name, what);
    n_failed++;
}

static uint64_t hash_case(const struct golden_case *which, bool try_far)
{
    struct outcome outcome = which->compute(which, false);
    free_arrays();
    if (try_far && which->has_far) {
        struct outcome far = which->compute(which, true);
        free_arrays();
        if (far.size != outcome.size || memcmp(far.bytes, outcome.bytes, far.size) != 0)
            fail(which->name, "other bytes at indices whose offsets exceed 2^32");
        free(far.bytes);
    }
    uint64_t hash = hash_bytes(outcome.bytes, outcome.size, 0);
    free(outcome.bytes);
    return hash;
}

// The golden hashes of a case by its name; false: the file has none.
static bool find_golden(FILE *file, const char *name, uint64_t hashes[2])
{
    char line[256], found[NAME_BYTES];
    rewind(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %" SCNx64 " %" SCNx64, found, &hashes[0], &hashes[1]) == 3 &&
            strcmp(found, name) == 0)
            return true;
    return false;
}

static void compare_hash(const struct golden_case *which, int column, uint64_t hash, uint64_t golden)
{
    char text[128];
    snprintf(text, sizeof text, "capability %d.0: %016" PRIx64 ", predicted %016" PRIx64, column ? 8 : 9,
             hash, golden);
    if (hash == golden)
        printf("ok %s %s\n", which->name, column ? "8.0" : "9.0");
    else if (which->approximate && !device_facts(device)->emulated)
        printf("differs %s: %s (ex2.approx is not predicted to the last bit)\n", which->name, text);
    else
        fail(which->name, text);
    fflush(stdout);
}

static void check_all(FILE *file)
{
    const struct device_facts *facts = device_facts(device);
    for (int i = 0; i < N_CASES; i++) {
        uint64_t golden[2];
        if (!find_golden(file, cases[i].name, golden)) {
            fail(cases[i].name, "no golden hash");
            continue;
        }
        for (int column = 0; column < 2; column++) {
            if (!facts->emulated && facts->capability_major != (column ? 8 : 9))
                continue;
            emulate_capability(column ? 80 : 90);
            compare_hash(&cases[i], column, hash_case(&cases[i], column == 0 || !facts->emulated),
                         golden[column]);
        }
    }
}

static void write_all(FILE *file)
{
    fprintf(file,
            "# XXH3 of the bytes that gpu_golden computes, by the emulation: case, capability 9.0, 8.0\n");
    for (int i = 0; i < N_CASES; i++) {
        uint64_t hashes[2];
        for (int column = 0; column < 2; column++) {
            emulate_capability(column ? 80 : 90);
            hashes[column] = hash_case(&cases[i], false);
        }
        fprintf(file, "%s %016" PRIx64 " %016" PRIx64 "\n", cases[i].name, hashes[0], hashes[1]);
    }
}

int main(int argc, char **argv)
{
    bool write = argc == 3 && strcmp(argv[2], "write") == 0;
    struct error error;
    if (argc < 2 || (argc > 2 && !write)) {
        printf("gpu_golden FILE [write]\n");
        return 2;
    }
    if (device_open(&device, &(struct device_options){0}, &error) != STATUS_OK ||
        device_load_kernels(device, &error) != STATUS_OK) {
        printf("skipped: %s\n", error.text);
        return 77;
    }
    FILE *file = fopen(argv[1], write ? "w" : "r");
    if (!file || (write && !device_facts(device)->emulated)) {
        printf("%s: cannot be opened, or not emulated\n", argv[1]);
        return 2;
    }
    printf("on %s\n", device_facts(device)->name);
    if (write)
        write_all(file);
    else
        check_all(file);
    fclose(file);
    emulate_capability(90);
    device_close(device);
    return n_failed > 0;
}
