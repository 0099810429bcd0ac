// The launches of the CUDA backend's operations: which are made, in what order, with which arguments
// (gpu/operations.c, products.c, sampling.c). Launches are this program's, and write a line each.
#include "gpu/state.h"
#include "schemas/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

static void *add_place(const char *name, size_t size, size_t item)
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
static const char *name_of(const void *address)
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
static const char *matrix_of(struct device_matrix matrix)
{
    static char texts[4][48];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "%s:%lld", name_of(matrix.items), (long long)matrix.stride);
    return matrix.items ? text : "-";
}

static const char *operand_of(const struct activation_operand *operand)
{
    static char texts[4][128]; // of one line
    static int next;
    char *text = texts[next++ % 4];
    if (!operand->items && !operand->n_rows)
        return "-";
    snprintf(text, sizeof texts[0], "%s%s %dx%d %s %s", operand->form == OPERAND_HALF ? "half" : "bfloat",
             operand->swizzled ? " swizzled" : "", operand->n_rows, operand->n_inputs,
             name_of(operand->items), name_of(operand->scales));
    return text;
}

// ---- launches ----

static void check_stream(void *stream)
{
    assert_ptr_equal(stream, &backend);
}

void launch_embed(void *stream, struct device_matrix to, int32_t n_rows, int32_t n_cols,
                  struct device_table table, const int32_t *tokens, float scale,
                  struct device_table positions_table, const int32_t *positions)
{
    check_stream(stream);
    buffer_add_format(&out, "embed %s %dx%d %s[%s] *%g + %s[%s]\n", matrix_of(to), n_rows, n_cols,
                      name_of(table.rows), name_of(tokens), (double)scale, name_of(positions_table.rows),
                      name_of(positions));
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
                      int32_t n_cols)
{
    check_stream(stream);
    buffer_add_format(&out, "gate %s %s %dx%d\n", matrix_of(x), matrix_of(gate), n_rows, n_cols);
}

void launch_route(void *stream, const struct route_launch *route)
{
    check_stream(stream);
    buffer_add_format(&out, "route %s %d rows %d of %d%s%s *%g %s %d of %d groups %s %s %s %s\n",
                      matrix_of(route->logits), route->n_rows, route->n_used, route->n_experts,
                      route->sigmoid ? " sigmoid" : "", route->normalized ? " normalized" : "",
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

static void add_next(const struct next_operand *next)
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
    (void)device;
    assert_ptr_equal(phases, &backend.submitted.slot->phases);
    buffer_add_format(&out, "phase %d\n", (int)phase);
}

static void add_product(const struct product_launch *product)
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

static void add_sample(void *stream, const char *what, const struct sample_arguments *arguments)
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
    (void)device;
    return &facts;
}

void device_upload_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                        size_t stride_bytes)
{
    (void)device, (void)from;
    buffer_add_format(&out, "upload %s %zu rows of %zu by %zu\n", name_of(to), n_rows, row_bytes,
                      stride_bytes);
}

void device_download_rows(struct device *device, void *to, const void *from, size_t n_rows, size_t row_bytes,
                          size_t stride_bytes)
{
    (void)device, (void)to;
    buffer_add_format(&out, "download %s %zu rows of %zu by %zu\n", name_of(from), n_rows, row_bytes,
                      stride_bytes);
}

// ---- matrices and weights ----

static struct matrix x, y, z, narrow; // 64, 64, 64 and 8 columns
static struct weight gain, bias, table, q4, q6, b16, f32, f16_heads;

static void make_matrix(struct matrix *matrix, const char *name, int32_t n_cols, int32_t stride)
{
    *matrix = (struct matrix){.device = {add_place(name, (size_t)stride * 32 * 4, 4), stride},
                              .n_rows_max = 32,
                              .n_cols = n_cols};
}

static void make_vector(struct weight *weight, const char *name, int64_t n)
{
    *weight =
        (struct weight){.role = WEIGHT_VECTOR, .items = add_place(name, (size_t)n * 4, 4), .n_items = n};
}

static void make_product(struct weight *weight, const char *name, enum tensor_type type, int32_t n_outputs,
                         int64_t n_matrices)
{
    *weight = (struct weight){.role = WEIGHT_PRODUCT,
                              .tensor = {.dims = {64, (uint64_t)n_outputs, (uint64_t)n_matrices, 1}},
                              .memory = add_place(name, 65536, 1),
                              .tiles = type,
                              .n_matrices = n_matrices};
}

static void make_scratch(struct device_scratch *scratch, const char *name, size_t size, size_t item)
{
    *scratch = (struct device_scratch){add_place(name, size, item), size};
}

static void make_memory(void)
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

static int begin(void **state)
{
    static float rope[8];
    (void)state;
    n_places = 0;
    memset(&backend, 0, sizeof backend);
    facts = (struct device_facts){.shared_bytes_max = SHARED_KIB << 10, .n_multiprocessors = MULTIPROCESSORS};
    step =
        (struct step){.n_tokens = N_TOKENS, .n_outputs = N_OUTPUTS, .rope = {rope, rope}, .n_rope_dims = 4};
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

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < n_places; i++)
        free((void *)(uintptr_t)places[i].begin);
    buffer_finish(&out);
    return 0;
}

static void is_captured(void)
{
    backend.submitted.slot->part->way = STEP_CAPTURES;
}

