// The launches of the CUDA backend's operations, without a device: each launch writes a line of its arguments, with
// names in place of addresses. For the programs that test which launches are made, in what order (gpu/operations.c,
// products.c, sampling.c): included by one file of each.
#pragma once

#include "gpu/state.h"
#include "schemas/base/text.h"
#include "tests/support/cases.h"

enum { N_TOKENS = 3, N_ROWS = 4, N_OUTPUTS = 2, UPLOAD_BYTES = 4096, MULTIPROCESSORS = 7, SHARED_KIB = 100 };

static struct gpu_backend backend;
static struct step step;
static struct device_facts facts;
static struct buffer out;

// ---- names of addresses ----

static struct {
    const char *name;
    const unsigned char *begin;
    size_t size;
    size_t item; // bytes
} places[32];
static int n_places;

static inline void *add_place(const char *name, size_t size, size_t item)
{
    void *memory = calloc(1, size);
    assert_non_null(memory);
    assert_true(n_places < (int)(sizeof places / sizeof *places));
    places[n_places].name = name;
    places[n_places].begin = memory;
    places[n_places].size = size;
    places[n_places++].item = item;
    return memory;
}

// "x", "x+4" (items), "-" for NULL.
static inline const char *name_of(const void *address)
{
    static char names[16][32]; // of one line
    static int next;
    char *name = names[next++ % 16];
    snprintf(name, sizeof names[0], address ? "?" : "-");
    for (int i = 0; address && i < n_places; i++) {
        size_t at = (size_t)((const unsigned char *)address - places[i].begin);
        if ((const unsigned char *)address < places[i].begin || at >= places[i].size)
            continue;
        if (at)
            snprintf(name, sizeof names[0], "%s+%zu", places[i].name, at / places[i].item);
        else
            snprintf(name, sizeof names[0], "%s", places[i].name);
    }
    return name;
}

// "x:128", with the stride.
static inline const char *matrix_of(struct device_matrix matrix)
{
    static char texts[4][48];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "%s:%lld", name_of(matrix.items), (long long)matrix.stride);
    return matrix.items ? text : "-";
}

static inline const char *operand_of(const struct activation_operand *operand)
{
    static char texts[4][128]; // of one line
    static int next;
    char *text = texts[next++ % 4];
    if (!operand->items && !operand->n_rows)
        return "-";
    char scale[32];
    snprintf(scale, sizeof scale, "scale %g", (double)operand->scale);
    snprintf(text, sizeof texts[0], "%s%s %dx%d %s %s", operand->form == OPERAND_HALF ? "half" : "bfloat",
             operand->swizzled ? " swizzled" : "", operand->n_rows, operand->n_inputs,
             name_of(operand->items), operand->scale != 0 ? scale : name_of(operand->scales));
    return text;
}

// ---- launches ----

static inline void check_stream(void *stream)
{
    assert_ptr_equal(stream, &backend);
}

void launch_embed(void *stream, const struct embed_launch *embed)
{
    check_stream(stream);
    buffer_add_format(&out, "embed %s %dx%d %s[%s] *%g + %s[%s]\n", matrix_of(embed->out), embed->n_rows,
                      embed->n_cols, name_of(embed->table.rows), name_of(embed->tokens), (double)embed->scale,
                      name_of(embed->positions_table.rows), name_of(embed->positions));
}

void launch_norm(void *stream, const struct norm_launch *norm)
{
    check_stream(stream);
    buffer_add_format(&out, "norm %s <- %s %dx%dx%d%s%s %s %s %g", matrix_of(norm->out), matrix_of(norm->in),
                      norm->n_rows, norm->n_groups, norm->n, norm->rms ? " rms" : "",
                      norm->own_weights ? " own" : "", name_of(norm->weight), name_of(norm->bias),
                      (double)norm->epsilon);
    if (norm->addend.items)
        buffer_add_format(&out, " + %s *%g", matrix_of(norm->addend), (double)norm->scale);
    if (norm->operand.items)
        buffer_add_format(&out, " -> %s%s", operand_of(&norm->operand), norm->operand_only ? " only" : "");
    buffer_add_string(&out, "\n");
}

void launch_rope(void *stream, const struct rope_launch *rope)
{
    check_stream(stream);
    assert_int_equal(rope->n_parts, 1);
    buffer_add_format(&out, "rope %s %d rows %d heads of %d, %d dims%s %s\n", matrix_of(rope->parts[0].x),
                      rope->n_rows, rope->parts[0].n_heads, rope->head_dim, rope->n_dims,
                      rope->halves ? " in halves" : "", name_of(rope->parts[0].cos_sin));
}

