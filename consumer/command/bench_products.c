#include "consumer/command/bench_products.h"

#include "engine/cpu/product_rates.h"

#include <stdio.h>
#include <string.h>

struct rates_output {
    bool is_json;
    int n_printed, n_threads, activation_bits;
};

static void print_peak(void *context, const char *kernels, const struct product_peak *peak)
{
    const struct rates_output *output = context;
    if (output->is_json)
        printf("{\"kernels\":\"%s\",\"threads\":%d,\"activation_bits\":%d,\"int8\":%.1f,\"bfloat16\":%.1f,"
               "\"float32\":%.1f,\"memory\":%.2f,\"products\":[",
               kernels, output->n_threads, output->activation_bits, peak->int8, peak->bfloat, peak->single,
               peak->memory);
    else
        printf(
            "%s, %d thread%s, activations of %d bits\npeaks: int8 %.0f GMAC/s, bfloat16 %.0f, float32 %.0f; memory %.1f "
            "GB/s\n%-6s %5s %10s %8s %8s %9s\n",
            kernels, output->n_threads, output->n_threads == 1 ? "" : "s", output->activation_bits,
            peak->int8, peak->bfloat, peak->single, peak->memory, "type", "rows", "GMAC/s", "of peak", "GB/s",
            "of memory");
}

static void print_rate(void *context, const struct product_rate *rate)
{
    struct rates_output *output = context;
    const char *name = tensor_traits(rate->type)->name;
    if (output->is_json)
        printf(
            "%s{\"type\":\"%s\",\"rows\":%d,\"gmacs\":%.2f,\"of_peak\":%.3f,\"gbytes\":%.2f,\"of_memory\":%.3f}",
            output->n_printed++ ? ",\n " : "", name, rate->n_rows, rate->products, rate->of_peak,
            rate->memory, rate->of_memory);
    else
        printf("%-6s %5d %10.1f %6.0f %% %8.1f %7.0f %%\n", name, rate->n_rows, rate->products,
               100 * rate->of_peak, rate->memory, 100 * rate->of_memory);
    fflush(stdout);
}

enum status bench_products(const struct runtime *runtime, const struct settings *settings,
                           struct error *error)
{
    struct rates_output output = {.is_json = settings->output.json,
                                  .n_threads = pool_n_threads(runtime->device.pool),
                                  .activation_bits = settings->engine.activation_bits == 16 ? 16 : 8};
    struct product_rates rates = {.context = &output, .begin = print_peak, .receive = print_rate};
    const char *device = runtime->device.backend->device.name;
    enum cpu_level level;
    if (runtime->device.on_gpu || !cpu_level_find(device + strlen("cpu/"), &level))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--products: expected a CPU (--backend cpu), got %s", device);
    enum status status =
        product_rates_measure(&rates, runtime->device.pool, level, output.activation_bits, error);
    if (output.is_json && status == STATUS_OK)
        puts("]}");
    return status;
}