static void expect(const char *expected)
{
    buffer_add_string(&out, "");
    assert_string_equal(out.size ? out.data : "", expected);
    buffer_clear(&out);
}

static void flush(void)
{
    assert_true(gpu_enqueues(&backend));
}

// ---- rows ----

static void rows_are_padded_in_graphs_alone(void **state)
{
    (void)state;
    assert_int_equal(gpu_rows(&backend, N_TOKENS), N_TOKENS);
    assert_int_equal(gpu_rows(&backend, 5), 5);
    is_captured();
    assert_int_equal(gpu_rows(&backend, N_TOKENS), N_ROWS);
    assert_int_equal(gpu_rows(&backend, 2 * N_TOKENS), 2 * N_ROWS); // pairs of a row and an expert
    assert_int_equal(gpu_rows(&backend, 0), 0);
}

static void operations_on_rows_are_launched_with_the_step_s_inputs(void **state)
{
    (void)state;
    for (int captured = 0; captured < 2; captured++) {
        if (captured)
            is_captured();
        gpu_embed(&backend.base, &x, &table, 2, NULL);
        expect(captured ? "embed x:96 4x64 table[up+16] *2 + -[up+32]\n"
                        : "embed x:96 3x64 table[up+16] *2 + -[up+32]\n");
        gpu_activate(&backend.base, &x, &y, &z, N_TOKENS, ACTIVATION_GELU);
        expect(captured ? "activate x:96 <- y:64 z:64 4x64 1\n" : "activate x:96 <- y:64 z:64 3x64 1\n");
        gpu_scale(&backend.base, &x, N_TOKENS, 0.5f, 30);
        expect(captured ? "scale x:96 4x64 *0.5 cap 30\n" : "scale x:96 3x64 *0.5 cap 30\n");
        gpu_gate_rows(&backend.base, &x, &narrow, N_TOKENS);
        expect(captured ? "gate x:96 narrow:32 4x64\n" : "gate x:96 narrow:32 3x64\n");
        gpu_copy_columns(&backend.base, &x, (struct head_columns){4, 16}, &y, (struct head_columns){2, 15}, 4,
                         4, N_TOKENS);
        expect(captured ? "columns x+4:96 by 16 <- y+2:64 by 15, 4 heads of 4, 4 rows\n"
                        : "columns x+4:96 by 16 <- y+2:64 by 15, 4 heads of 4, 3 rows\n");
        gpu_gather(&backend.base, &x, &y); // its rows are the padded outputs
        expect("gather x:96 <- y:64[up+48] 4x64\n");
    }
    gpu_embed(&backend.base, &x, &table, 1, &table);
    expect("embed x:96 4x64 table[up+16] *1 + table[up+32]\n");
    gpu_activate(&backend.base, &x, &y, NULL, N_TOKENS, ACTIVATION_SILU);
    expect("activate x:96 <- y:64 - 4x64 0\n");
}

static void rows_are_written_and_read_at_their_stride(void **state)
{
    float rows[128];
    (void)state;
    gpu_add(&backend.base, &z, &y, N_TOKENS, 1);
    gpu_write(&backend.base, &x, 2, rows);
    expect("add z:64 y:64 3x64 *1\nupload x 2 rows of 256 by 384\n");
    gpu_add(&backend.base, &z, &y, N_TOKENS, 1);
    gpu_read(&backend.base, &x, 2, rows);
    expect("add z:64 y:64 3x64 *1\ndownload x 2 rows of 256 by 384\n");
}

static void a_step_that_failed_or_is_replayed_launches_nothing(void **state)
{
    float rows[128];
    struct product product = {.y = &y, .weight = &q4};
    struct norm_parameters norm = {.weight = &gain, .n_groups = 1};
    struct route_parameters route = {.n_used = 2, .n_groups = 1};
    (void)state;
    for (int i = 0; i < 2; i++) {
        backend.fault.failed = i == 0;
        backend.submitted.slot->part->way = i == 0 ? STEP_EAGER : STEP_REPLAYS;
        gpu_embed(&backend.base, &x, &table, 1, NULL);
        gpu_norm(&backend.base, &x, &y, N_TOKENS, &norm);
        gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
        gpu_activate(&backend.base, &x, &y, &z, N_TOKENS, ACTIVATION_SILU);
        gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
        gpu_scale(&backend.base, &x, N_TOKENS, 1, 0);
        gpu_gather(&backend.base, &x, &y);
        gpu_copy_columns(&backend.base, &x, (struct head_columns){0, 4}, &y, (struct head_columns){0, 4}, 4,
                         4, N_TOKENS);
        gpu_gate_rows(&backend.base, &x, &narrow, N_TOKENS);
        gpu_route(&backend.base, &narrow, N_TOKENS, &route);
        gpu_expert_sum(&backend.base, &x, &y, N_TOKENS);
        gpu_write(&backend.base, &x, 2, rows);
        gpu_read(&backend.base, &x, 2, rows);
        gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
        gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, false);
        gpu_gated_products(&backend.base, &product, &product, &x, N_TOKENS, false, ACTIVATION_SILU);
        gpu_head_products(&backend.base, &y, (struct head_columns){0, 16}, &f16_heads, &x,
                          (struct head_columns){0, 0}, N_TOKENS);
        gpu_sample(&backend.base, &x);
        assert_true(backend.submitted.slot->drawn); // its outcomes are there all the same
        assert_false(gpu_enqueues(&backend));
        expect("");
        assert_null(backend.current.pending.x);
        assert_null(backend.current.pending_rows.out);
        assert_int_equal(backend.current.ropes.n, 0);
    }
}

