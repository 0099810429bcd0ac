// The row-wise operations of a step. Each returns at once if an error is latched.
#include "engine/cpu/state.h"

#include "engine/sampler.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { SPREAD_FLOATS = 16384 }; // floats per task: about 2 us, a few times the cost of starting it

struct spread {
    void (*row)(void *context, int32_t row, int thread);
    void *context;
    int32_t n_rows, rows_a_task;
};

static void spread_task(void *context, int index, int thread)
{
    const struct spread *spread = context;
    int32_t begin = index * spread->rows_a_task;
    int32_t end = spread->n_rows - begin < spread->rows_a_task ? spread->n_rows : begin + spread->rows_a_task;
    for (int32_t row = begin; row < end; row++)
        spread->row(spread->context, row, thread);
}

void spread_rows(struct cpu_backend *backend, int32_t n_rows, int64_t n_floats,
                 void (*row)(void *context, int32_t row, int thread), void *context)
{
    int64_t rows = n_floats > 0 && n_floats < SPREAD_FLOATS ? SPREAD_FLOATS / n_floats : 1;
    struct spread spread = {row, context, n_rows, rows < n_rows ? (int32_t)rows : n_rows};
    if (n_rows > 0)
        pool_run(backend->pool, (n_rows + spread.rows_a_task - 1) / spread.rows_a_task, spread_task, &spread);
}

// The heads of a row. In each head the first n_dims items are rotated.
struct row_heads {
    int32_t n, dim, n_dims;
};

struct row_scaling {
    float scale, cap;
};

// Arguments of the row tasks; each operation uses some of the fields.
struct row_work {
    struct cpu_backend *backend;
    struct matrix *out;
    const struct matrix *in, *other;
    const struct weight *weight, *bias, *types;
    struct row_scaling scaling;
    struct row_heads heads;
    struct pages *pages;
    int32_t layer; // layer of the pages
    struct head_columns from, to;
    const float *rope;
    void (*rotate)(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims);
    void (*activate)(float *out, const float *gate, const float *up, int32_t n);
    const struct xielu *xielu;
    const struct norm_parameters *norm;
    struct {
        float least, most;
    } limits;
};

// ---- embedding ----

static void table_row(const struct weight *table, int32_t row, float *out)
{
    assert(table->role == WEIGHT_TABLE && row >= 0);
    if ((uint64_t)row >= tensor_n_rows(&table->tensor))
        row = 0;
    const unsigned char *data = table->tensor.data;
    tensor_traits(table->tensor.type)
        ->dequantize(data + (uint64_t)row * tensor_row_bytes(&table->tensor), out, table->tensor.dims[0]);
}

static void embed_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    struct cpu_backend *backend = work->backend;
    float *out = matrix_row(work->out, row);
    int32_t n = (int32_t)work->weight->tensor.dims[0];
    table_row(work->weight, backend->step->tokens[row], out);
    if (work->scaling.scale != 1.0f)
        backend->kernels.rows.scale_cap(out, n, work->scaling.scale, 0.0f);
    float *added = backend->buffers.table_rows + (int64_t)thread * backend->capacity.n_table_cols_max;
    if (work->bias) {
        table_row(work->bias, backend->step->positions[row], added);
        backend->kernels.rows.add_scaled(out, added, 1.0f, n);
    }
    if (work->types) {
        table_row(work->types, backend->step->types ? backend->step->types[row] : 0, added);
        backend->kernels.rows.add_scaled(out, added, 1.0f, n);
    }
}

void cpu_embed(struct backend *base, struct matrix *out, const struct weight *table, float scale,
               const struct weight *positions_table, const struct weight *types_table)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(table->tensor.dims[0] == (uint64_t)out->n_cols && backend->step->n_tokens <= out->n_rows_max);
    struct row_work work = {.backend = backend,
                            .out = out,
                            .weight = table,
                            .bias = positions_table,
                            .types = types_table,
                            .scaling.scale = scale};
    spread_rows(backend, backend->step->n_tokens, 4 * (int64_t)out->n_cols, embed_row,
                &work); // factor 4, because rows are widened in plain C
}

// ---- norms, activations, sums ----

