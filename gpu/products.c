#include "gpu/state.h"

#include <assert.h>

static enum activation_operand_form form_of(enum tensor_type tiles)
{
    return tiles == TENSOR_BF16 ? OPERAND_BFLOAT : OPERAND_HALF;
}

static struct product_device device_of(const struct gpu_backend *backend)
{
    const struct device_facts *facts = device_facts(backend->device);
    return (struct product_device){facts->shared_bytes_max,
                                   facts->n_multiprocessors,
                                   {backend->memory.partial_sums.memory,
                                    backend->memory.partial_arrivals.memory,
                                    backend->memory.partial_sums.size_bytes}};
}

static struct activation_operand operand_of(const struct gpu_backend *backend, const struct matrix *x,
                                            int32_t n_rows, int32_t n_experts,
                                            enum activation_operand_form form)
{
    const struct device_facts *facts = device_facts(backend->device);
    assert(activation_operand_bytes(n_rows, x->n_cols) <= backend->memory.operand_items.size_bytes);
    return (struct activation_operand){.form = form,
                                       .swizzled = product_is_wgmma(facts->has_wgmma, facts->shared_bytes_max,
                                                                    n_rows, n_experts),
                                       .n_rows = n_rows,
                                       .n_inputs = x->n_cols,
                                       .items = backend->memory.operand_items.memory,
                                       .scales = backend->memory.operand_scales.memory};
}

// Removes the pending launch and returns it, if it writes x with as many rows as the GEMM reads. Otherwise
// returns .out NULL.
static struct pending_rows take_rows(struct gpu_backend *backend, const struct matrix *x, int32_t n_rows,
                                     bool pairs)
{
    struct pending_rows rows = backend->current.pending_rows;
    bool grouped = rows.out && rows.kind == PENDING_NORM && rows.norm.n_groups > 1;
    if (rows.out != x || grouped || rows.pairs != pairs || rows.n_rows != gpu_rows(backend, n_rows))
        return (struct pending_rows){0};
    backend->current.pending_rows.out = NULL;
    return rows;
}

// True if all GEMMs can read the same operand.
static bool have_one_form(const struct product *products, int n)
{
    for (int i = 0; i < n; i++)
        if (products[i].weight->tiles == TENSOR_F32 ||
            form_of(products[i].weight->tiles) != form_of(products[0].weight->tiles))
            return false;
    return true;
}

// Makes gated GEMMs write the operand of the next GEMM. They cannot write it over their own operand, which
// other blocks still read. With one scale for all rows, the operand is written where their result would be,
// which is then not stored, if that memory is large enough. Otherwise it has memory of its own. False: they
// cannot write it.
static bool make_next_of_gates(const struct gpu_backend *backend, struct pending_rows *rows,
                               const struct product *products, int n)
{
    struct product_launch *gated = &rows->gated;
    struct activation_operand next = {.form = form_of(products[0].weight->tiles),
                                      .n_rows = gated->x.n_rows,
                                      .n_inputs = gated->parts[0].n_outputs,
                                      .swizzled = gated->x.swizzled,
                                      .items = backend->memory.next_items.memory,
                                      .scales = backend->memory.next_scales.memory};
    uint64_t size_bytes = activation_operand_size(&next);
    next.scale = have_one_form(products, n) ? product_next_scale(gated, next.form) : 0.0f;
    if (next.scale != 0.0f && size_bytes <= rows->out->size_bytes)
        next.items = gated->parts[0].y;
    else if (size_bytes > backend->memory.next_items.size_bytes ||
             (next.scale == 0.0f && !product_converts_next(gated)))
        return false;
    gated->next = (struct next_operand){next, backend->memory.arrivals.memory};
    return true;
}