// ---- what waits ----

static void a_sum_waits_for_a_norm_of_the_same_matrix(void **state)
{
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .epsilon = 0.5f, .n_groups = 1};
    (void)state;
    gpu_add(&backend.base, &x, &y, N_TOKENS, 2);
    expect("");
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    expect("");
    flush();
    expect("norm z:64 <- x:96 3x1x64 rms gain - 0.5 + y:64 *2\n");
    flush(); // once
    expect("");
    gpu_add(&backend.base, &x, &y, N_TOKENS, 2);
    gpu_norm(&backend.base, &z, &y, N_TOKENS, &norm); // of another matrix
    expect("add x:96 y:64 3x64 *2\n");
    flush();
    expect("norm z:64 <- y:64 3x1x64 rms gain - 0.5\n");
    gpu_add(&backend.base, &x, &y, 2, 1);
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm); // of other rows
    expect("add x:96 y:64 2x64 *1\n");
    flush();
    buffer_clear(&out);
    norm.n_groups = 2;
    norm.own_weights = true;
    gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm); // of each head
    expect("add x:96 y:64 3x64 *1\n");
    flush();
    expect("norm z:64 <- x:96 3x2x32 rms own gain - 0.5\n");
    gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
    gpu_add(&backend.base, &x, &z, N_TOKENS, 3);
    expect("add x:96 y:64 3x64 *1\n");
    flush();
    expect("add x:96 z:64 3x64 *3\n");
}

static void a_norm_has_its_kind_s_weights(void **state)
{
    struct norm_parameters norm = {.kind = NORM_LAYER, .weight = &gain, .bias = &bias, .n_groups = 1};
    struct weight head = gain;
    (void)state;
    is_captured();
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    flush();
    expect("norm z:64 <- x:96 4x1x64 gain bias 0\n");
    norm.bias = NULL;
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    flush();
    expect("norm z:64 <- x:96 4x1x64 gain - 0\n");
    norm = (struct norm_parameters){.kind = NORM_RMS, .weight = &head, .bias = &bias, .n_groups = 4};
    head.n_items = 16; // one vector for all heads
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    flush();
    expect("norm z:64 <- x:96 4x4x16 rms gain - 0\n");
}

static void two_rotations_of_different_matrices_wait(void **state)
{
    (void)state;
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_NONE, 0);
    flush();
    expect("");
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
    gpu_rope(&backend.base, &y, N_TOKENS, 2, 32, 4, ROPE_ADJACENT, 1);
    expect("");
    assert_int_equal(backend.current.ropes.n, 2);
    flush();
    expect("rope x:96 3 rows 4 heads of 16, 4 dims in halves up+80\n"
           "rope y:64 3 rows 2 heads of 32, 4 dims up+96\n");
    is_captured();
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
    gpu_rope(&backend.base, &x, N_TOKENS, 4, 16, 4, ROPE_HALVES, 1); // again
    expect("rope x:96 4 rows 4 heads of 16, 4 dims in halves up+80\n");
    gpu_rope(&backend.base, &y, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0);
    expect("");
    gpu_rope(&backend.base, &z, N_TOKENS, 4, 16, 4, ROPE_HALVES, 0); // a third
    expect("rope x:96 4 rows 4 heads of 16, 4 dims in halves up+96\n"
           "rope y:64 4 rows 4 heads of 16, 4 dims in halves up+80\n");
    assert_int_equal(backend.current.ropes.n, 1);
    gpu_scale(&backend.base, &x, N_TOKENS, 1, 0);
    expect("rope z:64 4 rows 4 heads of 16, 4 dims in halves up+80\nscale x:96 4x64 *1 cap 0\n");
}

// ---- experts ----

static void experts_are_routed_and_summed(void **state)
{
    struct route_parameters route = {.kind = ROUTE_SIGMOID,
                                     .n_used = 2,
                                     .scale = 2.5f,
                                     .pick_bias = &bias,
                                     .n_groups = 4,
                                     .n_groups_used = 2};
    (void)state;
    gpu_route(&backend.base, &narrow, N_TOKENS, &route);
    expect("route narrow:32 3 rows 2 of 8 sigmoid *2.5 bias 2 of 4 groups experts order first weights\n");
    gpu_expert_sum(&backend.base, &x, &y, N_TOKENS);
    expect("sum x:96 <- y:64 weights 3 rows of 2, 64\n");
    is_captured();
    route = (struct route_parameters){.kind = ROUTE_SOFTMAX, .n_used = 3, .scale = 1, .normalized = true};
    gpu_route(&backend.base, &narrow, N_TOKENS, &route);
    expect("route narrow:32 4 rows 3 of 8 normalized *1 - 0 of 0 groups experts order first weights\n");
    gpu_expert_sum(&backend.base, &x, &y, N_TOKENS);
    expect("sum x:96 <- y:64 weights 4 rows of 3, 64\n");
}

static void route_two(void)
{
    gpu_route(&backend.base, &narrow, N_TOKENS,
              &(struct route_parameters){.kind = ROUTE_SOFTMAX, .n_used = 2, .scale = 1});
    buffer_clear(&out);
}