void launch_activate(void *stream, struct device_matrix to, struct device_matrix gate,
                     struct device_matrix up, int32_t n_rows, int32_t n_cols, enum activation_kind kind)
{
    check_stream(stream);
    buffer_add_format(&out, "activate %s <- %s %s %dx%d %d\n", matrix_of(to), matrix_of(gate), matrix_of(up),
                      n_rows, n_cols, (int)kind);
}

void launch_add(void *stream, struct device_matrix x, struct device_matrix y, int32_t n_rows, int32_t n_cols,
                float scale)
{
    check_stream(stream);
    buffer_add_format(&out, "add %s %s %dx%d *%g\n", matrix_of(x), matrix_of(y), n_rows, n_cols,
                      (double)scale);
}

void launch_scale(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols, float scale,
                  float cap)
{
    check_stream(stream);
    buffer_add_format(&out, "scale %s %dx%d *%g cap %g\n", matrix_of(x), n_rows, n_cols, (double)scale,
                      (double)cap);
}

void launch_gather(void *stream, struct device_matrix to, struct device_matrix in, const int32_t *rows,
                   int32_t n_rows, int32_t n_cols)
{
    check_stream(stream);
    buffer_add_format(&out, "gather %s <- %s[%s] %dx%d\n", matrix_of(to), matrix_of(in), name_of(rows),
                      n_rows, n_cols);
}

void launch_copy_columns(void *stream, struct device_matrix to, int32_t out_step, struct device_matrix in,
                         int32_t in_step, int32_t n_heads, int32_t n, int32_t n_rows)
{
    check_stream(stream);
    buffer_add_format(&out, "columns %s by %d <- %s by %d, %d heads of %d, %d rows\n", matrix_of(to),
                      out_step, matrix_of(in), in_step, n_heads, n, n_rows);
}

void launch_gate_rows(void *stream, struct device_matrix x, struct device_matrix gate, int32_t n_rows,
                      int32_t n_cols, int32_t n_gates)
{
    check_stream(stream);
    buffer_add_format(&out, "gate %s %s/%d %dx%d\n", matrix_of(x), matrix_of(gate), n_gates, n_rows, n_cols);
}

void launch_route(void *stream, const struct route_launch *route)
{
    check_stream(stream);
    buffer_add_format(&out, "route %s %d rows %d of %d%s%s *%g %s %d of %d groups %s %s %s %s\n",
                      matrix_of(route->logits), route->n_rows, route->n_used, route->n_experts,
                      route->kind == ROUTE_SIGMOID ? " sigmoid" : "", route->normalized ? " normalized" : "",
                      (double)route->scale, name_of(route->pick_bias), route->n_groups_used, route->n_groups,
                      name_of(route->experts), name_of(route->order), name_of(route->first),
                      name_of(route->weights));
}

void launch_expert_sum(void *stream, struct device_matrix to, struct device_matrix y, const float *weights,
                       int32_t n_rows, int32_t n_used, int32_t n_cols)
{
    check_stream(stream);
    buffer_add_format(&out, "sum %s <- %s %s %d rows of %d, %d\n", matrix_of(to), matrix_of(y),
                      name_of(weights), n_rows, n_used, n_cols);
}

void launch_activation_operand(void *stream, const struct activation_operand_launch *launch)
{
    check_stream(stream);
    buffer_add_format(&out, "operand %s <- %s:%lld", operand_of(&launch->out), name_of(launch->x),
                      (long long)launch->x_stride);
    if (launch->rows || launch->rows_divisor != 1)
        buffer_add_format(&out, " [%s / %d]", name_of(launch->rows), launch->rows_divisor);
    if (launch->head_rows)
        buffer_add_format(&out, " heads of %d rows, by %d", launch->head_rows, launch->x_head_step);
    buffer_add_string(&out, "\n");
}

static inline void add_next(const struct next_operand *next)
{
    if (next->out.items)
        buffer_add_format(&out, " next {%s %s}", operand_of(&next->out), name_of(next->arrivals));
}

void launch_attention(void *stream, const struct attention_launch *attention)
{
    check_stream(stream);
    buffer_add_format(&out, "attention %s:%lld %d rows", name_of(attention->out),
                      (long long)attention->strides.out, attention->extent.n_rows);
    add_next(&attention->next);
    buffer_add_string(&out, "\n");
}

void phases_mark(struct phases *phases, struct device *device, enum step_phase phase)
{
    assert_ptr_equal(phases, &backend.submitted.slot->phases);
    buffer_add_format(&out, "phase %d\n", (int)phase);
}

