// Steps on a device that is lost, or has too little memory for the model. The emulated device alone takes
// orders to fail. Jobs on such a device: tests/gpu/gpu_faults.c.
#include "tests/gpu/gpu_machine.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/open_model.h"

enum { PAGE_POSITIONS = 16 };

static const struct model_recipe recipe = {.family = "llama", .seed = 11};
// Of few operations, for tests that repeat its steps.
static const struct model_recipe short_recipe = {.family = "llama", .seed = 11, .n_layers = 1, .n_vocab = 96};

static const struct forward_limits limits = {.n_tokens_max = 64,
                                             .n_outputs_max = 4,
                                             .n_sequences_max = 4,
                                             .page_positions = PAGE_POSITIONS,
                                             .n_pages = 16,
                                             .kv_type = KV_F16};

// Its work number `failing` and all later ones fail.
static void machine_open(struct machine *machine, const struct model *model, int64_t failing)
{
    struct error error = {0};
    assert_ok(pool_create(&machine->pool, 1, &error), &error);
    assert_ok(gpu_backend_create(&machine->backend, &(struct gpu_options){.failing_work = failing}, &error),
              &error);
    assert_ok(forward_create(&machine->forward, model, machine->backend, &limits, NULL, NULL, &error),
              &error);
}

TEST(a_lost_device_ends_its_step_and_says_so)
{
    struct model *model = open_model_of(&short_recipe);
    struct error error = {0};
    enum status status = STATUS_RESTART;
    int n_failed = 0;
    // Work number 40 is of the loading or the first step, later ones of later steps, graphs among them, until
    // one is after the last step.
    for (int64_t failing = 40; status != STATUS_OK; failing += failing / 2) {
        struct machine machine = {0};
        machine_open(&machine, model, failing);
        struct single_step single;
        struct sample_result result;
        status = STATUS_OK;
        single_step_init(&single);
        for (; single.position < 20 && status == STATUS_OK; single.position++) {
            single.sequence.position = single.position;
            status = forward_step(machine.forward, &single.step, &result, NULL, &error);
        }
        if (status != STATUS_OK) {
            n_failed++;
            assert_int_equal(status, STATUS_RESTART);
            assert_int_equal(error.code, ERROR_DEVICE);
            single.sequence.position = single.position; // and it stays lost
            assert_int_equal(forward_step(machine.forward, &single.step, &result, NULL, &error),
                             STATUS_RESTART);
        }
        machine_close(&machine);
    }
    print_message("failed: %d\n", n_failed);
    assert_true(n_failed > 2);
    model_close(model);
}

enum { STEPS_UNDER_WAY = 20 };

// Steps of which two are under way at a time; `apart`: their sampling is submitted apart. Counts failures of
// that submission.
static enum status run_with_two_steps(const struct model *model, int64_t failing, bool apart, int *n_sampling)
{
    static const uint32_t mask[64] = {0xFF0F};
    struct machine machine = {0};
    struct error error = {0};
    machine_open(&machine, model, failing);
    int32_t tokens[2] = {1, -1}, positions[STEPS_UNDER_WAY], output = 0, pages[] = {3, 5};
    struct step_sequence sequences[STEPS_UNDER_WAY];
    struct step steps[STEPS_UNDER_WAY];
    struct sampling sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f};
    struct sample_request requests[STEPS_UNDER_WAY];
    struct sample_result result;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < STEPS_UNDER_WAY && status == STATUS_OK; i++) {
        positions[i] = i;
        sequences[i] = (struct step_sequence){.n_tokens = 1, .position = i, .pages = pages};
        requests[i] = (struct sample_request){.sampling = &sampling,
                                              .index = (uint32_t)i,
                                              .pending = i > 0,
                                              .allowed = apart ? mask : NULL,
                                              .n_allowed_words = token_mask_words(model->shape.n_vocab)};
        steps[i] = (struct step){.n_tokens = 1,
                                 .tokens = &tokens[i > 0],
                                 .positions = &positions[i],
                                 .n_sequences = 1,
                                 .sequences = &sequences[i],
                                 .n_outputs = 1,
                                 .output_rows = &output,
                                 .samples = &requests[i],
                                 .samples_apart = apart};
        status = forward_submit(machine.forward, &steps[i], &error);
        if (status == STATUS_OK && i > 0)
            status = forward_collect(machine.forward, &result, &error);
        if (status == STATUS_OK && apart) {
            status = forward_submit_sampling(machine.forward, &steps[i], &error);
            *n_sampling += status != STATUS_OK;
        }
    }
    assert_true(status == STATUS_OK || (status == STATUS_RESTART && error.code == ERROR_DEVICE));
    machine_close(&machine); // with a step under way, or none
    return status;
}