static void products_of_experts_gather_their_rows(void **state)
{
    struct weight many = q4, more = f32;
    struct product product = {.y = &y, .weight = &many};
    (void)state;
    many.n_matrices = more.n_matrices = 8;
    route_two();
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, false);
    expect("operand half 6x64 items scales <- x:96 [order / 2]\n"
           "products Q4_0 {half 6x64 items scales} q4 - -> y:64 64; 8 experts first order\n");
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, true);
    expect("operand half 6x64 items scales <- x:96 [order / 1]\n"
           "products Q4_0 {half 6x64 items scales} q4 - -> y:64 64; 8 experts first order\n");
    product.weight = &more;
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, false);
    expect("products F32 {floats} f32 - -> y:64 64; x x:96 [order / 2] 8 experts first order\n");
    facts.has_wgmma = true; // no kernel for experts
    is_captured();
    route_two();
    product.weight = &many;
    gpu_expert_products(&backend.base, &product, 1, &x, N_TOKENS, true);
    expect("operand half 8x64 items scales <- x:96 [order / 1]\n"
           "products Q4_0 {half 8x64 items scales} q4 - -> y:64 64; 8 experts first order\n");
}

// ---- products ----

static void products_of_one_type_are_one_launch(void **state)
{
    struct product products[] = {{.y = &y, .weight = &q4, .bias = &bias}, {.y = &z, .weight = &q4}};
    (void)state;
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("operand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 bias -> y:64 64;\n");
    is_captured();
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("operand half 4x64 items scales <- x:96\n"
           "products Q4_0 {half 4x64 items scales} q4 bias -> y:64 64; q4 - -> z:64 64;\n");
    gpu_products(&backend.base, products, 2, &x, 0);
    expect("");
}

static void types_of_one_form_of_operand_are_launched_together(void **state)
{
    struct matrix w = y;
    struct product products[] = {{.y = &y, .weight = &q4},
                                 {.y = &z, .weight = &q6},
                                 {.y = &w, .weight = &q4},
                                 {.y = &z, .weight = &f32}};
    (void)state;
    gpu_products(&backend.base, products, 4, &x, N_TOKENS);
    expect("operand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64; q4 - -> y:64 64;"
           " Q6_K {half 3x64 items scales} q6 - -> z:64 64; F32 {floats} f32 - -> z:64 64; x x:96\n");
    products[2].weight = &b16; // another form, after the launches that read the first
    gpu_products(&backend.base, products, 4, &x, N_TOKENS);
    expect("operand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;"
           " Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n"
           "operand bfloat 3x64 items scales <- x:96\n"
           "products BF16 {bfloat 3x64 items scales} b16 - -> y:64 64; F32 {floats} f32 - -> z:64 64;"
           " x x:96\n");
    products[0].weight = &f32;
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("products F32 {floats} f32 - -> y:64 64; x x:96\noperand half 3x64 items scales <- x:96\n"
           "products Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n");
}

static void operands_of_many_rows_are_swizzled_for_wgmma(void **state)
{
    struct product product = {.y = &y, .weight = &q4};
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1};
    (void)state;
    facts.has_wgmma = true;
    facts.shared_bytes_max = PRODUCT_SHARED_BYTES_WGMMA;
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST - 1);
    assert_null(strstr(out.data, "swizzled"));
    buffer_clear(&out);
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST);
    expect("operand half swizzled 17x64 items scales <- x:96\n"
           "products Q4_0 {half swizzled 17x64 items scales} q4 - -> y:64 64;\n");
    gpu_norm(&backend.base, &x, &z, WGMMA_ROWS_LEAST, &norm);
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST);
    expect("norm x:96 <- z:64 17x1x64 rms gain - 0 -> half swizzled 17x64 items scales\n"
           "products Q4_0 {half swizzled 17x64 items scales} q4 - -> y:64 64;\n");
    facts.has_wgmma = false;
    gpu_products(&backend.base, &product, 1, &x, WGMMA_ROWS_LEAST);
    assert_null(strstr(out.data, "swizzled"));
}

static void a_norm_makes_the_operand_of_the_product_behind_it(void **state)
{
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    struct product products[] = {{.y = &y, .weight = &q4}, {.y = &z, .weight = &q6}};
    (void)state;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales only\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;"
           " Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n");
    flush();
    expect("");
    norm.consumed = false;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    norm.consumed = true;
    products[1].weight = &b16; // reads the norm itself
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n"
           "operand bfloat 3x64 items scales <- x:96\n"
           "products BF16 {bfloat 3x64 items scales} b16 - -> z:64 64;\n");
    products[1].weight = &f32;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    assert_null(strstr(out.data, "only"));
    buffer_clear(&out);
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, products + 1, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0\n"
           "products F32 {floats} f32 - -> z:64 64; x x:96\n");
}