// Launches the pending rows of x and makes the launch write the operand of the first GEMM. False: it does
// not, because the GEMM needs no operand or the launch cannot write one.
static bool launch_taken(struct gpu_backend *backend, struct pending_rows *rows,
                         const struct product *products, int n, const struct matrix *x,
                         struct activation_operand *operand)
{
    enum tensor_type first = products[0].weight->tiles;
    bool makes = first != TENSOR_F32 &&
                 (rows->kind != PENDING_GATED || make_next_of_gates(backend, rows, products, n));
    if (makes)
        *operand = rows->kind == PENDING_GATED ? rows->gated.next.out
                                               : operand_of(backend, x, rows->n_rows, 0, form_of(first));
    if (makes && rows->kind == PENDING_ATTENTION)
        rows->attention.next = (struct next_operand){*operand, backend->memory.arrivals.memory};
    if (rows->kind == PENDING_NORM) {
        rows->norm.operand = makes ? *operand : (struct activation_operand){0};
        rows->norm.operand_only = rows->consumed && have_one_form(products, n);
    }
    gpu_launch_rows(backend, rows);
    return makes;
}

static struct activation_operand make_operand(struct gpu_backend *backend, const struct matrix *x,
                                              const struct product_launch *call,
                                              enum activation_operand_form form)
{
    struct activation_operand_launch launch = {.out = operand_of(backend, x, call->x.n_rows, call->n_experts,
                                                                 form),
                                               .x = x->device.items,
                                               .x_stride = x->device.stride,
                                               .rows = call->floats.rows,
                                               .rows_divisor = call->floats.rows_divisor,
                                               .weights = call->floats.weights};
    launch_activation_operand(backend->stream, &launch);
    return launch.out;
}

static void check_product(const struct product *product, const struct matrix *x, int32_t n_rows,
                          int64_t n_matrices)
{
    const struct weight *weight = product->weight;
    assert(weight->role == WEIGHT_PRODUCT && weight->n_matrices == n_matrices);
    assert(weight->tensor.dims[0] == (uint64_t)x->n_cols &&
           weight->tensor.dims[1] == (uint64_t)product->y->n_cols);
    assert(n_rows <= product->y->n_rows_max);
    assert(!product->bias || product->bias->n_items == n_matrices * product->y->n_cols);
    (void)weight;
}

// Collects the GEMMs of products [first, n) that have the type of the first one, and marks them as done.
static struct product_launch call_of_type(const struct product *products, int first, int n, bool *done,
                                          struct product_launch call)
{
    call.type = products[first].weight->tiles;
    call.n_parts = 0;
    for (int i = first; i < n; i++) {
        if (products[i].weight->tiles != call.type)
            continue;
        done[i] = true;
        const struct matrix *y = products[i].y;
        call.parts[call.n_parts++] =
            (struct product_part){.tiles = products[i].weight->memory,
                                  .bias = products[i].bias ? products[i].bias->items : NULL,
                                  .y = y->device.items,
                                  .y_stride = y->device.stride,
                                  .n_outputs = y->n_cols,
                                  .factors = products[i].weight->factors};
    }
    return call;
}

// One call per weight type. Calls that need x in the same form share the operand and one launch. `call` has
// the common arguments; `rows` is the deferred launch that writes x, if .out is set.
static void run_products(struct gpu_backend *backend, const struct product *products, int n,
                         const struct matrix *x, struct pending_rows rows, struct product_launch call)
{
    struct product_launch calls[PRODUCTS_MAX];
    bool done[PRODUCTS_MAX] = {false},
         have_operand = rows.out && launch_taken(backend, &rows, products, n, x, &call.x);
    int n_calls = 0;
    for (int i = 0; i < n; i++) {
        if (done[i])
            continue;
        enum tensor_type type = products[i].weight->tiles;
        if (type != TENSOR_F32 && (!have_operand || call.x.form != form_of(type))) {
            gpu_launch_products(backend, calls, n_calls); // before the operand is overwritten
            n_calls = 0;
            call.x = make_operand(backend, x, &call, form_of(type));
            have_operand = true;
        }
        calls[n_calls++] = call_of_type(products, i, n, done, call);
    }
    gpu_launch_products(backend, calls, n_calls);
}

