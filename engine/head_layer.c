#include "engine/head_layer.h"

#include "engine/file/gguf.h"
#include "schemas/base/elementary.h"

#include <math.h>
#include <stdlib.h>

// --- Activations ---

static const struct {
    const char *name;
    enum head_activation activation;
} activations[] = {
    {"identity", HEAD_IDENTITY},
    {"tanh", HEAD_TANH},
    {"relu", HEAD_RELU},
    {"gelu", HEAD_GELU},
    {"gelu_tanh", HEAD_GELU_TANH},
    {"silu", HEAD_SILU},
    {"linear", HEAD_IDENTITY},
    {"gelu_python", HEAD_GELU},
    {"gelu_new", HEAD_GELU_TANH},
    {"gelu_pytorch_tanh", HEAD_GELU_TANH},
    {"gelu_fast", HEAD_GELU_TANH},
    {"gelu_python_tanh", HEAD_GELU_TANH},
    {"gelu_accurate", HEAD_GELU_TANH},
    {"swish", HEAD_SILU},
};

enum { N_ACTIVATIONS = sizeof activations / sizeof *activations };

bool head_activation_find(struct text name, enum head_activation *activation)
{
    for (int i = 0; i < N_ACTIVATIONS; i++)
        if (text_equals_string(name, activations[i].name)) {
            *activation = activations[i].activation;
            return true;
        }
    return false;
}

const char *head_activation_name(enum head_activation activation)
{
    for (int i = 0; i < N_ACTIVATIONS; i++)
        if (activations[i].activation == activation)
            return activations[i].name;
    return "";
}

static double hyperbolic_tangent(double x)
{
    double small = elementary_exp(-2.0 * fabs(x));
    return copysign((1.0 - small) / (1.0 + small), x);
}

// The series of positive terms 2 / sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (1 3 5 ... (2n+1)) (Abramowitz, Stegun,
// 7.1.6): no cancellation. From 6 on the function is 1 in double precision.
static double error_function(double x)
{
    double a = fabs(x), term = a, sum = 0.0;
    if (!(a < 6.0))
        return a >= 6.0 ? copysign(1.0, x) : x; // a NaN stays
    for (int n = 0; sum + term != sum; n++) {
        sum += term;
        term *= 2.0 * a * a / (2.0 * n + 3.0);
    }
    return copysign(0x1.20dd750429b6dp0 * elementary_exp(-a * a) * sum, x);
}

static double activate(enum head_activation activation, double x)
{
    switch (activation) {
    case HEAD_TANH:
        return hyperbolic_tangent(x);
    case HEAD_RELU:
        return x < 0.0 ? 0.0 : x; // a NaN stays
    case HEAD_GELU:
        return 0.5 * x * (1.0 + error_function(x * 0x1.6a09e667f3bcdp-1));
    case HEAD_GELU_TANH:
        return 0.5 * x * (1.0 + hyperbolic_tangent(0x1.988453e2b5bf3p-1 * (x + 0.044715 * x * x * x)));
    case HEAD_SILU:
        return x / (1.0 + elementary_exp(-x));
    default:
        return x;
    }
}

// --- Layers ---

static enum status allocate(struct head_layer *layer, size_t n_in, size_t n_out, bool biased, float **row,
                            struct error *error)
{
    layer->n_inputs = (int32_t)n_in;
    layer->n_outputs = (int32_t)n_out;
    layer->weights = calloc(n_in, n_out * sizeof *layer->weights);
    layer->biases = biased ? calloc(n_out, sizeof *layer->biases) : NULL;
    *row = calloc(n_in, sizeof **row);
    if (layer->weights && *row && (layer->biases || !biased))
        return STATUS_OK;
    return error_memory(error, STATUS_REFUSE, "a linear layer of %zux%zu", n_out, n_in);
}

// Output o is row rows[o] of the table; rows NULL: row o.
static enum status read_rows(struct head_layer *layer, const struct model *model, const struct tensor *table,
                             const int32_t *rows, float *row, struct error *error)
{
    size_t n_in = (size_t)layer->n_inputs, n_out = (size_t)layer->n_outputs;
    float scale = table->scales ? *(const float *)table->scales : 1.0f;
    enum status status = gguf_load(model->gguf, table, error);
    for (size_t o = 0; status == STATUS_OK && o < n_out; o++) {
        size_t from = rows ? (size_t)rows[o] : o;
        tensor_traits(table->type)
            ->dequantize((const char *)table->data + from * tensor_row_bytes(table), row, n_in);
        for (size_t i = 0; i < n_in; i++)
            layer->weights[(table->order ? (size_t)table->order[i] : i) * n_out + o] = row[i] * scale;
    }
    return status;
}

enum status head_layer_read(struct head_layer *layer, const struct model *model, const struct tensor *weight,
                            const struct tensor *bias, struct error *error)
{
    size_t n_in = (size_t)weight->dims[0], n_out = (size_t)weight->dims[1];
    float *row;
    enum status status = allocate(layer, n_in, n_out, bias->data != NULL, &row, error);
    if (status == STATUS_OK)
        status = read_rows(layer, model, weight, NULL, row, error);
    if (status == STATUS_OK && bias->data)
        status = gguf_load(model->gguf, bias, error);
    if (status == STATUS_OK && bias->data)
        tensor_traits(bias->type)->dequantize(bias->data, layer->biases, n_out);
    free(row);
    return status;
}

enum status head_layer_read_rows(struct head_layer *layer, const struct model *model,
                                 const struct tensor *table, const int32_t *rows, size_t n_rows,
                                 struct error *error)
{
    float *row;
    enum status status = allocate(layer, (size_t)table->dims[0], n_rows, false, &row, error);
    if (status == STATUS_OK)
        status = read_rows(layer, model, table, rows, row, error);
    free(row);
    return status;
}

void head_layer_finish(struct head_layer *layer)
{
    free(layer->weights);
    free(layer->biases);
    *layer = (struct head_layer){0};
}

void head_layer_apply(const struct head_layer *layer, const double *in, double *restrict out)
{
    for (int32_t o = 0; o < layer->n_outputs; o++)
        out[o] = layer->biases ? (double)layer->biases[o] : 0.0;
    for (int32_t i = 0; i < layer->n_inputs; i++) {
        const float *weights = layer->weights + (ptrdiff_t)i * layer->n_outputs;
        for (int32_t o = 0; o < layer->n_outputs; o++)
            out[o] += (double)weights[o] * in[i];
    }
    for (int32_t o = 0; layer->activation != HEAD_IDENTITY && o < layer->n_outputs; o++)
        out[o] = activate(layer->activation, out[o]);
}
