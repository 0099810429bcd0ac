// What a forward pass says of the rows that gates and factors multiply (normed_input of engine/backend.h) is true in
// every family: their rows come from the norm that was named when they were loaded.
#include "engine/cpu/backend.h"
#include "engine/logits.h"
#include "engine/model/family.h"
#include "tests/gguf_writer.h"
#include "tests/make_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

enum { N_IDS = 5, N_VOCAB = 320, WEIGHTS_MAX = 400, MATRICES_MAX = 64 };

// The backend's own functions, and what passed through them.
static struct backend inner;
static struct {
    const struct tensor *named; // the norm of weights created now
    struct {
        const struct weight *weight;
        const struct tensor *tensor, *norm;
    } weights[WEIGHTS_MAX];
    struct {
        const struct matrix *matrix;
        const struct tensor *norm; // that made its rows, else NULL
    } matrices[MATRICES_MAX];
    int n_weights, n_matrices, n_checked;
} world;

static const struct tensor *tensor_of(const struct weight *weight)
{
    for (int i = 0; i < world.n_weights; i++)
        if (world.weights[i].weight == weight)
            return world.weights[i].tensor;
    fail();
    return NULL;
}

static const struct tensor **maker_of(const struct matrix *matrix)
{
    int i = 0;
    while (i < world.n_matrices && world.matrices[i].matrix != matrix)
        i++;
    assert_true(i < MATRICES_MAX);
    if (i == world.n_matrices)
        world.matrices[world.n_matrices++].matrix = matrix;
    return &world.matrices[i].norm;
}

static enum status name_norm(struct backend *backend, const struct tensor *norm, const struct tensor *bias,
                             struct error *error)
{
    assert_true(!norm || (norm->data && (!bias || bias->data)));
    world.named = norm;
    return inner.device.normed_input(backend, norm, bias, error);
}

static enum status create_weight(struct backend *backend, const struct tensor *tensor, enum weight_role role,
                                 struct weight **weight, struct error *error)
{
    enum status status = inner.device.weight_create(backend, tensor, role, weight, error);
    assert_true(world.n_weights < WEIGHTS_MAX && (!world.named || role == WEIGHT_PRODUCT));
    world.weights[world.n_weights].weight = *weight;
    world.weights[world.n_weights].tensor = tensor;
    world.weights[world.n_weights++].norm = world.named;
    return status;
}

static void normalize(struct backend *backend, struct matrix *out, const struct matrix *in, int32_t n_rows,
                      const struct norm_parameters *parameters)
{
    *maker_of(out) = parameters->n_groups == 1 ? tensor_of(parameters->weight) : NULL;
    inner.operations.norm(backend, out, in, n_rows, parameters);
}

static void gather(struct backend *backend, struct matrix *out, const struct matrix *in)
{
    *maker_of(out) = *maker_of(in);
    inner.operations.gather(backend, out, in);
}

static void add(struct backend *backend, struct matrix *x, const struct matrix *y, int32_t n_rows,
                float scale)
{
    *maker_of(x) = NULL;
    inner.operations.add(backend, x, y, n_rows, scale);
}

static void check_products(const struct product *products, int n, const struct matrix *x)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < world.n_weights; j++) {
            if (world.weights[j].weight != products[i].weight || !world.weights[j].norm)
                continue;
            const struct tensor *norm = world.weights[j].norm, *tensor = world.weights[j].tensor;
            if (*maker_of(x) != norm)
                fail_msg("%.*s does not multiply what %.*s makes", (int)tensor->name.size, tensor->name.data,
                         (int)norm->name.size, norm->name.data);
            world.n_checked++;
        }
        *maker_of(products[i].y) = NULL;
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
    assert_int_equal(cpu_backend_create(&backend, pool, CPU_PLAIN, &error), STATUS_OK);
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

// Gates and factors of the layers.
static int count_gates(const struct model *model)
{
    static const enum layer_slot slots[] = {SLOT_FFN_GATE, SLOT_GATE_EXPERTS, SLOT_SHARED_GATE};
    int n = 0;
    for (int32_t layer = 0; layer < model->shape.n_layers; layer++)
        for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
            n += model->layers[layer].tensors[slots[i]].data ? 2 : 0;
    return n;
}

static void check_model(const struct model_recipe *recipe, bool has_normed_gates)
{
    static float logits[N_IDS * N_VOCAB];
    static const int32_t ids[N_IDS] = {7, 13, 200, 5, 90};
    struct error error;
    char directory[64], path[96];
    struct model *model;
    struct pool *pool;
    memset(&world, 0, sizeof world);
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, recipe);
    assert_int_equal(pool_create(&pool, 1, &error), STATUS_OK);
    if (model_open(&model, path, &error) != STATUS_OK)
        fail_msg("%s: %s", recipe->family, error.text);
    struct backend *backend = watched_backend(pool);
    if (logits_of_text(model, backend, KV_F32, ids, N_IDS, logits, &error) != STATUS_OK)
        fail_msg("%s: %s", recipe->family, error.text);
    assert_null(world.named);
    int n_gates = count_gates(model);
    if (world.n_checked != (has_normed_gates ? n_gates : 0))
        fail_msg("%s: %d of %d gates and factors have a norm", recipe->family, world.n_checked, n_gates);
    backend->device.destroy(backend);
    pool_destroy(pool);
    model_close(model);
    remove_directory(directory);
}

// OLMo 2 normalizes behind the MLP.
static void every_family_s_gates_multiply_what_the_named_norm_makes(void **state)
{
    (void)state;
    for (size_t i = 0; family_at(i); i++)
        for (int larger = 0; larger < 2; larger++)
            check_model(&(struct model_recipe){.family = family_at(i)->name, .seed = 3, .larger = larger},
                        strcmp(family_at(i)->name, "olmo2") != 0);
    check_model(&(struct model_recipe){.family = "mixtral", .seed = 3}, true);
}

static void layers_in_series_or_parallel_as_the_file_says(void **state)
{
    (void)state;
    check_model(&(struct model_recipe){.family = "gptneox",
                                       .seed = 3,
                                       .keys = {{"gptneox.use_parallel_residual", GGUF_BOOL, 0, NULL}}},
                true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_s_gates_multiply_what_the_named_norm_makes),
        cmocka_unit_test(layers_in_series_or_parallel_as_the_file_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