// Like run_products, for two gated GEMMs. Their launch is deferred, so that it can write the operand of the
// next GEMM too.
static void defer_gated(struct gpu_backend *backend, const struct product products[2], const struct matrix *x,
                        struct pending_rows rows, struct product_launch call)
{
    bool done[2];
    if (!rows.out || !launch_taken(backend, &rows, products, 2, x, &call.x))
        call.x = make_operand(backend, x, &call, form_of(products[0].weight->tiles));
    backend->current.pending_rows = (struct pending_rows){.out = products[0].y,
                                                          .kind = PENDING_GATED,
                                                          .gated = call_of_type(products, 0, 2, done, call)};
}

_Static_assert((int)PRODUCTS_MAX <= (int)PRODUCT_PARTS_MAX, "products of one x go in one launch");

// Bounds of the outputs of a gate or up GEMM, including its bias.
static struct output_bound bound_of(const struct product *product)
{
    struct output_bound bound = product->weight->bound;
    if (bound.largest > 0.0f && product->bias)
        bound.largest += product->bias->bound.largest;
    return bound;
}

static struct product_launch call_of_rows(struct gpu_backend *backend, const struct matrix *x, int32_t n_rows)
{
    return (struct product_launch){.x = {.n_rows = gpu_rows(backend, n_rows), .n_inputs = x->n_cols},
                                   .floats.items = x->device.items,
                                   .floats.stride = x->device.stride,
                                   .floats.rows_divisor = 1,
                                   .device = device_of(backend)};
}

static struct product_launch call_of_pairs(struct gpu_backend *backend, const struct matrix *x,
                                           int32_t n_rows, bool x_per_pair)
{
    const struct route_launch *route = &backend->current.route;
    int32_t n_pairs = route->n_rows * route->n_used;
    assert(gpu_rows(backend, n_rows) == route->n_rows &&
           (x_per_pair ? n_pairs : route->n_rows) <= x->n_rows_max);
    (void)n_rows;
    return (struct product_launch){.x = {.n_rows = n_pairs, .n_inputs = x->n_cols},
                                   .floats.items = x->device.items,
                                   .floats.stride = x->device.stride,
                                   .floats.rows = route->order,
                                   .floats.rows_divisor = x_per_pair ? 1 : route->n_used,
                                   .floats.weights =
                                       route->weighs_inputs && !x_per_pair ? route->weights : NULL,
                                   .n_experts = route->n_experts,
                                   .expert_first = route->first,
                                   .expert_order = route->order,
                                   .device = device_of(backend)};
}

void gpu_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                  int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct pending_rows rows = take_rows(backend, x, n_rows, false);
    if (!gpu_enqueues(backend) || n_rows == 0)
        return;
    assert(n > 0 && n <= PRODUCTS_MAX && n_rows <= x->n_rows_max);
    for (int i = 0; i < n; i++)
        check_product(&products[i], x, n_rows, 1);
    run_products(backend, products, n, x, rows, call_of_rows(backend, x, n_rows));
}

void gpu_expert_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                         int32_t n_rows, bool x_per_pair)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct pending_rows rows = {0};
    if (x_per_pair)
        rows = take_rows(backend, x, n_rows, true);
    if (!gpu_enqueues(backend))
        return;
    assert(n > 0 && n <= PRODUCTS_MAX);
    struct product_launch call = call_of_pairs(backend, x, n_rows, x_per_pair);
    for (int i = 0; i < n; i++)
        check_product(&products[i], x, call.x.n_rows, call.n_experts);
    run_products(backend, products, n, x, rows, call);
}

void gpu_gated_products(struct backend *base, const struct product *gate, const struct product *up,
                        const struct matrix *x, int32_t n_rows, bool experts, enum activation_kind kind)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct pending_rows rows = {0};
    if (!experts)
        rows = take_rows(backend, x, n_rows, false);
    if (!gpu_enqueues(backend) || n_rows == 0)
        return;
    struct product products[] = {*gate, *up};
    struct product_launch call =
        experts ? call_of_pairs(backend, x, n_rows, false) : call_of_rows(backend, x, n_rows);
    for (int i = 0; i < 2; i++)
        check_product(&products[i], x, call.x.n_rows, experts ? call.n_experts : 1);
    call.gated = gate->weight->tiles == up->weight->tiles && gate->weight->tiles != TENSOR_F32;
    call.activation = kind;
    if (call.gated) {
        struct output_bound of_gate = bound_of(gate), of_up = bound_of(up);
        call.gated_scale = output_bound_scale(kind, &of_gate, &of_up);
        if (call.floats.weights && backend->current.route.scale > 1.0f)
            call.gated_scale = 0.0f; // a weight may exceed 1, and with it the bound for normed rows
        defer_gated(backend, products, x, rows, call);
        backend->current.pending_rows.n_rows = gpu_rows(backend, n_rows);
        backend->current.pending_rows.pairs = experts;
        return;
    }
    run_products(backend, products, 2, x, rows, call);
    launch_activate(backend->stream, gate->y->device, gate->y->device, up->y->device, call.x.n_rows,
                    gate->y->n_cols, kind);
}