static void norm_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    const struct row_kernels *kernels = &work->backend->kernels.rows;
    const struct norm_parameters *parameters = work->norm;
    int32_t n = work->in->n_cols / parameters->n_groups;
    const float *in = matrix_row(work->in, row);
    const float *weight = parameters->weight ? parameters->weight->items : NULL;
    const float *bias = parameters->bias ? parameters->bias->items : NULL;
    float *out = matrix_row(work->out, row);
    for (int32_t group = 0; group < parameters->n_groups; group++, in += n, out += n) {
        int64_t own = parameters->own_weights ? (int64_t)group * n : 0;
        if (parameters->kind == NORM_RMS)
            kernels->norm_rms(out, in, weight ? weight + own : NULL, n, parameters->epsilon);
        else
            kernels->norm_layer(out, in, weight + own, bias ? bias + own : NULL, n, parameters->epsilon);
    }
}

void cpu_norm(struct backend *base, struct matrix *out, const struct matrix *in, int32_t n_rows,
              const struct norm_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= in->n_rows_max && n_rows <= out->n_rows_max && in->n_cols == out->n_cols);
    assert(in->n_cols % parameters->n_groups == 0 && (parameters->weight || parameters->kind == NORM_RMS));
    assert(!parameters->weight || parameters->weight->role == WEIGHT_VECTOR);
    assert(!parameters->weight ||
           parameters->weight->n_items == in->n_cols / (parameters->own_weights ? 1 : parameters->n_groups));
    struct row_work work = {.backend = backend, .out = out, .in = in, .norm = parameters};
    spread_rows(backend, n_rows, 2 * (int64_t)in->n_cols, norm_row, &work);
}

static void xielu_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    work->backend->kernels.rows.xielu(matrix_row(work->out, row), work->out->n_cols, work->xielu);
}

void cpu_xielu(struct backend *base, struct matrix *x, int32_t n_rows, const struct xielu *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max);
    struct row_work work = {.backend = backend, .out = x, .xielu = parameters};
    spread_rows(backend, n_rows, 8 * (int64_t)x->n_cols, xielu_row, &work);
}

static void activate_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    work->activate(matrix_row(work->out, row), matrix_row(work->in, row),
                   work->other ? matrix_row(work->other, row) : NULL, work->in->n_cols);
}

void cpu_activate(struct backend *base, struct matrix *out, const struct matrix *gate,
                  const struct matrix *up, int32_t n_rows, enum activation_kind kind)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= gate->n_rows_max && n_rows <= out->n_rows_max && out->n_cols == gate->n_cols);
    assert(!up || (n_rows <= up->n_rows_max && up->n_cols == gate->n_cols));
    struct row_work work = {.backend = backend, .out = out, .in = gate, .other = up};
    work.activate = backend->kernels.rows.activate[kind];
    spread_rows(backend, n_rows, 8 * (int64_t)gate->n_cols, activate_row, &work);
}

static void add_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    work->backend->kernels.rows.add_scaled(matrix_row(work->out, row), matrix_row(work->other, row),
                                           work->scaling.scale, work->out->n_cols);
}

void cpu_add(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows, float scale)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max && n_rows <= y->n_rows_max && x->n_cols == y->n_cols);
    struct row_work work = {.backend = backend, .out = x, .other = y, .scaling.scale = scale};
    spread_rows(backend, n_rows, x->n_cols, add_row, &work);
}

static void scale_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    work->backend->kernels.rows.scale_cap(matrix_row(work->out, row), work->out->n_cols, work->scaling.scale,
                                          work->scaling.cap);
}

void cpu_scale(struct backend *base, struct matrix *x, int32_t n_rows, float scale, float cap)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max);
    struct row_work work = {.backend = backend, .out = x, .scaling.scale = scale, .scaling.cap = cap};
    spread_rows(backend, n_rows, (cap != 0.0f ? 16 : 1) * (int64_t)x->n_cols, scale_row, &work);
}

static void gate_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    float *x = matrix_row(work->out, row);
    int32_t n_gates = work->other->n_cols, n_each = work->out->n_cols / n_gates;
    for (int32_t i = 0; i < n_gates; i++)
        work->backend->kernels.rows.scale_sigmoid(x + (ptrdiff_t)i * n_each, n_each,
                                                  matrix_row(work->other, row)[i]);
}