static void a_norm_of_another_matrix_or_of_heads_is_launched_before(void **state)
{
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    struct product product = {.y = &y, .weight = &q4};
    (void)state;
    gpu_norm(&backend.base, &z, &x, N_TOKENS, &norm);
    gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
    expect("norm z:64 <- x:96 3x1x64 rms gain - 0\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    gpu_norm(&backend.base, &x, &z, 2, &norm); // of other rows
    gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 2x1x64 rms gain - 0\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    norm.n_groups = 2;
    norm.own_weights = true;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_products(&backend.base, &product, 1, &x, N_TOKENS);
    expect("norm x:96 <- z:64 3x2x32 rms own gain - 0\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
}

static void gated_products_of_one_type_are_one_launch(void **state)
{
    struct product gate = {.y = &y, .weight = &q4}, up = {.y = &z, .weight = &q4};
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    (void)state;
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, false, ACTIVATION_GELU);
    flush();
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0 -> half 3x64 items scales only\n"
           "products Q4_0 gated {half 3x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 1\n");
    gpu_gated_products(&backend.base, &gate, &up, &x, 0, false, ACTIVATION_GELU);
    expect("");
    for (int i = 0; i < 2; i++) { // of two types, or of floats: the activation is a launch of its own
        gate.weight = i == 0 ? &q4 : &f32;
        up.weight = i == 0 ? &q6 : &f32;
        gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, false, ACTIVATION_GELU);
        expect(i == 0 ? "operand half 3x64 items scales <- x:96\n"
                        "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;"
                        " Q6_K {half 3x64 items scales} q6 - -> z:64 64;\n"
                        "activate y:64 <- y:64 z:64 3x64 1\n"
                      : "products F32 {floats} f32 - -> y:64 64; f32 - -> z:64 64; x x:96\n"
                        "activate y:64 <- y:64 z:64 3x64 1\n");
    }
}

static void gated_products_of_experts_leave_a_norm_as_it_is(void **state)
{
    struct weight many = q4;
    struct product gate = {.y = &y, .weight = &many}, up = {.y = &z, .weight = &many};
    struct norm_parameters norm = {.kind = NORM_RMS, .weight = &gain, .n_groups = 1, .consumed = true};
    (void)state;
    many.n_matrices = 8;
    route_two();
    gpu_norm(&backend.base, &x, &z, N_TOKENS, &norm);
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, true, ACTIVATION_SILU);
    flush();
    expect("norm x:96 <- z:64 3x1x64 rms gain - 0\n"
           "operand half 6x64 items scales <- x:96 [order / 2]\n"
           "products Q4_0 gated {half 6x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 0 8"
           " experts first order\n");
}

// As gpu_attend leaves it.
static void defer_attention(struct matrix *to, int32_t n_rows)
{
    flush();
    backend.current.pending_rows = (struct pending_rows){
        .out = to,
        .kind = PENDING_ATTENTION,
        .n_rows = n_rows,
        .attention = {.out = to->device.items, .strides.out = to->device.stride, .extent.n_rows = n_rows}};
}

static void attention_writes_the_operand_of_the_product_behind_it(void **state)
{
    struct product products[] = {{.y = &y, .weight = &q4}, {.y = &z, .weight = &b16}};
    (void)state;
    defer_attention(&x, N_TOKENS);
    gpu_products(&backend.base, products, 2, &x, N_TOKENS);
    expect("attention x:96 3 rows next {half 3x64 items scales arrivals}\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n"
           "operand bfloat 3x64 items scales <- x:96\n"
           "products BF16 {bfloat 3x64 items scales} b16 - -> z:64 64;\n");
    struct step_times times;
    backend.current.times = &times;
    defer_attention(&x, N_TOKENS);
    backend.current.pending_rows.ends_phase = true;
    backend.current.pending_rows.phase = PHASE_PRODUCTS;
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("attention x:96 3 rows next {half 3x64 items scales arrivals}\nphase 3\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    backend.current.times = NULL; // not traced
    defer_attention(&x, N_TOKENS);
    backend.current.pending_rows.ends_phase = true;
    products[0].weight = &f32;
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("attention x:96 3 rows\nproducts F32 {floats} f32 - -> y:64 64; x x:96\n");
    products[0].weight = &q4;
    defer_attention(&z, N_TOKENS); // of another matrix
    gpu_products(&backend.base, products, 1, &x, N_TOKENS);
    expect("attention z:64 3 rows\noperand half 3x64 items scales <- x:96\n"
           "products Q4_0 {half 3x64 items scales} q4 - -> y:64 64;\n");
    defer_attention(&x, N_TOKENS);
    gpu_gather(&backend.base, &y, &x); // some of its rows
    expect("attention x:96 3 rows\ngather y:64 <- x:96[up+48] 4x64\n");
    flush();
    expect("");
}

static void gates_write_the_operand_of_the_product_behind_them(void **state)
{
    struct product gate = {.y = &y, .weight = &q4}, up = {.y = &z, .weight = &q4},
                   down = {.y = &x, .weight = &b16};
    (void)state;
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, false, ACTIVATION_SILU);
    expect("operand half 3x64 items scales <- x:96\n");
    gpu_products(&backend.base, &down, 1, &y, N_TOKENS);
    expect("products Q4_0 gated {half 3x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 0"
           " next {bfloat 3x64 next factors arrivals}\n"
           "products BF16 {bfloat 3x64 next factors} b16 - -> x:96 64;\n");
    for (int i = 0; i < 3; i++) { // of many rows; of no room; of another matrix
        int32_t n = i == 0 ? SKINNY_ROWS_MAX + 1 : N_TOKENS;
        backend.memory.next_items.size_bytes = i == 1 ? activation_operand_bytes(N_TOKENS, 64) - 1 : 4096;
        gpu_gated_products(&backend.base, &gate, &up, &x, n, false, ACTIVATION_SILU);
        gpu_products(&backend.base, &down, 1, i == 2 ? &z : &y, n);
        assert_null(strstr(out.data, "next"));
        assert_non_null(strstr(out.data, i == 2 ? "<- z:64\n" : "<- y:64\n"));
        buffer_clear(&out);
    }
}

