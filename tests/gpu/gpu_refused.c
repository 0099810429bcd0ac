// Families that only the CPU computes are refused on a GPU, with their names and the reason, before any weight is loaded.
#include "tests/gpu/gpu_machine.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_encoder.h"
#include "tests/support/open_model.h"

static void assert_refused(const struct model *model, const char *family, const char *why)
{
    struct machine machine = {0};
    struct error error = {0};
    struct forward_limits limits = {.n_tokens_max = 32,
                                    .n_outputs_max = 32,
                                    .n_sequences_max = 2,
                                    .page_positions = 16,
                                    .n_pages = 8,
                                    .n_state_slots = 4,
                                    .hidden_only = true};
    char expected[64];
    snprintf(expected, sizeof expected, "family %s can't be computed on cuda", family);
    assert_ok(pool_create(&machine.pool, 2, &error), &error);
    struct gpu_options options = {.pool = machine.pool};
    assert_ok(gpu_backend_create(&machine.backend, &options, &error), &error);
    assert_int_equal(forward_create(&machine.forward, model, machine.backend, &limits, NULL, NULL, &error),
                     STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_UNKNOWN_TYPE);
    if (!strstr(error.text, expected) || !strstr(error.text, why))
        fail_msg("%s", error.text);
    machine.backend->device.destroy(machine.backend);
    pool_destroy(machine.pool);
}

TEST(decoders_that_only_a_cpu_computes_are_refused_by_name)
{
    static const struct {
        const char *family, *why;
    } rows[] = {{"minimax-m3", "its attention is sparse"},
                {"qwen4_exp", "its attention is sparse"},
                {"bitnet", "only the CPU"},
                {"modernbert-decoder", "only the CPU"},
                {"lara-mini", "only the CPU"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model *model = open_model_of(&(struct model_recipe){.family = rows[i].family, .seed = 3});
        assert_refused(model, rows[i].family, rows[i].why);
        model_close(model);
    }
}

TEST(encoders_that_only_a_cpu_computes_are_refused_by_name)
{
    static const struct {
        struct encoder_recipe recipe;
        const char *why;
    } rows[] = {{{.family = "deberta", .seed = 14}, "its attention is disentangled"},
                {{.family = "deberta", .seed = 15, .deberta = DEBERTA_V2_XL},
                 "its attention is disentangled"},
                {{.family = "deberta", .seed = 16, .deberta = DEBERTA_V1}, "its attention is disentangled"},
                {{.family = "deberta", .seed = 19, .deberta = DEBERTA_ABSOLUTE}, ""},
                {{.family = "t5encoder", .seed = 20}, "only the CPU"},
                {{.family = "t5encoder", .seed = 21, .plain = true}, "only the CPU"},
                {{.family = "bert", .seed = 22, .shared = true}, "only the CPU"},
                {{.family = "gemma-embedding2", .seed = 23, .n_layers = 7}, "only the CPU"},
                {{.family = "llama-embed", .seed = 24}, "only the CPU"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char directory[64], path[96];
        struct error error;
        struct model *model;
        make_directory(directory);
        snprintf(path, sizeof path, "%s/model.gguf", directory);
        make_encoder(path, &rows[i].recipe);
        assert_ok(model_open(&model, path, &error), &error);
        assert_refused(model, rows[i].recipe.family, rows[i].why);
        model_close(model);
        remove_directory(directory);
    }
}

int main(void)
{
    return device_missing() ? 77 : cases_run();
}