void cpu_gate_rows(struct backend *base, struct matrix *x, const struct matrix *gate, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max && n_rows <= gate->n_rows_max && x->n_cols % gate->n_cols == 0);
    struct row_work work = {.backend = backend, .out = x, .other = gate};
    spread_rows(backend, n_rows, x->n_cols, gate_row, &work);
}

static void gate_softplus_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    const struct row_kernels *kernels = &work->backend->kernels.rows;
    float *x = matrix_row(work->out, row), *gates = matrix_row(work->other, row);
    int32_t n_gates = work->other->n_cols, n_each = work->out->n_cols / n_gates;
    kernels->softplus(gates, NULL, n_gates, 0.0f, INFINITY);
    if (n_each == 1)
        kernels->multiply(x, gates, n_gates);
    for (int32_t i = 0; i < n_gates && n_each > 1; i++)
        kernels->scale_cap(x + (ptrdiff_t)i * n_each, n_each, gates[i], 0.0f);
}

void cpu_gate_softplus(struct backend *base, struct matrix *x, struct matrix *gate, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max && n_rows <= gate->n_rows_max && x->n_cols % gate->n_cols == 0);
    struct row_work work = {.backend = backend, .out = x, .other = gate};
    spread_rows(backend, n_rows, x->n_cols + 16 * (int64_t)gate->n_cols, gate_softplus_row, &work);
}

static void limit_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    float *x = matrix_row(work->out, row), least = work->limits.least, most = work->limits.most;
    for (int32_t i = 0; i < work->out->n_cols; i++) {
        float y = x[i] < least ? least : x[i];
        x[i] = y > most ? most : y;
    }
}

void cpu_limit(struct backend *base, struct matrix *x, int32_t n_rows, float least, float most)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max);
    struct row_work work = {.backend = backend, .out = x, .limits = {least, most}};
    spread_rows(backend, n_rows, x->n_cols, limit_row, &work);
}

static void gather_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    int32_t from = work->backend->step->output_rows[row];
    memcpy(matrix_row(work->out, row), matrix_row(work->in, from), (size_t)work->in->n_cols * sizeof(float));
}

void cpu_gather(struct backend *base, struct matrix *out, const struct matrix *in)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(backend->step->n_outputs <= out->n_rows_max && out->n_cols == in->n_cols);
    struct row_work work = {.backend = backend, .out = out, .in = in};
    spread_rows(backend, backend->step->n_outputs, in->n_cols, gather_row, &work);
}

// ---- GEMM ----

struct sorting {
    const float *x;
    float *out;
    int64_t stride;
    const int32_t *order;
    int32_t n;
};

static void sort_row(void *context, int32_t row, int thread)
{
    const struct sorting *sorting = context;
    const float *x = sorting->x + row * sorting->stride;
    float *out = sorting->out + row * sorting->stride;
    for (int32_t i = 0; i < sorting->n; i++)
        out[i] = x[sorting->order[i]];
}

// True if two orders of columns are equal. Matrices that a quantizer computed from the same inputs have equal
// orders (q, k and v; gate and up).
static bool are_equal_orders(const int32_t *a, const int32_t *b, int32_t n)
{
    return a == b || (a && b && memcmp(a, b, (size_t)n * sizeof *a) == 0);
}

void prepare_products(struct cpu_backend *backend, const struct packed *weight, const struct packed *last,
                      const float *x, int64_t stride, int32_t n_rows, unsigned forms)
{
    const int32_t n = packed_shape(weight).n_inputs, *order = packed_order(weight);
    if (last && are_equal_orders(packed_order(last), order, n))
        return;
    if (order) {
        struct sorting sorting = {x, backend->buffers.sorted_x, stride, order, n};
        spread_rows(backend, n_rows, 4 * (int64_t)n, sort_row, &sorting);
        x = sorting.out;
    }
    prepared_set(&backend->prepared, &backend->kernels.products, backend->pool, x, stride, n_rows, n, forms);
}

