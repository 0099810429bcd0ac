#include "engine/model/rope.h"

#include "schemas/base/elementary.h"

#include <assert.h>
#include <stdlib.h>

static const double two_pi = 0x1.921fb54442d18p2;

// YaRN: the (fractional) pair whose wavelength makes `rotations` turns over the original context;
// section 3.2.
static double yarn_pair(const struct rope_parameters *parameters, double rotations)
{
    double turns = (double)parameters->n_context_original / (rotations * two_pi);
    return (double)parameters->n_dims * elementary_log(turns) / (2.0 * elementary_log(parameters->base));
}

// YaRN: the share of the unscaled frequency in pair `index`: 1 up to `low`, 0 from `high` on.
static double yarn_share(double index, double low, double high)
{
    double width = high - low > 0.001 ? high - low : 0.001;
    double position = (index - low) / width;
    return 1.0 - (position < 0.0 ? 0.0 : position > 1.0 ? 1.0 : position);
}

static void set_frequencies(struct rope *rope, const struct rope_parameters *parameters)
{
    int32_t n_pairs = parameters->n_dims / 2;
    double scale = 1.0, low = 0.0, high = 0.0;
    bool yarn = parameters->scaling == ROPE_SCALING_YARN;
    if (yarn || parameters->scaling == ROPE_SCALING_LINEAR)
        scale = 1.0 / parameters->factor;
    if (yarn) {
        low = yarn_pair(parameters, parameters->beta_fast);
        high = yarn_pair(parameters, parameters->beta_slow);
        low = parameters->exact_bounds ? low : floor(low);
        high = parameters->exact_bounds ? high : ceil(high);
        low = low < 0.0 ? 0.0 : low;
        high = high > parameters->n_dims - 1 ? parameters->n_dims - 1 : high;
    }
    double log_base = elementary_log(parameters->base);
    for (int32_t i = 0; i < n_pairs; i++) {
        double frequency = elementary_exp(-2.0 * i / parameters->n_dims * log_base);
        if (parameters->divisors)
            frequency /= parameters->divisors[i];
        double share = yarn ? yarn_share(i, low, high) : 0.0;
        rope->frequencies[i] =
            parameters->still ? 0.0 : frequency * scale * (1.0 - share) + frequency * share;
    }
}

static enum status check_parameters(const struct rope_parameters *parameters, struct error *error)
{
    if (parameters->n_dims < 2 || parameters->n_dims > ROPE_DIMS_MAX || parameters->n_dims % 2 != 0 ||
        parameters->n_plain < 0 || parameters->n_plain > ROPE_DIMS_MAX - parameters->n_dims ||
        parameters->n_plain % 2 != 0)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "rope dimensions: expected an even number in 2..%d, got %d", ROPE_DIMS_MAX,
                         parameters->n_dims);
    if (!(parameters->base > 1.0 && parameters->base <= 1e30))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "rope base: expected more than 1 and at most 1e30, got %g", parameters->base);
    if (!(parameters->factor >= 1e-3 && parameters->factor <= 1e6))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "rope scaling factor: expected 0.001 to 1e6, got %g", parameters->factor);
    if (!(parameters->magnitude > 0.0 && parameters->magnitude <= 1e3))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "rope magnitude: expected 0 to 1000, got %g",
                         parameters->magnitude);
    if (parameters->scaling == ROPE_SCALING_YARN &&
        !(parameters->beta_fast > 0.0 && parameters->beta_slow > 0.0 && parameters->beta_fast <= 1e6 &&
          parameters->beta_slow <= 1e6 && parameters->n_context_original > 0))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "YaRN: beta %g and %g over a context of %d can't be used", parameters->beta_fast,
                         parameters->beta_slow, parameters->n_context_original);
    if (parameters->temperature != 0.0 && !(parameters->temperature > 0.0 && parameters->temperature <= 1e3 &&
                                            parameters->temperature_length > 0))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "attention temperature %g for each %d positions can't be used",
                         parameters->temperature, parameters->temperature_length);
    return STATUS_OK;
}

enum status rope_create(struct rope *rope, const struct rope_parameters *parameters, struct error *error)
{
    *rope = (struct rope){0};
    enum status status = check_parameters(parameters, error);
    if (status != STATUS_OK)
        return status;
    rope->n_dims = parameters->n_dims + parameters->n_plain;
    rope->n_plain = parameters->n_plain;
    rope->frequencies = calloc((size_t)rope->n_dims / 2, sizeof *rope->frequencies);
    if (!rope->frequencies)
        return error_memory(error, STATUS_REFUSE, "rope frequencies");
    rope->magnitude = parameters->magnitude;
    rope->temperature = parameters->temperature;
    rope->temperature_length = parameters->temperature_length;
    rope->temperature_offset = parameters->temperature_offset;
    if (parameters->scaling == ROPE_SCALING_YARN && parameters->factor > 1.0)
        rope->magnitude *= 1.0 + 0.1 * elementary_log(parameters->factor); // section 3.4
    set_frequencies(rope, parameters);
    for (int32_t i = 0; i < rope->n_dims / 2; i++) {
        double frequency = rope->frequencies[i];
        if (frequency >= 0.0 && frequency <= ROPE_FREQUENCY_MAX)
            continue;
        rope_finish(rope);
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "rope frequency %d: expected 0 to %g, got %g", i, ROPE_FREQUENCY_MAX, frequency);
    }
    return STATUS_OK;
}

void rope_finish(struct rope *rope)
{
    free(rope->frequencies);
    *rope = (struct rope){0};
}

void rope_fill(const struct rope *rope, int32_t position, float *pairs)
{
    assert(position >= 0 && position < 1 << 24);
    double factor = 1.0;
    if (rope->temperature != 0.0) {
        int32_t lengths = (position + rope->temperature_offset) / rope->temperature_length;
        factor = 1.0 + rope->temperature * elementary_log(1.0 + lengths);
    }
    int32_t n_pairs = rope->n_dims / 2, n_rotated = n_pairs - rope->n_plain / 2;
    for (int32_t i = 0; i < n_pairs; i++) {
        double magnitude = i < n_rotated ? rope->magnitude * factor : factor;
        double sine, cosine;
        elementary_sincos((double)position * rope->frequencies[i], &sine, &cosine);
        pairs[2 * i] = (float)(cosine * magnitude);
        pairs[2 * i + 1] = (float)(sine * magnitude);
    }
}