static inline void add_product(const struct product_launch *product)
{
    buffer_add_format(&out, " %s%s {%s}", tensor_traits(product->type)->name, product->gated ? " gated" : "",
                      product->type == TENSOR_F32 ? "floats" : operand_of(&product->x));
    assert_true(product->type != TENSOR_F32 || product->x.n_rows * product->x.n_inputs > 0);
    assert_int_equal(product->device.shared_bytes_max, facts.shared_bytes_max);
    assert_int_equal(product->device.n_multiprocessors, MULTIPROCESSORS);
    for (int32_t i = 0; i < product->n_parts; i++)
        buffer_add_format(&out, " %s %s -> %s:%lld %d;", name_of(product->parts[i].tiles),
                          name_of(product->parts[i].bias), name_of(product->parts[i].y),
                          (long long)product->parts[i].y_stride, product->parts[i].n_outputs);
    if (product->type == TENSOR_F32)
        buffer_add_format(&out, " x %s:%lld", name_of(product->floats.items),
                          (long long)product->floats.stride);
    if (product->type == TENSOR_F32 && product->floats.rows)
        buffer_add_format(&out, " [%s / %d]", name_of(product->floats.rows), product->floats.rows_divisor);
    if (product->gated)
        buffer_add_format(&out, " activation %d", (int)product->activation);
    add_next(&product->next);
    if (product->heads.n_rows)
        buffer_add_format(&out, " %d heads of %d rows, by %d to %d", product->n_experts,
                          product->heads.n_rows, product->heads.x_step, product->heads.y_step);
    else if (product->n_experts)
        buffer_add_format(&out, " %d experts %s %s", product->n_experts, name_of(product->expert_first),
                          name_of(product->expert_order));
}

void launch_product(void *stream, const struct product_launch *product)
{
    check_stream(stream);
    buffer_add_string(&out, "product");
    add_product(product);
    buffer_add_string(&out, "\n");
}

void launch_products(void *stream, const struct product_launch *products, int32_t n)
{
    check_stream(stream);
    if (n == 0)
        return;
    buffer_add_string(&out, "products");
    for (int32_t i = 0; i < n; i++)
        add_product(&products[i]);
    buffer_add_string(&out, "\n");
}

static const struct sample_arguments *expected_sample; // of the first of three launches

static inline void add_sample(void *stream, const char *what, const struct sample_arguments *arguments)
{
    check_stream(stream);
    if (expected_sample)
        assert_memory_equal(arguments, expected_sample, sizeof *arguments);
    buffer_add_format(&out,
                      "%s %s:%lld %d of %d outputs, settings %s biases %s history %s masks %s given %s %s "
                      "counts %s states %s outcomes %s top %s\n",
                      what, name_of(arguments->logits), (long long)arguments->stride, arguments->n_vocab,
                      arguments->n_outputs, name_of(arguments->settings), name_of(arguments->biases),
                      name_of(arguments->history), name_of(arguments->masks),
                      name_of(arguments->given_biased), name_of(arguments->given_history),
                      name_of(arguments->counts), name_of(arguments->states), name_of(arguments->outcomes),
                      name_of(arguments->top));
}

void launch_sample_logprobs(void *stream, const struct sample_arguments *arguments)
{
    add_sample(stream, "logprobs", arguments);
    expected_sample = arguments;
}

void launch_sample_adjust(void *stream, const struct sample_arguments *arguments)
{
    check_stream(stream);
    assert_ptr_equal(arguments, expected_sample);
    buffer_add_string(&out, "adjust\n");
}

void launch_sample_draw(void *stream, const struct sample_arguments *arguments)
{
    check_stream(stream);
    assert_ptr_equal(arguments, expected_sample);
    expected_sample = NULL;
    buffer_add_string(&out, "draw\n");
}

// ---- the device ----

const struct device_facts *device_facts(const struct device *device)
{
    return &facts;
}

void device_upload_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                        size_t stride_bytes)
{
    buffer_add_format(&out, "upload %s %zu rows of %zu by %zu\n", name_of(to), n_rows, row_bytes,
                      stride_bytes);
}

void device_download_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                          size_t stride_bytes)
{
    buffer_add_format(&out, "download %s %zu rows of %zu by %zu\n", name_of(from), n_rows, row_bytes,
                      stride_bytes);
}

// ---- matrices and weights ----

static struct matrix x, y, z, narrow; // 64, 64, 64 and 8 columns
static struct weight gain, bias, table, q4, q6, b16, f32, f16_heads;

static inline void make_matrix(struct matrix *matrix, const char *name, int32_t n_cols, int32_t stride)
{
    *matrix = (struct matrix){.device = {add_place(name, (size_t)stride * 32 * 4, 4), stride},
                              .n_rows_max = 32,
                              .n_cols = n_cols,
                              .size_bytes = (size_t)stride * 32 * 4};
}