// Number of heads whose operands fit in the operand memory at once. This memory is sized for all rows of the
// widest GEMM.
static int32_t heads_at_once(const struct gpu_backend *backend, int32_t n_heads, int32_t n_rows,
                             int32_t n_inputs)
{
    uint64_t head_bytes = activation_operand_bytes(n_rows, n_inputs),
             scale_bytes = (uint64_t)n_rows * sizeof(float);
    uint64_t n = backend->memory.operand_items.size_bytes / head_bytes,
             most = backend->memory.operand_scales.size_bytes / scale_bytes;
    n = n < most ? n : most;
    assert(n > 0);
    return n < (uint64_t)n_heads ? (int32_t)n : n_heads;
}

void gpu_head_products(struct backend *base, struct matrix *y, struct head_columns to,
                       const struct weight *weight, const struct matrix *x, struct head_columns from,
                       int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend) || n_rows == 0)
        return;
    int32_t n_heads = (int32_t)weight->n_matrices, rows = gpu_rows(backend, n_rows);
    int32_t n_inputs = (int32_t)weight->tensor.dims[0], n_outputs = (int32_t)weight->tensor.dims[1];
    assert(weight->role == WEIGHT_PRODUCT && rows <= x->n_rows_max && rows <= y->n_rows_max);
    assert(from.first + (int64_t)(n_heads - 1) * from.step + n_inputs <= x->n_cols);
    assert(to.first + (int64_t)(n_heads - 1) * to.step + n_outputs <= y->n_cols);
    uint64_t matrix_bytes = tiles_bytes(weight->tiles, n_outputs, n_inputs);
    int32_t most = heads_at_once(backend, n_heads, rows, n_inputs);
    for (int32_t head = 0; head < n_heads; head += most) {
        int32_t n = n_heads - head < most ? n_heads - head : most;
        struct activation_operand operand = {.form = form_of(weight->tiles),
                                             .n_rows = n * rows,
                                             .n_inputs = n_inputs,
                                             .items = backend->memory.operand_items.memory,
                                             .scales = backend->memory.operand_scales.memory};
        struct activation_operand_launch prepare = {.out = operand,
                                                    .x = x->device.items + from.first +
                                                         (int64_t)head * from.step,
                                                    .x_stride = x->device.stride,
                                                    .rows_divisor = 1,
                                                    .head_rows = rows,
                                                    .x_head_step = from.step};
        if (weight->tiles != TENSOR_F32)
            launch_activation_operand(backend->stream, &prepare);
        struct product_launch call = {.type = weight->tiles,
                                      .n_parts = 1,
                                      .x = operand,
                                      .floats.items = prepare.x,
                                      .floats.stride = x->device.stride,
                                      .floats.rows_divisor = 1,
                                      .n_experts = n,
                                      .heads.n_rows = rows,
                                      .heads.x_step = from.step,
                                      .heads.y_step = to.step,
                                      .device = device_of(backend)};
        call.parts[0] = (struct product_part){.tiles = weight->memory + (uint64_t)head * matrix_bytes,
                                              .y = y->device.items + to.first + (int64_t)head * to.step,
                                              .y_stride = y->device.stride,
                                              .n_outputs = n_outputs,
                                              .factors = weight->factors ? weight->factors + head : NULL};
        launch_product(backend->stream, &call);
    }
}