void cpu_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                  int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed || n_rows == 0)
        return;
    assert(n > 0 && n <= PRODUCTS_MAX && n_rows <= x->n_rows_max);
    struct product_task tasks[PRODUCTS_MAX];
    const struct packed *last = NULL;
    bool has_orders = false;
    unsigned forms = 0;
    for (int i = 0; i < n; i++) {
        const struct product *product = &products[i];
        assert(product->weight->role == WEIGHT_PRODUCT && product->weight->n_packed == 1);
        struct packed_shape shape = packed_shape(product->weight->packed[0]);
        assert(shape.n_inputs == x->n_cols && shape.n_outputs == product->y->n_cols);
        assert(n_rows <= product->y->n_rows_max &&
               (!product->bias || product->bias->n_items == shape.n_outputs));
        forms |= packed_form(product->weight->packed[0]);
        has_orders |= packed_order(product->weight->packed[0]) != NULL;
        tasks[i] =
            (struct product_task){product->weight->packed[0], product->bias ? product->bias->items : NULL,
                                  product->y->items, product->y->stride};
    }
    for (int i = 0; i < n; i += has_orders ? 1 : n) {
        prepare_products(backend, tasks[i].weight, last, x->items, x->stride, n_rows, forms);
        product_run(&backend->kernels.products, backend->pool, &tasks[i], has_orders ? 1 : n,
                    &backend->prepared);
        last = tasks[i].weight;
    }
}

// The rows of y begin at `first_row`.
static void multiply_heads(struct cpu_backend *backend, struct matrix *y, int32_t first_row,
                           struct head_columns to, const struct weight *weight, const struct matrix *x,
                           struct head_columns from, int32_t n_rows)
{
    if (backend->failed || n_rows == 0)
        return;
    assert(weight->role == WEIGHT_PRODUCT && n_rows <= x->n_rows_max && first_row + n_rows <= y->n_rows_max);
    for (int32_t head = 0; head < weight->n_packed; head++) {
        const struct packed *matrix = weight->packed[head];
        struct packed_shape shape = packed_shape(matrix);
        int32_t x_first = from.first + head * from.step, y_first = to.first + head * to.step;
        assert(x_first + shape.n_inputs <= x->n_cols && y_first + shape.n_outputs <= y->n_cols);
        struct product_task task = {matrix, NULL, matrix_row(y, first_row) + y_first, y->stride};
        prepared_set(&backend->prepared, &backend->kernels.products, backend->pool, x->items + x_first,
                     x->stride, n_rows, shape.n_inputs, packed_form(matrix));
        product_run(&backend->kernels.products, backend->pool, &task, 1, &backend->prepared);
    }
}

void cpu_head_products(struct backend *base, struct matrix *y, struct head_columns to,
                       const struct weight *weight, const struct matrix *x, struct head_columns from,
                       int32_t n_rows)
{
    multiply_heads(cpu_backend_of(base), y, 0, to, weight, x, from, n_rows);
}

// Sequences of a step with several have position 0.
void cpu_place_products(struct backend *base, struct matrix *y, struct head_columns to,
                        const struct weight *weight, const struct matrix *x, struct head_columns from,
                        int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    const struct step *step = backend->step;
    assert(step->n_sequences == 1 || step->sequences[step->n_sequences - 1].position == 0);
    multiply_heads(backend, y, step->sequences[0].position, to, weight, x, from, n_rows);
}

static void sum_taps_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    const struct step *step = work->backend->step;
    const struct step_sequence *sequence = &step->sequences[work->backend->buffers.row_sequences[row]];
    int32_t n = work->out->n_cols, n_taps = work->in->n_cols / n, first = step->positions[row] - n_taps / 2;
    float *out = matrix_row(work->out, row);
    (void)thread;
    memcpy(out, work->bias->items, (size_t)n * sizeof *out);
    for (int32_t k = 0; k < n_taps; k++)
        if (first + k >= 0 && first + k < sequence->n_text)
            work->backend->kernels.rows.add_scaled(
                out, matrix_row(work->in, sequence->first_row + first + k) + (ptrdiff_t)k * n, 1.0f, n);
}

void cpu_sum_taps(struct backend *base, struct matrix *out, const struct matrix *taps,
                  const struct weight *bias, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(taps->n_cols % out->n_cols == 0 && bias->n_items == out->n_cols);
    struct row_work work = {.backend = backend, .out = out, .in = taps, .bias = bias};
    spread_rows(backend, n_rows, taps->n_cols, sum_taps_row, &work);
}