TEST(a_device_lost_with_two_steps_under_way_ends_both)
{
    struct model *model = open_model_of(&short_recipe);
    int n_failed[2] = {0}, n_sampling = 0;
    for (int apart = 0; apart < 2; apart++) // until the work that fails is after the last step
        for (int64_t failing = 40; run_with_two_steps(model, failing, apart, &n_sampling) != STATUS_OK;
             failing += 7)
            n_failed[apart]++;
    print_message("failed: %d whole, %d apart, of these %d while submitting the sampling\n", n_failed[0],
                  n_failed[1], n_sampling);
    assert_true(n_failed[0] > 5 && n_failed[1] > n_failed[0] && n_sampling > 0);
    model_close(model);
}

// All else that the first step needs was allocated when the model was loaded: there is no plan that only the
// first job finds wrong.
static void check_first_step(struct forward *forward)
{
    struct single_step single;
    struct sample_result result;
    struct error error = {0};
    single_step_init(&single);
    enum status status = forward_step(forward, &single.step, &result, NULL, &error);
    assert_true(status == STATUS_OK || (status == STATUS_RESTART && error.code == ERROR_OUT_OF_MEMORY));
}

TEST(memory_that_does_not_suffice_refuses_the_model)
{
    struct model *model = open_model_of(&recipe);
    for (uint64_t bytes = 10000; bytes <= 160000; bytes *= 4) {
        struct error error = {0};
        struct machine machine = {0};
        struct gpu_options of_the_device = {.emulated_memory_bytes = bytes},
                           of_the_plan = {.memory_bytes = bytes};
        assert_ok(gpu_backend_create(&machine.backend, bytes == 40000 ? &of_the_plan : &of_the_device,
                                     &error),
                  &error);
        assert_true(forward_weight_bytes(model, machine.backend) > bytes);
        assert_int_equal(forward_create(&machine.forward, model, machine.backend, &limits, NULL, NULL,
                                        &error),
                         STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
        assert_non_null(strstr(error.text, "no device memory"));
        double wanted_mb = -1, left_mb = -1;
        assert_int_equal(
            sscanf(strrchr(error.text, ':') + 1, "%lf MB wanted, %lf MB left", &wanted_mb, &left_mb), 2);
        if (left_mb < 0 || left_mb > wanted_mb || left_mb > (double)bytes / 1e6 + 0.05)
            fail_msg("%s", error.text);
        assert_true(wanted_mb <= (double)forward_weight_bytes(model, machine.backend) / 1e6 + 0.05);
        machine.backend->device.destroy(machine.backend);
    }
    int n_refused = 0;
    for (uint64_t bytes = 160000;; bytes += 40000, n_refused++) {
        struct error error = {0};
        struct machine machine = {0};
        struct gpu_options options = {.emulated_memory_bytes = bytes};
        assert_ok(gpu_backend_create(&machine.backend, &options, &error), &error);
        enum status status =
            forward_create(&machine.forward, model, machine.backend, &limits, NULL, NULL, &error);
        if (status == STATUS_OK)
            check_first_step(machine.forward);
        else
            assert_true(status == STATUS_REFUSE && error.code == ERROR_OUT_OF_MEMORY);
        forward_destroy(machine.forward);
        machine.backend->device.destroy(machine.backend);
        if (status == STATUS_OK)
            break;
    }
    assert_true(n_refused > 3);
    model_close(model);
}

int main(void)
{
    if (device_missing() || !device_is_emulated())
        return 77;
    return cases_run();
}
