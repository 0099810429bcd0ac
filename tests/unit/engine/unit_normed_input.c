// In every family, gates and factors multiply rows of the norm that the forward pass names when it loads them
// (normed_input in engine/backend.h).
#include "engine/cpu/backend.h"
#include "engine/file/gguf.h"
#include "engine/file/gguf_quantize.h"
#include "engine/logits.h"
#include "engine/model/family.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

enum { N_IDS = 5, N_VOCAB = 320, WIDTH = 64, WEIGHTS_MAX = 400, MATRICES_MAX = 64 };

// The backend's own functions, and what passed through them.
static struct backend inner;

struct watched_weight {
    const struct weight *weight;
    struct text name;
    float *items;                   // of a vector
    bool is_named;                  // its rows have a norm, with these items
    float norm[WIDTH], bias[WIDTH]; // without bias: zeros
};

static struct {
    const struct norm_items *named; // the norm of weights created now
    struct watched_weight weights[WEIGHTS_MAX];
    struct {
        const struct matrix *matrix;
        const struct weight *norm, *bias; // that made its rows; NULL: none
    } matrices[MATRICES_MAX];
    int n_weights, n_matrices, n_checked;
} world;

static struct watched_weight *watched(const struct weight *weight)
{
    for (int i = 0; i < world.n_weights; i++)
        if (world.weights[i].weight == weight)
            return &world.weights[i];
    fail();
    return NULL;
}

// Index of the matrix.
static int place_of(const struct matrix *matrix)
{
    int i = 0;
    while (i < world.n_matrices && world.matrices[i].matrix != matrix)
        i++;
    assert_true(i < MATRICES_MAX);
    if (i == world.n_matrices)
        world.matrices[world.n_matrices++].matrix = matrix;
    return i;
}

static void forget_rows(const struct matrix *matrix)
{
    int at = place_of(matrix);
    world.matrices[at].norm = world.matrices[at].bias = NULL;
}

static void name_norm(struct backend *backend, const struct norm_items *norm)
{
    assert_true(!norm || norm->n == WIDTH);
    world.named = norm;
}

static enum status create_weight(struct backend *backend, const struct tensor *tensor, enum weight_role role,
                                 struct weight **weight, struct error *error)
{
    enum status status = inner.device.weight_create(backend, tensor, role, weight, error);
    assert_true(world.n_weights < WEIGHTS_MAX && (!world.named || role == WEIGHT_PRODUCT));
    struct watched_weight *created = &world.weights[world.n_weights++];
    *created = (struct watched_weight){.weight = *weight, .name = tensor->name, .is_named = world.named};
    if (world.named)
        memcpy(created->norm, world.named->weight, sizeof created->norm);
    if (world.named && world.named->bias)
        memcpy(created->bias, world.named->bias, sizeof created->bias);
    if (role == WEIGHT_VECTOR) {
        size_t n = tensor->dims[0] * tensor_n_rows(tensor);
        created->items = malloc(n * sizeof *created->items);
        assert_non_null(created->items);
        tensor_traits(tensor->type)->dequantize(tensor->data, created->items, n);
    }
    return status;
}

static void normalize(struct backend *backend, struct matrix *out, const struct matrix *in, int32_t n_rows,
                      const struct norm_parameters *parameters)
{
    int at = place_of(out);
    bool is_whole = parameters->n_groups == 1;
    world.matrices[at].norm = is_whole ? parameters->weight : NULL;
    world.matrices[at].bias = is_whole ? parameters->bias : NULL;
    inner.operations.norm(backend, out, in, n_rows, parameters);
}

static void gather(struct backend *backend, struct matrix *out, const struct matrix *in)
{
    int to = place_of(out), from = place_of(in);
    world.matrices[to].norm = world.matrices[from].norm;
    world.matrices[to].bias = world.matrices[from].bias;
    inner.operations.gather(backend, out, in);
}

static void add(struct backend *backend, struct matrix *x, const struct matrix *y, int32_t n_rows,
                float scale)
{
    forget_rows(x);
    inner.operations.add(backend, x, y, n_rows, scale);
}

// The items that were named are those of the norm that made the rows.
static void check_rows(const struct watched_weight *weight, const struct matrix *x)
{
    static const float zeros[WIDTH];
    int at = place_of(x);
    const struct weight *norm = world.matrices[at].norm, *bias = world.matrices[at].bias;
    if (!norm || memcmp(watched(norm)->items, weight->norm, sizeof weight->norm) != 0 ||
        memcmp(bias ? watched(bias)->items : zeros, weight->bias, sizeof weight->bias) != 0)
        fail_msg("%.*s multiplies other rows", (int)weight->name.size, weight->name.data);
    world.n_checked++;
}