static void copy_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    const float *from = matrix_row(work->in, row) + work->from.first;
    float *to = matrix_row(work->out, row) + work->to.first;
    for (int32_t head = 0; head < work->heads.n; head++, from += work->from.step, to += work->to.step)
        memcpy(to, from, (size_t)work->heads.n_dims * sizeof *to);
}

void cpu_copy_columns(struct backend *base, struct matrix *out, struct head_columns to,
                      const struct matrix *in, struct head_columns from, int32_t n_heads, int32_t n,
                      int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= in->n_rows_max && n_rows <= out->n_rows_max);
    assert(from.first + (int64_t)(n_heads - 1) * from.step + n <= in->n_cols &&
           to.first + (int64_t)(n_heads - 1) * to.step + n <= out->n_cols);
    struct row_work work = {.backend = backend, .out = out, .in = in, .heads.n = n_heads, .heads.n_dims = n};
    work.from = from;
    work.to = to;
    spread_rows(backend, n_rows, (int64_t)n_heads * n, copy_row, &work);
}

void cpu_set_columns(struct backend *base, struct matrix *matrix, int32_t n_cols)
{
    (void)base;
    assert(n_cols > 0 && n_cols <= matrix->stride);
    matrix->n_cols = n_cols;
}

void cpu_keep_outputs(struct backend *base)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    const struct step *step = backend->step;
    if (backend->failed)
        return;
    for (int32_t i = 0; i < step->n_outputs; i++) {
        int32_t row = step->output_rows[i];
        struct step_sequence *own = &backend->buffers.outputs[i];
        *own = step->sequences[backend->buffers.row_sequences[row]];
        own->position += row - own->first_row;
        own->first_row = i;
        own->n_tokens = 1;
    }
    backend->outputs_only = true;
    for (int32_t i = 0; i < backend->n_groups; i++)
        attention_begin(backend->groups[i].attention,
                        (struct attention_sequences){backend->buffers.outputs, step->n_outputs});
}

static void mix_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    int32_t width = work->heads.dim, n_in = work->in->n_cols / width, n_out = work->out->n_cols / width;
    const float *coefficients = work->other ? matrix_row(work->other, row) : NULL,
                *x = matrix_row(work->in, row);
    for (int32_t i = work->to.first; i < n_out; i++)
        for (int32_t j = 0; j < n_in; j++) {
            float factor =
                coefficients ? coefficients[i * n_in + j] + work->scaling.scale : work->scaling.scale;
            work->backend->kernels.rows.add_scaled(matrix_row(work->out, row) + (int64_t)i * width,
                                                   x + (int64_t)j * width, factor, width);
        }
}

void cpu_mix(struct backend *base, struct matrix *out, int32_t first, const struct matrix *coefficients,
             float bias, const struct matrix *x, int32_t width, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= out->n_rows_max && n_rows <= x->n_rows_max);
    assert(out->n_cols % width == 0 && x->n_cols % width == 0);
    assert(!coefficients || coefficients->n_cols == out->n_cols / width * (x->n_cols / width));
    struct row_work work = {
        .backend = backend, .out = out, .in = x, .other = coefficients, .heads.dim = width};
    work.to.first = first;
    work.scaling.scale = bias;
    spread_rows(backend, n_rows, (int64_t)out->n_cols * (x->n_cols / width), mix_row, &work);
}

static void match_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    const float *first = matrix_row(work->out, row);
    int32_t width = work->heads.dim;
    for (int32_t i = width; i < work->out->n_cols; i += width)
        work->backend->kernels.rows.match_rms(matrix_row(work->out, row) + i, first, width);
}

void cpu_match_rms(struct backend *base, struct matrix *x, int32_t width, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max && x->n_cols % width == 0);
    struct row_work work = {.backend = backend, .out = x, .heads.dim = width};
    spread_rows(backend, n_rows, 2 * (int64_t)x->n_cols, match_row, &work);
}

static void sparsify_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    work->backend->kernels.rows.sparsify(matrix_row(work->out, row), work->out->n_cols, work->scaling.scale);
}