// In place of their result, if all that reads it has that form.
static void gates_of_many_rows_write_the_operand_in_place(void **state)
{
    struct matrix wide, wide_up;
    struct weight gates = q4, down_bfloat = b16, down_half = q4;
    (void)state;
    make_matrix(&wide, "wide", 128, 128);
    make_matrix(&wide_up, "wide_up", 128, 128);
    gates.tensor.dims[1] = down_bfloat.tensor.dims[0] = down_half.tensor.dims[0] = 128;
    struct product gate = {.y = &wide, .weight = &gates}, up = {.y = &wide_up, .weight = &gates},
                   down[] = {{.y = &y, .weight = &down_bfloat}, {.y = &z, .weight = &down_half}};
    facts.has_wgmma = true;
    facts.shared_bytes_max = PRODUCT_SHARED_BYTES_WGMMA;
    for (int n = 1; n <= 2; n++) {
        gpu_gated_products(&backend.base, &gate, &up, &x, 17, false, ACTIVATION_SILU);
        gpu_products(&backend.base, down, n, &wide, 17);
        expect(n == 1 ? "operand half swizzled 17x64 items scales <- x:96\n"
                        "products Q4_0 gated {half swizzled 17x64 items scales} q4 - -> wide:128 128;"
                        " q4 - -> wide_up:128 128; activation 0"
                        " next {bfloat swizzled 17x128 wide factors arrivals}\n"
                        "products BF16 {bfloat swizzled 17x128 wide factors} b16 - -> y:64 64;\n"
                      : "operand half swizzled 17x64 items scales <- x:96\n"
                        "products Q4_0 gated {half swizzled 17x64 items scales} q4 - -> wide:128 128;"
                        " q4 - -> wide_up:128 128; activation 0\n"
                        "operand bfloat swizzled 17x128 items scales <- wide:128\n"
                        "products BF16 {bfloat swizzled 17x128 items scales} b16 - -> y:64 64;\n"
                        "operand half swizzled 17x128 items scales <- wide:128\n"
                        "products Q4_0 {half swizzled 17x128 items scales} q4 - -> z:64 64;\n");
    }
}

static void gates_of_experts_write_the_operand_of_their_pairs(void **state)
{
    struct weight many = q4;
    struct product gate = {.y = &y, .weight = &many}, up = {.y = &z, .weight = &many},
                   down = {.y = &x, .weight = &many};
    (void)state;
    many.n_matrices = 8;
    route_two();
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, true, ACTIVATION_SILU);
    gpu_expert_products(&backend.base, &down, 1, &y, N_TOKENS, true);
    expect("operand half 6x64 items scales <- x:96 [order / 2]\n"
           "products Q4_0 gated {half 6x64 items scales} q4 - -> y:64 64; q4 - -> z:64 64; activation 0"
           " next {half 6x64 next factors arrivals} 8 experts first order\n"
           "products Q4_0 {half 6x64 next factors} q4 - -> x:96 64; 8 experts first order\n");
    gpu_gated_products(&backend.base, &gate, &up, &x, N_TOKENS, true, ACTIVATION_SILU);
    gpu_expert_products(&backend.base, &down, 1, &y, N_TOKENS, false); // rows and not pairs
    assert_null(strstr(out.data, "next"));
    buffer_clear(&out);
}

// One block converts them one after the other: both sides of the limit.
static void gates_write_the_next_operand_of_few_bytes(void **state)
{
    struct product_launch gated = {.n_parts = 2, .x.n_rows = 4, .floats.rows_divisor = 1, .gated = true};
    (void)state;
    gated.parts[0].n_outputs = PRODUCT_NEXT_BYTES / 4 / 4;
    assert_true(product_makes_next(&gated, OPERAND_HALF));
    gated.parts[0].n_outputs++;
    assert_false(product_makes_next(&gated, OPERAND_HALF));
    gated.n_experts = 2; // tiles of as many rows as there are tokens
    gated.floats.rows_divisor = 2;
    assert_true(product_makes_next(&gated, OPERAND_HALF));
    gated.n_experts = 8;
    gated.x.n_rows = 8 * SKINNY_ROWS_ONE_COLUMN; // 8 of 32 tokens
    gated.parts[0].n_outputs = PRODUCT_NEXT_BYTES / 4 / SKINNY_ROWS_ONE_COLUMN;
    assert_true(product_makes_next(&gated, OPERAND_HALF));
    gated.x.n_rows++; // 16
    assert_false(product_makes_next(&gated, OPERAND_HALF));
    gated.parts[0].n_outputs /= 2;
    assert_true(product_makes_next(&gated, OPERAND_HALF));
    gated.x.n_rows = 8 * SKINNY_ROWS_MAX + 1;
    assert_false(product_makes_next(&gated, OPERAND_HALF));
    gated.x.n_rows = 1;
    gated.gated = false;
    assert_false(product_makes_next(&gated, OPERAND_HALF));
}