static void check_products(const struct product *products, int n, const struct matrix *x)
{
    for (int i = 0; i < n; i++) {
        const struct watched_weight *weight = watched(products[i].weight);
        if (weight->is_named)
            check_rows(weight, x);
        forget_rows(products[i].y);
    }
}

static void multiply(struct backend *backend, const struct product *products, int n, const struct matrix *x,
                     int32_t n_rows)
{
    check_products(products, n, x);
    inner.operations.products(backend, products, n, x, n_rows);
}

static void multiply_experts(struct backend *backend, const struct product *products, int n,
                             const struct matrix *x, int32_t n_rows, bool x_per_pair)
{
    check_products(products, n, x);
    inner.operations.expert_products(backend, products, n, x, n_rows, x_per_pair);
}

static struct backend *watched_backend(struct pool *pool)
{
    struct error error;
    struct backend *backend;
    assert_ok(cpu_backend_create(&backend, pool, CPU_PLAIN, &error), &error);
    inner = *backend;
    backend->device.normed_input = name_norm;
    backend->device.weight_create = create_weight;
    backend->operations.norm = normalize;
    backend->operations.gather = gather;
    backend->operations.add = add;
    backend->operations.products = multiply;
    backend->operations.expert_products = multiply_experts;
    return backend;
}

// Gates and factors of the layers, but for experts beside an MLP, whose norm is not named, and for layers of OLMo
// Hybrid with norms after the MLP only.
static int count_gates(const struct model *model)
{
    static const enum layer_slot slots[] = {SLOT_FFN_GATE, SLOT_GATE_EXPERTS, SLOT_SHARED_GATE};
    int n = 0;
    for (int32_t layer = 0; layer < model->shape.n_layers; layer++) {
        bool normed_after = model->family->normed_by_kind && !model->layers[layer].recurrent;
        for (size_t i = 0; i < sizeof slots / sizeof *slots && !normed_after; i++)
            n += model->layers[layer].tensors[slots[i]].data &&
                         (slots[i] == SLOT_FFN_GATE || !model->layers[layer].tensors[SLOT_FFN_NORM_2].data)
                     ? 2
                     : 0;
    }
    return n;
}

// `quantized`: when it is loaded, so that one tensor at a time is in memory.
static void check_model(const struct model_recipe *recipe, bool quantized, bool has_normed_gates)
{
    static float logits[N_IDS * N_VOCAB];
    static const int32_t ids[N_IDS] = {7, 13, 200, 5, 90};
    struct error error;
    char directory[64], path[96];
    struct gguf *gguf;
    struct model *model;
    struct pool *pool;
    memset(&world, 0, sizeof world);
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, recipe);
    assert_ok(pool_create(&pool, 1, &error), &error);
    assert_ok(gguf_open(&gguf, path, &error), &error);
    if (quantized)
        assert_ok(gguf_quantize(&gguf, gguf, TENSOR_F16, NULL, &error), &error);
    if (model_open_taking(&model, gguf, &error) != STATUS_OK)
        fail_msg("%s: %s", recipe->family, error.text);
    struct backend *backend = watched_backend(pool);
    if (logits_of_text(model, backend, KV_F32, ids, N_IDS, logits, &error) != STATUS_OK)
        fail_msg("%s: %s", recipe->family, error.text);
    assert_null(world.named);
    int n_gates = count_gates(model);
    if (world.n_checked != (has_normed_gates ? n_gates : 0))
        fail_msg("%s: %d of %d gates and factors have a norm", recipe->family, world.n_checked, n_gates);
    for (int i = 0; i < world.n_weights; i++)
        free(world.weights[i].items);
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
    remove_directory(directory);
}

// OLMo 2, FlexOlmo and EXAONE 4 normalize after the MLP. With hyper-connections the input is a sum of streams.
TEST(every_family_s_gates_multiply_what_the_named_norm_makes)
{
    for (size_t i = 0; family_at(i); i++)
        for (int way = 0; way < 3 && !family_at(i)->bidirectional; way++)
            check_model(&(struct model_recipe){.family = family_at(i)->name, .seed = 3, .larger = way == 1},
                        way == 2,
                        !family_at(i)->hyper && strcmp(family_at(i)->name, "olmo2") != 0 &&
                            strcmp(family_at(i)->name, "flex_olmo") != 0 &&
                            strcmp(family_at(i)->name, "exaone4") != 0);
    check_model(&(struct model_recipe){.family = "mixtral", .seed = 3}, false, true);
}

TEST(layers_in_series_or_parallel_as_the_file_says)
{
    check_model(&(struct model_recipe){.family = "gptneox",
                                       .seed = 3,
                                       .keys = {{"gptneox.use_parallel_residual", GGUF_BOOL, 0, NULL}}},
                false, true);
}