static inline void make_vector(struct weight *weight, const char *name, int64_t n)
{
    *weight =
        (struct weight){.role = WEIGHT_VECTOR, .items = add_place(name, (size_t)n * 4, 4), .n_items = n};
}

static inline void make_product(struct weight *weight, const char *name, enum tensor_type type,
                                int32_t n_outputs, int64_t n_matrices)
{
    *weight = (struct weight){.role = WEIGHT_PRODUCT,
                              .tensor = {.dims = {64, (uint64_t)n_outputs, (uint64_t)n_matrices, 1}},
                              .memory = add_place(name, 65536, 1),
                              .tiles = type,
                              .n_matrices = n_matrices};
}

static inline void make_scratch(struct device_scratch *scratch, const char *name, size_t size, size_t item)
{
    *scratch = (struct device_scratch){add_place(name, size, item), size};
}

static inline void make_memory(void)
{
    struct step_memory *memory = &backend.memory;
    make_scratch(&memory->upload, "up", UPLOAD_BYTES, 1);
    make_scratch(&memory->outcome, "outcome", 8192, 1);
    make_scratch(&memory->operand_items, "items", 65536, 1);
    make_scratch(&memory->operand_scales, "scales", 4096, 4);
    make_scratch(&memory->next_items, "next", 4096, 1);
    make_scratch(&memory->next_scales, "factors", 1024, 4);
    make_scratch(&memory->arrivals, "arrivals", 1024, 4);
    make_scratch(&memory->given, "given", 8192, 4);
    make_scratch(&memory->counts, "counts", 64, 4);
    make_scratch(&memory->states, "states", 64, 4);
    make_scratch(&memory->pair_experts, "experts", 64, 4);
    make_scratch(&memory->pair_order, "order", 64, 4);
    make_scratch(&memory->expert_first, "first", 64, 4);
    make_scratch(&memory->pair_weights, "weights", 64, 4);
}

static inline int begin(void **state)
{
    static float rope[8];
    n_places = 0;
    memset(&backend, 0, sizeof backend);
    facts = (struct device_facts){.shared_bytes_max = SHARED_KIB << 10, .n_multiprocessors = MULTIPROCESSORS};
    step = (struct step){
        .n_tokens = N_TOKENS, .n_outputs = N_OUTPUTS, .rope = {rope, rope}, .n_rope_dims = {4, 4}};
    backend.stream = &backend;
    backend.current.step = &step;
    backend.current.padded = (struct upload_counts){.n_rows = N_ROWS, .n_sequences = N_ROWS, .n_outputs = 4};
    backend.current.layout = (struct upload_layout){
        .tokens = 16, .positions = 32, .output_rows = 48, .settings = 64, .rope = {80, 96}};
    backend.submitted.slot = &backend.submitted.slots[0];
    backend.submitted.slot->part = &backend.submitted.slot->forward;
    backend.capacity.n_experts_max = 8;
    backend.capacity.n_rows_max = 32;
    make_memory();
    make_matrix(&x, "x", 64, 96);
    make_matrix(&y, "y", 64, 64);
    make_matrix(&z, "z", 64, 64);
    make_matrix(&narrow, "narrow", 8, 32);
    make_vector(&gain, "gain", 64);
    make_vector(&bias, "bias", 64);
    make_product(&q4, "q4", TENSOR_Q4_0, 64, 1);
    make_product(&q6, "q6", TENSOR_Q6_K, 64, 1);
    make_product(&b16, "b16", TENSOR_BF16, 64, 1);
    make_product(&f32, "f32", TENSOR_F32, 64, 1);
    make_product(&f16_heads, "heads", TENSOR_F16, 16, 4);
    table = (struct weight){.role = WEIGHT_TABLE,
                            .tensor = {.dims = {64, 100, 1, 1}},
                            .table = {.rows = add_place("table", 64, 1)}};
    return 0;
}

static inline int end(void **state)
{
    for (int i = 0; i < n_places; i++)
        free((void *)(uintptr_t)places[i].begin);
    buffer_finish(&out);
    return 0;
}

static inline void is_captured(void)
{
    backend.submitted.slot->part->way = STEP_CAPTURES;
}

static inline void expect(const char *expected)
{
    buffer_add_string(&out, "");
    assert_string_equal(out.size ? out.data : "", expected);
    buffer_clear(&out);
}

static inline void flush(void)
{
    assert_true(gpu_enqueues(&backend));
}

void gpu_launch_products(struct gpu_backend *gpu, struct product_launch *calls, int32_t n)
{
    launch_products(gpu->stream, calls, n);
}