void cpu_sparsify(struct backend *base, struct matrix *x, int32_t n_rows, float factor)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max);
    struct row_work work = {.backend = backend, .out = x, .scaling.scale = factor};
    spread_rows(backend, n_rows, 3 * (int64_t)x->n_cols, sparsify_row, &work);
}

static void multiply_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    work->backend->kernels.rows.multiply(matrix_row(work->out, row), work->weight->items, work->out->n_cols);
}

void cpu_multiply(struct backend *base, struct matrix *x, const struct weight *weight, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= x->n_rows_max && weight->role == WEIGHT_VECTOR && weight->n_items == x->n_cols);
    struct row_work work = {.backend = backend, .out = x, .weight = weight};
    spread_rows(backend, n_rows, x->n_cols, multiply_row, &work);
}

// --- Rotation, pages, attention ---

static void rope_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    const struct cpu_backend *backend = work->backend;
    int64_t step_row = backend->outputs_only ? backend->step->output_rows[row] : row;
    work->rotate(matrix_row(work->out, row), work->heads.n, work->heads.dim,
                 work->rope + step_row * work->heads.n_dims, work->heads.n_dims);
}

void cpu_rope(struct backend *base, struct matrix *x, int32_t n_rows, int32_t n_heads, int32_t head_dim,
              int32_t n_rope_dims, enum rope_style style, int table)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed || style == ROPE_NONE)
        return;
    assert(n_rows <= x->n_rows_max && n_rows <= backend->step->n_tokens && n_rope_dims % 2 == 0);
    assert(n_rope_dims <= head_dim && (int64_t)n_heads * head_dim <= x->n_cols && backend->step->rope[table]);
    struct row_work work = {.backend = backend, .out = x, .heads.n = n_heads, .heads.dim = head_dim};
    work.heads.n_dims = n_rope_dims;
    work.rope = backend->step->rope[table];
    work.rotate =
        style == ROPE_HALVES ? backend->kernels.rows.rope_halves : backend->kernels.rows.rope_adjacent;
    spread_rows(backend, n_rows, 2 * (int64_t)n_heads * head_dim, rope_row, &work);
}

static void kv_store_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    struct cpu_backend *backend = work->backend;
    const struct step_sequence *sequence = &backend->step->sequences[backend->buffers.row_sequences[row]];
    int32_t position = sequence->position + (row - sequence->first_row);
    int32_t page_positions = work->pages->shape.page_positions;
    if (position < sequence->n_stored)
        return;
    pages_store(work->pages, &backend->kernels.rows, work->layer, sequence->pages[position / page_positions],
                position % page_positions, matrix_row(work->in, row), matrix_row(work->other, row));
}

void cpu_kv_store(struct backend *base, int32_t layer, const struct matrix *k, const struct matrix *v)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    struct row_work work = {.backend = backend, .in = k, .other = v};
    work.pages = &layer_pages(backend, layer, &work.layer)->pages;
    const struct kv_shape *shape = &work.pages->shape;
    assert(k->n_cols == shape->n_kv_heads * shape->key_dim &&
           v->n_cols == shape->n_kv_heads * shape->value_dim);
    spread_rows(backend, backend->step->n_tokens, 16 * (int64_t)k->n_cols, kv_store_row,
                &work); // factor 16, because keys are scattered
}

void cpu_index_store(struct backend *base, int32_t layer, const struct matrix *k)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    struct row_work work = {.backend = backend, .in = k, .other = k, .layer = layer};
    work.pages = &backend->selection.keys;
    assert(k->n_cols == work.pages->shape.key_dim);
    spread_rows(backend, backend->step->n_tokens, 16 * (int64_t)k->n_cols, kv_store_row, &work);
}

void cpu_select_positions(struct backend *base, int32_t layer, const struct matrix *queries,
                          const struct matrix *weights)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    struct selection *selection = &backend->selection;
    if (backend->failed)
        return;
    assert(queries->n_cols == selection->shape.n_heads * selection->shape.key_dim);
    assert(selection->shape.by_head || selection->shape.means ? !weights
                                                              : weights->n_cols == selection->shape.n_heads);
    selection_run(selection, layer,
                  (struct attention_sequences){backend->step->sequences, backend->step->n_sequences},
                  (struct attention_rows){queries->items, queries->stride},
                  weights ? (struct attention_rows){weights->items, weights->stride}
                          : (struct attention_rows){0});
}