// With wgmma: bfloat16 of whole groups, of any number of rows, if its scales were set.
static void gates_of_many_rows_write_bfloat16(void **state)
{
    float scales[1];
    struct product_launch gated = {.n_parts = 2,
                                   .x = {.n_rows = 8192, .swizzled = true, .next_scales = scales},
                                   .floats.rows_divisor = 1,
                                   .gated = true};
    (void)state;
    gated.parts[0].n_outputs = 14336;
    assert_true(product_makes_next(&gated, OPERAND_BFLOAT));
    assert_false(product_makes_next(&gated, OPERAND_HALF));
    gated.parts[0].n_outputs += 64;
    assert_false(product_makes_next(&gated, OPERAND_BFLOAT));
    gated.parts[0].n_outputs += 64;
    gated.x.next_scales = NULL;
    assert_false(product_makes_next(&gated, OPERAND_BFLOAT));
    gated.x.next_scales = scales;
    gated.gated = false;
    assert_false(product_makes_next(&gated, OPERAND_BFLOAT));
}

// Every tile is one block's, and what device memory is asked for is counted as the second-level cache would
// have it: weights once a group of row tiles, x once.
static void blocks_are_ordered_by_groups_of_row_tiles(void **state)
{
    static const struct {
        int32_t n_output_tiles, n_row_tiles, n_group_tiles;
    } cases[] = {{1, 1, 1}, {3, 7, 2}, {5, 6, 3}, {4, 5, 5}, {224, 64, 16}, {7, 9, 1}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int32_t n_outputs = cases[c].n_output_tiles, n_rows = cases[c].n_row_tiles,
                n_group = cases[c].n_group_tiles, n_weights = 0, last_outputs = -1;
        bool *seen = calloc((size_t)(n_outputs * n_rows), sizeof *seen);
        for (int32_t i = 0; i < n_outputs * n_rows; i++) {
            struct product_place place = product_place_of(i, n_outputs, n_rows, n_group);
            assert_in_range(place.outputs, 0, n_outputs - 1);
            assert_in_range(place.rows, 0, n_rows - 1);
            assert_false(seen[place.rows * n_outputs + place.outputs]);
            seen[place.rows * n_outputs + place.outputs] = true;
            assert_int_equal(place.rows / n_group, i / (n_group * n_outputs));
            n_weights += place.outputs != last_outputs;
            last_outputs = place.outputs;
        }
        int32_t n_groups = (n_rows + n_group - 1) / n_group;
        assert_int_equal(n_weights, n_outputs == 1 ? 1 : n_outputs * n_groups);
        assert_int_equal(product_place_of((int64_t)n_outputs * n_rows, n_outputs, n_rows, n_group).outputs,
                         -1);
        free(seen);
    }
    assert_int_equal(product_group_tiles(128, 4096, 64), 16);
    assert_int_equal(product_group_tiles(128, 14336, 64), 4);
    assert_int_equal(product_group_tiles(128, 4096, 2), 2);
    assert_int_equal(product_group_tiles(128, 1 << 20, 64), 1);
}

static void products_of_heads_are_launched_as_many_as_the_operand_holds(void **state)
{
    struct weight floats = f16_heads;
    (void)state;
    f16_heads.tensor.dims[0] = floats.tensor.dims[0] = 16;
    struct head_columns from = {3, 12}, to = {1, 15};
    size_t head_bytes = (size_t)tiles_bytes(TENSOR_F16, 16, 16);
    char text[512];
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, N_TOKENS);
    expect("operand half 12x16 items scales <- x+3:96 heads of 3 rows, by 12\n"
           "product F16 {half 12x16 items scales} heads - -> y+1:64 16; 4 heads of 3 rows, by 12 to 15\n");
    backend.memory.operand_items.size_bytes = 3 * activation_operand_bytes(N_TOKENS, 16);
    snprintf(text, sizeof text,
             "operand half 9x16 items scales <- x+3:96 heads of 3 rows, by 12\n"
             "product F16 {half 9x16 items scales} heads - -> y+1:64 16; 3 heads of 3 rows, by 12 to 15\n"
             "operand half 3x16 items scales <- x+39:96 heads of 3 rows, by 12\n"
             "product F16 {half 3x16 items scales} heads+%zu - -> y+46:64 16; 1 heads of 3 rows, by 12 to"
             " 15\n",
             3 * head_bytes);
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, N_TOKENS);
    expect(text);
    backend.memory.operand_items.size_bytes = 65536;
    backend.memory.operand_scales.size_bytes = (4 * N_TOKENS - 1) * sizeof(float); // for three heads
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, N_TOKENS);
    expect(text);
    gpu_head_products(&backend.base, &y, to, &f16_heads, &x, from, 0);
    expect("");
    backend.memory.operand_scales.size_bytes = 4096;
    floats.tiles = TENSOR_F32;
    is_captured();
    gpu_head_products(&backend.base, &y, to, &floats, &x, from, N_TOKENS);
    expect("product F32 {floats} heads - -> y+1:64 16; x x+3:96 4 heads of 4 rows, by 12 to 15\n");
}

// ---- sampling ----

