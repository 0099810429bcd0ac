#include "tests/gpu/gpu_machine.h"
#include "tests/support/cases.h"

#include "tests/support/gguf_writer.h"
#include "tests/support/wide.h"

#include <unistd.h>

void machine_close(struct machine *machine)
{
    forward_destroy(machine->forward);
    machine->backend->device.destroy(machine->backend);
    pool_destroy(machine->pool);
}

double squared_error(const float *got, const float *expected, size_t n)
{
    double error = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        double difference = (double)got[i] - (double)expected[i];
        error += difference * difference;
        all += (double)expected[i] * (double)expected[i];
    }
    return error / all;
}

void single_step_init(struct single_step *single)
{
    *single = (struct single_step){.token = 1,
                                   .pages = {3, 5},
                                   .sequence = {.n_tokens = 1, .pages = single->pages},
                                   .sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f},
                                   .request = {.sampling = &single->sampling},
                                   .step = {.n_tokens = 1,
                                            .tokens = &single->token,
                                            .positions = &single->position,
                                            .n_sequences = 1,
                                            .sequences = &single->sequence,
                                            .n_outputs = 1,
                                            .output_rows = &single->output,
                                            .samples = &single->request}};
}

int device_missing(void)
{
    struct error error;
    struct backend *backend;
    if (gpu_backend_create(&backend, &(struct gpu_options){0}, &error) != STATUS_OK) {
        print_message("skipped: %s\n", error.text);
        return 77;
    }
    backend->device.destroy(backend);
    return 0;
}

bool device_is_emulated(void)
{
    struct error error;
    struct backend *backend;
    char device[128];
    assert_ok(gpu_backend_create(&backend, &(struct gpu_options){0}, &error), &error);
    gpu_backend_describe(backend, device, sizeof device);
    backend->device.destroy(backend);
    return strncmp(device, "emulated", 8) == 0;
}

bool device_cases_are_wide(void)
{
    return tests_are_wide() || !device_is_emulated();
}