void cpu_attend(struct backend *base, struct matrix *out, const struct matrix *q,
                const struct attention_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    struct attention_parameters own = *parameters;
    const struct page_group *group = layer_pages(backend, parameters->layer, &own.layer);
    const struct kv_shape *shape = &group->pages.shape;
    assert(q->n_cols == parameters->n_heads * shape->key_dim &&
           out->n_cols == parameters->n_heads * shape->value_dim);
    assert(!parameters->sinks || parameters->sinks->n_items == parameters->n_heads);
    assert(!parameters->relative_bias || parameters->relative_bias->n_items % parameters->n_heads == 0);
    struct attention_vectors vectors = {0};
    if (parameters->sinks)
        vectors.sinks = parameters->sinks->items;
    if (parameters->relative_bias) {
        vectors.relative_bias = parameters->relative_bias->items;
        vectors.n_relative = parameters->relative_bias->n_items / parameters->n_heads;
    }
    if (parameters->disentangled) {
        const struct disentangled_terms *terms = parameters->disentangled;
        const struct matrix *queries = terms->queries, *keys = terms->keys;
        vectors.terms = (struct attention_terms){
            .queries = {queries ? queries->items : NULL, queries ? queries->stride : 0},
            .keys = {keys ? keys->items : NULL, keys ? keys->stride : 0},
            .n_columns = (queries ? queries->n_cols : keys->n_cols) / parameters->n_heads,
            .buckets = terms->buckets,
            .center = terms->center};
    }
    if (parameters->selects) {
        vectors.selected = selection_rows(&backend->selection);
    }
    attention_run(group->attention, &own, (struct attention_rows){q->items, q->stride},
                  (struct attention_rows){out->items, out->stride}, &vectors);
}

// ---- results ----

static enum status samplers_make(struct cpu_backend *backend, int32_t n_vocab)
{
    int n_threads = pool_n_threads(backend->pool);
    for (int i = 0; i < n_threads; i++) {
        sampler_destroy(backend->buffers.samplers[i]);
        backend->buffers.samplers[i] = NULL;
    }
    backend->buffers.n_vocab = 0;
    for (int i = 0; i < n_threads; i++) {
        enum status status = sampler_create(&backend->buffers.samplers[i], n_vocab, &backend->error);
        if (status != STATUS_OK)
            return status;
    }
    backend->buffers.n_vocab = n_vocab;
    return STATUS_OK;
}

static void sample_row(void *context, int32_t row, int thread)
{
    const struct row_work *work = context;
    struct cpu_backend *backend = work->backend;
    sampler_draw(backend->buffers.samplers[thread],
                 matrix_row(work->out, backend->buffers.output_places[row]), &backend->step->samples[row],
                 &backend->buffers.results[row]);
}

void cpu_sample(struct backend *base, struct matrix *logits)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(backend->step->samples && backend->step->n_outputs <= logits->n_rows_max);
    if (backend->buffers.n_vocab != logits->n_cols && samplers_make(backend, logits->n_cols) != STATUS_OK) {
        backend->failed = true;
        return;
    }
    struct row_work work = {.backend = backend, .out = logits};
    spread_rows(backend, backend->step->n_outputs, 4 * (int64_t)logits->n_cols, sample_row, &work);
}

void cpu_write(struct backend *base, struct matrix *matrix, int32_t n_rows, const float *rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= matrix->n_rows_max);
    for (int32_t row = 0; row < n_rows; row++)
        memcpy(matrix_row(matrix, row), rows + (int64_t)row * matrix->n_cols,
               (size_t)matrix->n_cols * sizeof(float));
}

void cpu_read(struct backend *base, const struct matrix *matrix, int32_t n_rows, float *rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows <= matrix->n_rows_max);
    for (int32_t row = 0; row < n_rows; row++)
        memcpy(rows + (int64_t)row * matrix->n_cols, matrix_row(matrix, row),
               (size_t)matrix->n_cols * sizeof(float));
}
