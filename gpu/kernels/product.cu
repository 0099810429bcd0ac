// Dispatch of GEMMs by weight type (gpu/kernels/kernels.h).
#include "gpu/kernels/product.h"

#include <assert.h>

static struct product_plan make_plan(const struct product_launch *product)
{
    struct product_plan plan = {};
    plan.call = *product;
    int32_t n_inputs = product->x.n_inputs;
    plan.n_groups = (n_inputs + GROUP_INPUTS - 1) / GROUP_INPUTS;
    plan.panel_bytes = (int32_t)tiles_bytes(product->type, TILE_OUTPUTS, n_inputs);
    for (int32_t i = 0; i < product->n_parts; i++) {
        int32_t n_panels = (product->parts[i].n_outputs + TILE_OUTPUTS - 1) / TILE_OUTPUTS;
        plan.first_panel[i + 1] = plan.first_panel[i] + n_panels;
        plan.matrix_bytes[i] = (int64_t)tiles_bytes(product->type, product->parts[i].n_outputs, n_inputs);
    }
    return plan;
}

static void check_product(const struct product_launch *product)
{
    assert(product->n_parts > 0 && product->n_parts <= PRODUCT_PARTS_MAX);
    assert(product->device.shared_bytes_max >= PRODUCT_SHARED_BYTES_LEAST);
    assert(!product->gated || (product->n_parts == 2 && product->type != TENSOR_F32 && !product->add &&
                               product->parts[0].n_outputs == product->parts[1].n_outputs));
    (void)product;
}

void launch_product(void *stream, const struct product_launch *product)
{
    check_product(product);
    if (product->x.n_rows == 0)
        return;
    const struct product_plan plan = make_plan(product);
    switch (product->type) {
    case TENSOR_F32:
        launch_product_float(stream, &plan);
        break;
    case TENSOR_F16:
        launch_product_of<TENSOR_F16>(stream, &plan);
        break;
    case TENSOR_BF16:
        launch_product_of<TENSOR_BF16>(stream, &plan);
        break;
    case TENSOR_Q8_0:
        launch_product_of<TENSOR_Q8_0>(stream, &plan);
        break;
    case TENSOR_Q4_0:
        launch_product_of<TENSOR_Q4_0>(stream, &plan);
        break;
    case TENSOR_NVFP4:
        launch_product_of<TENSOR_NVFP4>(stream, &plan);
        break;
    case TENSOR_Q4_K:
        launch_product_of<TENSOR_Q4_K>(stream, &plan);
        break;
    case TENSOR_Q5_K:
        launch_product_of<TENSOR_Q5_K>(stream, &plan);
        break;
    case TENSOR_Q6_K:
        launch_product_of<TENSOR_Q6_K>(stream, &plan);
        break;
    default:
        assert(false && "tiles are of no such type");
    }
}

int32_t product_tilings(const struct product_launch *product, struct product_tiling out[PRODUCT_TILINGS_MAX])
{
    check_product(product);
    if (!product->x.swizzled || product->x.n_rows == 0)
        return 0;
    const struct product_plan plan = make_plan(product);
    switch (product->type) {
    case TENSOR_F16:
        return product_tilings_of<TENSOR_F16>(&plan, out);
    case TENSOR_BF16:
        return product_tilings_of<TENSOR_BF16>(&plan, out);
    case TENSOR_Q8_0:
        return product_tilings_of<TENSOR_Q8_0>(&plan, out);
    case TENSOR_Q4_0:
        return product_tilings_of<TENSOR_Q4_0>(&plan, out);
    case TENSOR_NVFP4:
        return product_tilings_of<TENSOR_NVFP4>(&plan, out);
    case TENSOR_Q4_K:
        return product_tilings_of<TENSOR_Q4_K>(&plan, out);
    case TENSOR_Q5_K:
        return product_tilings_of<TENSOR_Q5_K>(&plan, out);
    case TENSOR_Q6_K:
        return product_tilings_of<TENSOR_Q6_K>(&plan, out);
    default:
        return 0;
    }
}

// Launches two types together. In the mixtures Q4_K_M and Q5_K_M the key and value weights of a layer may
// have different types. False: no such kernel exists.
static bool launch_pair(void *stream, const struct product_launch *product, const struct product_launch *q6_k)
{
    if (q6_k->type != TENSOR_Q6_K || product->n_experts > 0 || product->gated)
        return false;
    const struct product_plan plan = make_plan(product), q6_k_plan = make_plan(q6_k);
    switch (product->type) {
    case TENSOR_Q4_K:
        return launch_product_pair_of<TENSOR_Q4_K>(stream, &plan, &q6_k_plan);
    case TENSOR_Q5_K:
        return launch_product_pair_of<TENSOR_Q5_K>(stream, &plan, &q6_k_plan);
    default:
        return false;
    }
}

void launch_products(void *stream, const struct product_launch *products, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        check_product(&products[i]);
        if (i + 1 < n && products[i].x.n_rows > 0 &&
            (launch_pair(stream, &products[i], &products[i + 1]) ||
             launch_pair(stream, &products[i + 1], &products[i])))
            i++;
        else
            launch_product(stream, &products[i]);
    }
}