static void tokens_are_drawn_from_padded_outputs(void **state)
{
    struct sample_request samples[N_OUTPUTS] = {0};
    (void)state;
    step.samples = samples;
    size_t top = (4 * sizeof(struct sample_outcome) + 15) / 16 * 16;
    char text[512];
    snprintf(text, sizeof text,
             "logprobs x:96 64 of 4 outputs, settings up+64 biases up history up masks up given given"
             " given+%zu counts counts states states outcomes outcome top outcome+%zu\nadjust\ndraw\n",
             (size_t)UPLOAD_BYTES / sizeof(struct sample_bias), top);
    gpu_add(&backend.base, &x, &y, N_TOKENS, 1);
    gpu_sample(&backend.base, &x);
    assert_memory_equal(out.data, "add ", 4);
    assert_string_equal(strchr(out.data, '\n') + 1, text);
    assert_true(backend.submitted.slot->drawn);
}

static void outcomes_are_downloaded_with_their_alternatives_where_some_are_asked_for(void **state)
{
    struct sampling first = {0}, second = {.top_logprobs = 2};
    struct sample_request samples[N_OUTPUTS] = {{.sampling = &first}, {.sampling = &second}};
    const size_t one = sizeof(struct sample_outcome),
                 few = JOB_TOP_LOGPROBS_MAX * sizeof(struct token_logprob);
    (void)state;
    for (int32_t n = 1; n <= 9; n++) {
        size_t bytes = gpu_outcome_bytes(n), alternatives = (size_t)n * few;
        assert_int_equal((bytes - alternatives) % 16, 0);
        assert_true(bytes - alternatives >= (size_t)n * one && bytes - alternatives < (size_t)n * one + 16);
    }
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), N_OUTPUTS * one); // logits alone are read
    step.samples = samples;
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), N_OUTPUTS * one);
    second.logprobs = true;
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), gpu_outcome_bytes(4));
    second.top_logprobs = 0;
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), N_OUTPUTS * one);
    second.top_logprobs = 1;
    step.n_outputs = 1; // the second is none of the step's
    assert_int_equal(gpu_outcome_wanted_bytes(&backend, &step), one);
}

static void outcomes_are_results(void **state)
{
    struct sample_result results[N_OUTPUTS];
    struct step_slot slot = {.n_outputs = N_OUTPUTS, .n_outputs_padded = 5};
    struct sample_outcome *outcomes = calloc(1, gpu_outcome_bytes(5));
    (void)state;
    slot.outcome_host = (unsigned char *)outcomes;
    struct token_logprob *top =
        (void *)(slot.outcome_host + gpu_outcome_bytes(5) - 5 * JOB_TOP_LOGPROBS_MAX * sizeof *top);
    outcomes[0] = (struct sample_outcome){.token = 7, .logprob = -0.5f, .n_top = 2};
    outcomes[1] = (struct sample_outcome){.token = -1};
    for (int i = 0; i < 3; i++)
        top[i] = (struct token_logprob){.token = 20 + i, .logprob = (float)-i};
    memset(results, 0x55, sizeof results);
    gpu_take_outcomes(&slot, results);
    assert_int_equal(results[0].token, 7);
    assert_true(results[0].logprob == -0.5f);
    assert_int_equal(results[0].n_top, 2);
    assert_int_equal(results[0].top[0].token, 20);
    assert_int_equal(results[0].top[1].token, 21);
    assert_true(results[0].top[1].logprob == -1);
    assert_int_equal(results[0].top[2].token, 0);
    assert_int_equal(results[1].token, -1);
    assert_int_equal(results[1].n_top, 0);
    outcomes[1].n_top = 1;
    top[JOB_TOP_LOGPROBS_MAX].token = 33;
    gpu_take_outcomes(&slot, results);
    assert_int_equal(results[1].top[0].token, 33);
    free(outcomes);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        test(rows_are_padded_in_graphs_alone),
        test(operations_on_rows_are_launched_with_the_step_s_inputs),
        test(rows_are_written_and_read_at_their_stride),
        test(a_step_that_failed_or_is_replayed_launches_nothing),
        test(a_sum_waits_for_a_norm_of_the_same_matrix),
        test(a_norm_has_its_kind_s_weights),
        test(two_rotations_of_different_matrices_wait),
        test(experts_are_routed_and_summed),
        test(products_of_experts_gather_their_rows),
        test(products_of_one_type_are_one_launch),
        test(types_of_one_form_of_operand_are_launched_together),
        test(operands_of_many_rows_are_swizzled_for_wgmma),
        test(a_norm_makes_the_operand_of_the_product_behind_it),
        test(a_norm_of_another_matrix_or_of_heads_is_launched_before),
        test(gated_products_of_one_type_are_one_launch),
        test(gated_products_of_experts_leave_a_norm_as_it_is),
        test(attention_writes_the_operand_of_the_product_behind_it),
        test(gates_write_the_operand_of_the_product_behind_them),
        test(gates_of_experts_write_the_operand_of_their_pairs),
        test(gates_write_the_next_operand_of_few_bytes),
        test(gates_of_many_rows_write_bfloat16),
        test(gates_of_many_rows_write_the_operand_in_place),
        test(blocks_are_ordered_by_groups_of_row_tiles),
        test(products_of_heads_are_launched_as_many_as_the_operand_holds),
        test(tokens_are_drawn_from_padded_outputs),
        test(outcomes_are_downloaded_with_their_alternatives_where_some_are_asked_for),
        test(outcomes_are_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
