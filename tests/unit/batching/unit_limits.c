// The memory plan (batching/limits.h): where a model's layers and pages go on a device of any size, and what
// a refusal advises.
#include "batching/speculation.h"
#include "engine/cpu/backend.h"
#include "schemas/base/machine.h"
#include "tests/support/cases.h"
#include "tests/support/make_encoder.h"
#include "tests/unit/batching/plans.h"

#include <sys/resource.h>

enum { N_LAYERS = 8, BATCH = 4, ROWS = 32 };

static struct backend stub; // only asked for bytes: as many as in the file
static struct model *model;
static uint64_t page; // bytes

static struct limits_wanted wanted_with(uint64_t page_bytes)
{
    return (struct limits_wanted){.backend = &stub,
                                  .device = true,
                                  .n_sequences_max = BATCH,
                                  .n_tokens_max = ROWS,
                                  .page_bytes = page_bytes,
                                  .host = &stub,
                                  .host_available_bytes = PLENTY};
}

// Weights, matrices and a number of bytes of pages.
static uint64_t bytes_for(uint64_t page_bytes)
{
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(page_bytes);
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    return plan.weight_bytes + plan.matrix_bytes + plan.page_bytes;
}

TEST(a_device_that_holds_everything_computes_everything)
{
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(10 * page);
    assert_true(plan_fits(&plan, model, bytes_for(10 * page), &wanted));
    assert_false(limits_is_hybrid(&plan));
    assert_int_equal(plan.batch.n_pages, 10);
    assert_int_equal(plan.host_weight_bytes + plan.host_page_bytes, 0);
    wanted.placing = PLACING_LAYERS; // as many as fit: all
    assert_true(plan_fits(&plan, model, bytes_for(10 * page), &wanted));
    assert_false(limits_is_hybrid(&plan));
}

// Pages get the memory that the suffix indexes of drafts leave.
TEST(drafts_have_their_memory)
{
    struct limits_plan plan, without;
    struct limits_wanted wanted = wanted_with(10 * page);
    assert_true(plan_fits(&without, model, PLENTY, &wanted));
    assert_int_equal(without.draft_bytes, 0);
    wanted.n_drafts_max = 8;
    wanted.host = NULL;
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    assert_int_equal(plan.draft_bytes, speculation_bytes(BATCH, model->shape.n_context));
    uint64_t all = plan.weight_bytes + plan.matrix_bytes + plan.draft_bytes + plan.page_bytes;
    assert_true(plan_fits(&plan, model, all, &wanted));
    assert_false(plan_fits(&plan, model, all - 1, &wanted));
}

// Page numbers are 32 bits.
TEST(pages_are_as_many_as_asked_for_up_to_the_largest_number)
{
    uint64_t largest = INT32_MAX / 2;
    const uint64_t asked[] = {800000000, largest - 1, largest, largest + 1, 4 * largest};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct limits_plan plan;
        struct limits_wanted wanted = wanted_with(asked[i] * page);
        assert_true(plan_fits(&plan, model, UINT64_MAX / 2, &wanted));
        assert_int_equal(plan.batch.n_pages, asked[i] < largest ? asked[i] : largest);
        assert_int_equal(plan.page_bytes, (uint64_t)plan.batch.n_pages * page);
    }
}

TEST(pages_that_do_not_fit_beside_the_weights_go_to_the_host)
{
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(100 * page);
    assert_true(plan_fits(&plan, model, bytes_for(100 * page) - 1, &wanted));
    assert_true(plan.placement.host_attention);
    assert_int_equal(plan.placement.n_host_layers, 0);
    assert_int_equal(plan.batch.n_pages, 100);
    assert_int_equal(plan.host_page_bytes, 100 * page);
    // nor there: then layers are split until both hold
    wanted.host_available_bytes = plan.host_page_bytes - 1;
    assert_false(plan_fits(&plan, model, bytes_for(100 * page) - 1, &wanted) &&
                 plan.placement.host_attention);
}

// A device that stores each weight in twice its bytes.
static uint64_t doubled_bytes(struct backend *backend, const struct tensor *tensor, enum weight_role role)
{
    return 2 * tensor->size_bytes;
}

static uint64_t no_scratch(struct backend *backend, const struct model_shape *shape, int32_t n_rows_max,
                           int32_t n_outputs_max, int64_t n_positions)
{
    return 0;
}

TEST(weights_are_counted_as_their_own_side_stores_them)
{
    struct backend device = {.device = {.weight_bytes = doubled_bytes, .scratch_bytes = no_scratch}};
    struct limits_plan plan;
    struct limits_wanted wanted =
        wanted_with(10 * forward_page_bytes(model, NULL, LIMITS_PAGE_POSITIONS, KV_F16));
    wanted.backend = &device;
    wanted.placing = PLACING_LAYERS;
    uint64_t layer = forward_layer_bytes(model, &stub, 0);
    for (int32_t n_host = 1; n_host < N_LAYERS; n_host++) {
        wanted.n_device_layers = N_LAYERS - n_host;
        assert_true(plan_fits(&plan, model, PLENTY, &wanted));
        assert_int_equal(plan.placement.n_host_layers, n_host);
        assert_int_equal(plan.host_weight_bytes,
                         forward_layer_bytes(model, &stub, LAYER_BEFORE) + (uint64_t)n_host * layer);
        assert_int_equal(plan.weight_bytes, 2 * (forward_layer_bytes(model, &stub, LAYER_AFTER) +
                                                 (uint64_t)(N_LAYERS - n_host) * layer));
    }
}

TEST(weights_that_do_not_fit_leave_as_few_layers_to_the_host_as_will_do)
{
    uint64_t whole = bytes_for(10 * page);
    uint64_t layer = forward_layer_bytes(model, &stub, 0) + 10 * page / N_LAYERS;
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(10 * page);
    wanted.placing = PLACING_LAYERS;
    int32_t n_before = 0;
    for (uint64_t short_of = 1; short_of < whole; short_of += layer / 2) {
        if (!plan_fits(&plan, model, whole - short_of, &wanted))
            break;
        int32_t n = plan.placement.n_host_layers;
        assert_in_range(n, n_before, N_LAYERS - 1);
        assert_true(n > 0 && !plan.placement.host_attention);
        assert_true(plan.weight_bytes + plan.matrix_bytes + plan.page_bytes - plan.host_page_bytes <=
                    whole - short_of);
        assert_int_equal(plan.host_page_bytes, 10 * page / N_LAYERS * (uint64_t)n);
        uint64_t all = plan.weight_bytes + plan.host_weight_bytes;
        assert_int_equal(all, forward_layer_bytes(model, &stub, LAYER_BEFORE) +
                                  forward_layer_bytes(model, &stub, LAYER_AFTER) +
                                  N_LAYERS * forward_layer_bytes(model, &stub, 0));
        if (n > 1) { // one fewer would not have fitted
            struct limits_wanted more = wanted;
            more.n_device_layers = N_LAYERS - n + 1;
            assert_false(plan_fits(&plan, model, whole - short_of, &more));
        }
        n_before = n;
    }
    assert_int_equal(n_before, N_LAYERS - 1); // and then nothing fits
}

TEST(a_named_placement_is_kept_or_refused)
{
    struct limits_plan plan;
    struct error error = {0};
    struct limits_wanted wanted = wanted_with(0);
    wanted.placing = PLACING_LAYERS;
    wanted.n_device_layers = 3;
    assert_true(plan_fits(&plan, model, PLENTY, &wanted)); // although everything would fit
    assert_int_equal(plan.placement.n_host_layers, N_LAYERS - 3);
    wanted.placing = PLACING_ATTENTION;
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    assert_int_equal(plan.placement.n_host_layers, N_LAYERS - 3);
    assert_true(plan.placement.host_attention);
    char text[256];
    limits_describe_placement(&plan, model, text, sizeof text);
    assert_non_null(strstr(text, "--placement attention-cpu:3)"));
    wanted.n_device_layers = N_LAYERS + 1;
    assert_int_equal(limits_derive(&plan, model, PLENTY, &wanted, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    wanted = wanted_with(0);
    wanted.placing = PLACING_DEVICE;
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    assert_false(limits_is_hybrid(&plan));
}

TEST(a_refusal_names_what_would_fit)
{
    uint64_t available = bytes_for(page) + 20 * page;
    struct limits_plan plan;
    struct error error = {0};
    struct limits_wanted wanted = wanted_with(1000 * page);
    wanted.placing = PLACING_DEVICE;
    assert_int_equal(limits_derive(&plan, model, available, &wanted, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(error.text, "--kv-memory "));
    assert_non_null(strstr(error.text, "--placement attention-cpu"));
    char *layers = strstr(error.text, "layers:");
    if (layers) { // what it says fits
        wanted.placing = PLACING_LAYERS;
        wanted.n_device_layers = atoi(layers + strlen("layers:"));
        assert_true(plan_fits(&plan, model, available, &wanted));
    }
    wanted = wanted_with(0); // nothing of it fits
    assert_int_equal(limits_derive(&plan, model, 1000, &wanted, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "--backend cpu"));
}

// In millions of bytes, rounded to a tenth or, a page, to a hundredth.
TEST(a_refusal_names_what_is_there_and_what_each_part_takes)
{
    struct limits_plan plan;
    struct error error = {0};
    struct limits_wanted wanted = wanted_with(1000 * page);
    double available, weights, matrices, pages, one_page;
    int n_rows, n_positions;
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    wanted.placing = PLACING_DEVICE;
    assert_int_equal(limits_derive(&plan, model, 1500000, &wanted, &error), STATUS_REFUSE);
    assert_int_equal(
        sscanf(
            error.text,
            "memory: %lf MB are available; weights take %lf MB, matrices for steps of %d tokens %lf MB, and "
            "the KV pages %lf MB (one page of %d positions: %lf MB); would fit: --",
            &available, &weights, &n_rows, &matrices, &pages, &n_positions, &one_page),
        7);
    assert_float_equal(available, 1.5, 0.051);
    assert_float_equal(weights, (double)forward_weight_bytes(model, &stub) / 1e6, 0.051);
    assert_float_equal(pages, 1000 * (double)page / 1e6, 0.051);
    assert_float_equal(one_page, (double)page / 1e6, 0.0051);
    assert_float_equal(matrices, (double)plan.matrix_bytes / 1e6, 0.051);
    assert_int_equal(n_rows, plan.batch.n_tokens_max);
    assert_int_equal(n_positions, LIMITS_PAGE_POSITIONS);
}

// The size that a text names after `before`, in bytes.
static uint64_t named_size(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    assert_non_null(at);
    char *unit;
    uint64_t number = strtoull(at + strlen(before), &unit, 10);
    assert_true(*unit == 'K' || *unit == 'M');
    return number << (*unit == 'K' ? 10 : 20);
}

TEST(the_kv_memory_that_a_refusal_names_fits)
{
    struct limits_plan plan;
    struct error error = {0};
    struct limits_wanted wanted = {
        .backend = &stub, .n_sequences_max = BATCH, .n_tokens_max = ROWS, .page_bytes = 1};
    assert_int_equal(limits_derive(&plan, model, PLENTY, &wanted, &error), STATUS_REFUSE); // less than a page
    assert_int_equal(error.code, ERROR_USAGE);
    wanted.page_bytes = named_size(error.text, "at least ");
    assert_ok(limits_derive(&plan, model, PLENTY, &wanted, &error), &error);
    wanted.page_bytes = page - 1;
    assert_int_equal(limits_derive(&plan, model, PLENTY, &wanted, &error), STATUS_REFUSE);
    wanted.page_bytes = named_size(error.text, "bytes; ");
    assert_ok(limits_derive(&plan, model, PLENTY, &wanted, &error), &error);
    assert_true((int64_t)plan.batch.n_pages * LIMITS_PAGE_POSITIONS >= model->shape.n_context);
    wanted.page_bytes = PLENTY; // more than there is
    assert_int_equal(limits_derive(&plan, model, PLENTY, &wanted, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
    wanted.page_bytes = named_size(error.text, "--kv-memory ");
    assert_in_range(wanted.page_bytes, page, PLENTY);
    assert_ok(limits_derive(&plan, model, PLENTY, &wanted, &error), &error);
}

TEST(a_refusal_names_the_most_layers_that_fit)
{
    uint64_t available = bytes_for(10 * page) - 2 * forward_layer_bytes(model, &stub, 0);
    struct limits_plan plan;
    struct error error = {0};
    struct limits_wanted wanted = wanted_with(10 * page);
    char expected[64];
    wanted.placing = PLACING_LAYERS;
    assert_true(plan_fits(&plan, model, available, &wanted));
    assert_in_range(plan.placement.n_host_layers, 2, N_LAYERS - 1);
    wanted.placing = PLACING_DEVICE;
    snprintf(expected, sizeof expected, "--placement layers:%d (of %d layers)",
             N_LAYERS - plan.placement.n_host_layers, N_LAYERS);
    assert_int_equal(limits_derive(&plan, model, available, &wanted, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, expected));
}

TEST(a_cpu_has_no_other_side)
{
    struct limits_plan plan;
    struct error error = {0};
    struct limits_wanted wanted = {.backend = &stub, .n_sequences_max = BATCH, .n_tokens_max = ROWS};
    assert_ok(limits_derive(&plan, model, PLENTY, &wanted, &error), &error);
    assert_false(limits_is_hybrid(&plan));
    // half is left alone
    assert_true(plan.page_bytes <= (PLENTY - plan.weight_bytes - plan.matrix_bytes) / 2);
    assert_int_equal(limits_derive(&plan, model, 10000, &wanted, &error), STATUS_REFUSE);
    assert_null(strstr(error.text, "--placement"));
}

TEST(the_limit_of_the_address_space_counts)
{
    struct rlimit before, limit = {1 << 30, 1 << 30};
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit.rlim_max = before.rlim_max;
    if (setrlimit(RLIMIT_AS, &limit) != 0) // under a sanitizer, whose shadow is larger
        skip();
    uint64_t available = machine_available_bytes();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_in_range(available, 1, (1 << 30) - 1);
}

TEST(draft_tokens_have_the_rows_that_sequences_leave)
{
    struct limits_plan plan;
    for (int32_t n_rows = BATCH; n_rows <= BATCH + LIMITS_DRAFTS + 1; n_rows++) {
        struct limits_wanted wanted = {.backend = &stub,
                                       .n_sequences_max = BATCH,
                                       .n_tokens_max = n_rows,
                                       .n_drafts_max = LIMITS_DRAFTS};
        assert_true(plan_fits(&plan, model, PLENTY, &wanted));
        int32_t n = n_rows - BATCH < LIMITS_DRAFTS ? n_rows - BATCH : LIMITS_DRAFTS;
        assert_int_equal(plan.batch.n_drafts_max, n);
        assert_int_equal(plan.forward.n_outputs_max, BATCH + n);
        assert_int_equal(plan.forward.n_sequences_max, BATCH + n);
    }
}

TEST(counts_are_cut_to_their_limits)
{
    struct limits_plan plan;
    for (int over = 0; over < 2; over++) {
        struct limits_wanted wanted = {.backend = &stub,
                                       .n_sequences_max = LIMITS_SEQUENCES_MAX + over,
                                       .n_tokens_max = LIMITS_TOKENS_MAX + over,
                                       .n_jobs_max = LIMITS_JOBS_MAX + over,
                                       .page_bytes = 10 * page};
        assert_true(plan_fits(&plan, model, PLENTY, &wanted));
        assert_int_equal(plan.batch.n_sequences_max, LIMITS_SEQUENCES_MAX);
        assert_int_equal(plan.batch.n_tokens_max, LIMITS_TOKENS_MAX);
        assert_int_equal(plan.batch.n_jobs_max, LIMITS_JOBS_MAX);
    }
    struct limits_wanted below = {.backend = &stub,
                                  .n_sequences_max = LIMITS_SEQUENCES_MAX - 1,
                                  .n_tokens_max = LIMITS_TOKENS_MAX - 1,
                                  .n_jobs_max = LIMITS_JOBS_MAX - 1,
                                  .page_bytes = 10 * page};
    assert_true(plan_fits(&plan, model, PLENTY, &below));
    assert_int_equal(plan.batch.n_sequences_max, LIMITS_SEQUENCES_MAX - 1);
    assert_int_equal(plan.batch.n_tokens_max, LIMITS_TOKENS_MAX - 1);
    assert_int_equal(plan.batch.n_jobs_max, LIMITS_JOBS_MAX - 1);
    below.n_tokens_max = 7; // each sequence has its row
    assert_true(plan_fits(&plan, model, PLENTY, &below));
    assert_int_equal(plan.batch.n_tokens_max, LIMITS_SEQUENCES_MAX - 1);
}

TEST(counts_that_nobody_gave_follow_the_device_and_the_sequences)
{
    static const struct {
        bool device;
        int32_t given, n_sequences, n_tokens, n_jobs;
    } rows[] = {
        {false, 0, 64, 512, 64 * 32}, {true, 0, 256, 4096, 256 * 32},      {false, 31, 31, 512, 1024},
        {false, 32, 32, 512, 1024},   {false, 33, 33, 512, 33 * 32},       {false, 256, 256, 512, 256 * 32},
        {false, 257, 257, 514, 8224}, {true, 2049, 2049, 4098, 2049 * 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct limits_plan plan;
        struct limits_wanted wanted = {.backend = &stub,
                                       .device = rows[i].device,
                                       .n_sequences_max = rows[i].given};
        assert_true(plan_fits(&plan, model, PLENTY, &wanted));
        assert_int_equal(plan.batch.n_sequences_max, rows[i].n_sequences);
        assert_int_equal(plan.batch.n_tokens_max, rows[i].n_tokens);
        assert_int_equal(plan.batch.n_jobs_max,
                         rows[i].n_jobs < LIMITS_JOBS_MAX ? rows[i].n_jobs : LIMITS_JOBS_MAX);
        assert_int_equal(plan.forward.n_tokens_max, rows[i].n_tokens);
        assert_int_equal(plan.forward.n_outputs_max, rows[i].n_sequences);
        assert_int_equal(plan.forward.n_sequences_max, rows[i].n_sequences);
    }
}

TEST(a_placement_is_described_by_layers_and_megabytes_of_either_side)
{
    struct limits_plan plan = {.weight_bytes = 1500000,
                               .page_bytes = 3000000,
                               .host_weight_bytes = 2500000,
                               .host_page_bytes = 600000,
                               .placement = {3, false}};
    char text[256];
    limits_describe_placement(&plan, model, text, sizeof text);
    assert_string_equal(text,
                        "5 of 8 layers on the GPU with 1.5 MB of weights and 2.4 MB of KV pages, the rest on "
                        "the CPU with 2.5 MB and 0.6 MB (--placement layers:5)");
    plan.placement = (struct placement){0, true};
    limits_describe_placement(&plan, model, text, sizeof text);
    assert_string_equal(text,
                        "8 of 8 layers on the GPU with 1.5 MB of weights and 2.4 MB of KV pages, the rest on "
                        "the CPU with 2.5 MB and 0.6 MB, attention of all layers there (--placement "
                        "attention-cpu)");
    plan.placement = (struct placement){3, false};
    plan.state_bytes = 900000, plan.host_state_bytes = 200000;
    limits_describe_placement(&plan, model, text, sizeof text);
    assert_string_equal(
        text, "5 of 8 layers on the GPU with 1.5 MB of weights, 0.7 MB of recurrent states and 2.4 MB "
              "of KV pages, the rest on the CPU with 2.5 MB, 0.2 MB and 0.6 MB (--placement "
              "layers:5)");
}

TEST(a_refusal_of_two_sides_names_what_the_host_has_and_needs)
{
    struct limits_plan plan;
    struct error error = {0};
    struct limits_wanted wanted = wanted_with(1000 * page);
    double pages, needed, available;
    wanted.placing = PLACING_LAYERS;
    wanted.n_device_layers = 5;
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    wanted.host_available_bytes = 1200000;
    assert_int_equal(limits_derive(&plan, model, PLENTY, &wanted, &error), STATUS_REFUSE);
    assert_int_equal(sscanf(strstr(error.text, "KV pages"), "KV pages %lf MB (one page", &pages), 1);
    assert_int_equal(
        sscanf(strstr(error.text, " (and"), " (and on the host %lf MB of %lf MB)", &needed, &available), 2);
    assert_float_equal(pages, (double)(1000 * page / N_LAYERS * 5) / 1e6, 0.051);
    assert_float_equal(needed, (double)(plan.host_weight_bytes + 1000 * page / N_LAYERS * 3) / 1e6, 0.051);
    assert_float_equal(available, 1.2, 0.051);
}

// Of what weights and matrices leave: nearly all of a GPU's memory, half of a host's, beside which others
// work.
TEST(pages_take_their_share_of_what_is_left)
{
    enum { LEFT = 100 };
    uint64_t rest = bytes_for(page) - page;
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(0);
    wanted.placing = PLACING_DEVICE;
    assert_true(plan_fits(&plan, model, rest + LEFT * page, &wanted));
    assert_int_equal(plan.batch.n_pages, LEFT / 20 * 19);
    wanted.device = false;
    assert_true(plan_fits(&plan, model, rest + LEFT * page, &wanted));
    assert_int_equal(plan.batch.n_pages, LEFT / 2);
    wanted = wanted_with(0);
    wanted.placing = PLACING_ATTENTION;
    wanted.n_device_layers = N_LAYERS;
    wanted.host_available_bytes = 2 * plan.matrix_bytes + LEFT * page; // rows on their way, and the pages
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    assert_int_equal(plan.batch.n_pages, LEFT / 2);
    assert_int_equal(plan.host_page_bytes, LEFT / 2 * page);
}

// Attention's scratch grows with the positions that a step may read.
static uint64_t growing_scratch(struct backend *backend, const struct model_shape *shape,
                                int32_t n_tokens_max, int32_t n_sequences_max, int64_t n_positions)
{
    return (64 << 20) + 1000 * (uint64_t)n_positions;
}

TEST(pages_are_counted_with_the_scratch_that_they_bring)
{
    enum { LEFT = 100 };
    struct backend_device device = {.name = "scratch", .scratch_bytes = growing_scratch};
    struct backend backend;
    backend_init(&backend, &device, &(struct backend_operations){0});
    uint64_t slope = 1000 * LIMITS_PAGE_POSITIONS;
    uint64_t rest = bytes_for(page) - page + (64 << 20);
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(0);
    wanted.backend = &backend;
    wanted.placing = PLACING_DEVICE;
    assert_true(plan_fits(&plan, model, rest + LEFT * (page + slope), &wanted));
    assert_int_equal(plan.batch.n_pages, LEFT / 20 * 19);
    wanted.page_bytes = LEFT * page;
    assert_true(plan_fits(&plan, model, rest + LEFT * (page + slope), &wanted));
    assert_false(plan_fits(&plan, model, rest + LEFT * (page + slope) - 1, &wanted));
}

TEST(no_more_layers_than_needed_are_the_host_s_with_attention_there_too)
{
    uint64_t layer = forward_layer_bytes(model, &stub, 0);
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(10 * page);
    int32_t n_before = 0;
    wanted.placing = PLACING_ATTENTION;
    for (uint64_t available = bytes_for(10 * page); plan_fits(&plan, model, available, &wanted);
         available -= layer / 4) {
        int32_t n = plan.placement.n_host_layers;
        assert_in_range(n, n_before, n_before + 1);
        assert_true(plan.placement.host_attention);
        struct limits_wanted more = wanted;
        more.n_device_layers = N_LAYERS - n + 1;
        if (n > 1) // one fewer would not have fitted
            assert_false(plan_fits(&plan, model, available, &more));
        n_before = n;
    }
    assert_int_equal(n_before, N_LAYERS - 1);
}

TEST(layers_that_nobody_placed_go_where_layers_that_somebody_placed_go)
{
    uint64_t layer = forward_layer_bytes(model, &stub, 0);
    struct limits_plan plan, named;
    struct limits_wanted wanted = wanted_with(0), layers = wanted;
    bool seen[N_LAYERS] = {0};
    layers.placing = PLACING_LAYERS;
    for (uint64_t available = bytes_for(0); plan_fits(&plan, model, available, &wanted);
         available -= layer / 4) {
        if (plan.placement.host_attention || plan.placement.n_host_layers == 0)
            continue;
        assert_true(plan_fits(&named, model, available, &layers));
        assert_int_equal(plan.placement.n_host_layers, named.placement.n_host_layers);
        seen[plan.placement.n_host_layers] = true;
    }
    for (int32_t n = 1; n < N_LAYERS; n++)
        assert_true(seen[n]);
}

TEST(checking_on_the_cpu_takes_half_of_what_is_left_for_its_pages)
{
    uint64_t bytes;
    page = forward_page_bytes(model, NULL, LIMITS_PAGE_POSITIONS, KV_F32_OF_F16);
    struct limits_plan plan;
    struct limits_wanted wanted = wanted_with(0);
    struct forward_limits check;
    struct error error = {0};
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    assert_ok(limits_derive_check(&plan, model, PLENTY, &check, &bytes, &error), &error);
    assert_int_equal(check.n_pages, plan.batch.n_pages); // no more than are checked
    uint64_t fixed = bytes - (uint64_t)check.n_pages * page;
    assert_ok(limits_derive_check(&plan, model, fixed + 20 * page, &check, &bytes, &error), &error);
    assert_int_equal(check.n_pages, 10);
    assert_int_equal(bytes, fixed + 10 * page);
    assert_ok(limits_derive_check(&plan, model, fixed + 2 * page, &check, &bytes, &error), &error);
    assert_int_equal(check.n_pages, 1);
    assert_int_equal(limits_derive_check(&plan, model, fixed + 2 * page - 1, &check, &bytes, &error),
                     STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
}

static int open_model(void **state)
{
    backend_init(&stub, &(struct backend_device){.name = "stub"}, &(struct backend_operations){0});
    model = open_model_of(&(
        struct model_recipe){.type = TENSOR_F16, .seed = 5, .n_layers = N_LAYERS, .n_embd = 64, .n_ff = 512});
    page = forward_page_bytes(model, NULL, LIMITS_PAGE_POSITIONS, KV_F16);
    return 0;
}

// A quarter of the memory after the weights, unless the batch size is given.
TEST(recurrent_states_have_their_memory_and_limit_the_batch)
{
    char directory[64], path[96];
    struct error error = {0};
    struct model *recurrent;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, &(struct model_recipe){.family = "qwen35"});
    assert_ok(model_open(&recurrent, path, &error), &error);
    // 3 layers: 3 rows of 192 channels; 6 heads of 18 x 20 items
    const uint64_t slot = 3 * sizeof(float) * (3 * 192 + 6 * 18 * 20);
    assert_int_equal(forward_state_bytes(recurrent, NULL), slot);
    assert_int_equal(forward_state_bytes(model, NULL), 0);
    struct limits_wanted wanted = {.n_tokens_max = 64, .n_drafts_max = 8};
    struct limits_plan plan;
    assert_ok(limits_derive(&plan, recurrent, PLENTY, &wanted, &error), &error);
    assert_int_equal(plan.batch.n_state_slots, plan.batch.n_sequences_max * 3 / 2);
    assert_int_equal(plan.forward.n_state_slots, plan.batch.n_state_slots);
    assert_int_equal(plan.state_bytes, (uint64_t)plan.batch.n_state_slots * slot);
    assert_int_equal(plan.batch.n_drafts_max, 0);
    int32_t n_most = plan.batch.n_sequences_max;
    uint64_t available = plan.weight_bytes + plan.matrix_bytes + 40 * slot;
    assert_ok(limits_derive(&plan, recurrent, available, &wanted, &error), &error);
    assert_true(plan.batch.n_sequences_max > 1 && plan.batch.n_sequences_max < n_most);
    int32_t n_sequences = plan.batch.n_sequences_max, n_snapshots = plan.batch.n_state_slots - n_sequences;
    assert_true((uint64_t)n_sequences * slot <= (available - plan.weight_bytes) / 4);
    assert_int_equal(n_snapshots, n_sequences / 2);
    assert_true(plan.weight_bytes + plan.matrix_bytes + plan.state_bytes + plan.page_bytes <= available);
    wanted.no_snapshots = true;
    assert_ok(limits_derive(&plan, recurrent, available, &wanted, &error), &error);
    assert_int_equal(plan.batch.n_sequences_max, n_sequences);
    assert_int_equal(plan.batch.n_state_slots, n_sequences);
    // A batch that is given keeps its slots; the snapshots get what an eighth of the memory holds, or nothing.
    wanted = (struct limits_wanted){.n_tokens_max = 64, .n_sequences_max = 2 * n_sequences};
    uint64_t page_bytes = forward_page_bytes(recurrent, NULL, LIMITS_PAGE_POSITIONS, KV_F32);
    wanted.page_bytes = page_bytes;
    assert_ok(limits_derive(&plan, recurrent, available, &wanted, &error), &error);
    assert_int_equal(plan.batch.n_sequences_max, 2 * n_sequences);
    n_snapshots = plan.batch.n_state_slots - 2 * n_sequences;
    assert_true(n_snapshots > 0 && n_snapshots < n_sequences);
    assert_true((uint64_t)n_snapshots * slot <= (available - plan.weight_bytes) / 8);
    uint64_t fixed_bytes = plan.weight_bytes + plan.matrix_bytes + 2 * (uint64_t)n_sequences * slot;
    assert_ok(limits_derive(&plan, recurrent, fixed_bytes + page_bytes, &wanted, &error), &error);
    assert_int_equal(plan.batch.n_state_slots, 2 * n_sequences);
    wanted = (struct limits_wanted){.n_tokens_max = 64};
    wanted.n_sequences_max = n_most;
    wanted.n_tokens_max = n_most;
    assert_int_equal(limits_derive(&plan, recurrent, model_weight_bytes(recurrent) + 40 * slot, &wanted,
                                   &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "the recurrent states of 64 sequences"));
    wanted.n_state_slots = 1;
    assert_ok(limits_derive(&plan, recurrent, PLENTY, &wanted, &error), &error);
    assert_int_equal(plan.state_bytes, slot);
    model_close(recurrent);
    remove_directory(directory);
}

static uint64_t host_slot_bytes(struct backend *backend, const struct state_shape *shape)
{
    (void)backend;
    return (uint64_t)shape->n_layers * 7000;
}

static uint64_t device_slot_bytes(struct backend *backend, const struct state_shape *shape)
{
    (void)backend;
    return (uint64_t)shape->n_layers * 10000;
}

// The fourth and the last of 8 layers have attention and pages, the others states.
TEST(states_and_pages_of_a_recurrent_model_are_planned_where_their_layer_is)
{
    static const int32_t states_before[] = {0, 1, 2, 3, 3, 4, 5, 6, 6},
                         pages_before[] = {0, 0, 0, 0, 1, 1, 1, 1, 2};
    struct model *recurrent =
        open_model_of(&(struct model_recipe){.family = "qwen35", .n_layers = 8, .type = TENSOR_F16});
    struct backend device = stub, host = stub;
    struct limits_plan plan;
    device.device.state_bytes = device_slot_bytes;
    host.device.state_bytes = host_slot_bytes;
    for (int32_t n_host = 0; n_host < 8; n_host++)
        for (int attention = 0; attention < 2; attention++) {
            struct limits_wanted wanted = {.backend = &device,
                                           .device = true,
                                           .n_sequences_max = 6,
                                           .n_tokens_max = 64,
                                           .host = &host,
                                           .host_available_bytes = PLENTY,
                                           .placing = attention ? PLACING_ATTENTION : PLACING_LAYERS,
                                           .n_device_layers = 8 - n_host};
            assert_true(plan_fits(&plan, recurrent, PLENTY, &wanted));
            assert_int_equal(plan.placement.n_host_layers, n_host);
            uint64_t on_host = (uint64_t)states_before[n_host], n_slots = (uint64_t)plan.batch.n_state_slots;
            assert_int_equal(n_slots, 9);
            assert_int_equal(plan.host_state_bytes, n_slots * 7000 * on_host);
            assert_int_equal(plan.state_bytes - plan.host_state_bytes, n_slots * 10000 * (6 - on_host));
            uint64_t pages = attention ? 2 : (uint64_t)pages_before[n_host];
            assert_int_equal(plan.host_page_bytes, plan.page_bytes / 2 * pages);
        }
    model_close(recurrent);
}

// Only the experts of the first layers are on the host; a dense layer has none.
TEST(experts_of_the_first_layers_are_planned_on_the_host)
{
    struct model *mixture = open_model_of(&(struct model_recipe){
        .family = "glm4moe", .n_layers = 5, .type = TENSOR_F16, .n_embd = 64, .n_ff = 512});
    struct limits_plan plan, whole;
    struct error error = {0};
    struct limits_wanted wanted = {.backend = &stub,
                                   .device = true,
                                   .n_sequences_max = 4,
                                   .n_tokens_max = 64,
                                   .page_bytes =
                                       8 * forward_page_bytes(mixture, NULL, LIMITS_PAGE_POSITIONS, KV_F16),
                                   .host = &stub,
                                   .host_available_bytes = PLENTY,
                                   .placing = PLACING_EXPERTS};
    uint64_t experts = 0;
    assert_true(plan_fits(&whole, mixture, PLENTY, &wanted));
    assert_int_equal(whole.placement.n_host_experts, 0);
    uint64_t device_bytes = whole.weight_bytes + whole.matrix_bytes + whole.page_bytes;
    for (int32_t n_host = 0; n_host <= 5; n_host++) {
        wanted.n_device_layers = n_host < 5 ? 5 - n_host : LIMITS_NO_LAYERS;
        assert_true(plan_fits(&plan, mixture, PLENTY, &wanted));
        assert_int_equal(plan.placement.n_host_experts, n_host);
        experts += n_host ? forward_experts_bytes(mixture, &stub, n_host - 1) : 0;
        assert_int_equal(plan.host_weight_bytes, experts);
        assert_int_equal(plan.weight_bytes, whole.weight_bytes - experts);
        assert_int_equal(plan.host_page_bytes, 0);
        // the fewest that fit
        wanted.n_device_layers = 0;
        assert_true(plan_fits(&plan, mixture, device_bytes - experts, &wanted));
        assert_int_equal(forward_experts_bytes(mixture, &stub, 0), 0);
        assert_int_equal(plan.placement.n_host_experts, n_host == 1 ? 0 : n_host);
    }
    assert_true(experts > 0);
    assert_false(plan_fits(&plan, mixture, device_bytes - experts - 1, &wanted));
    assert_int_equal(limits_derive(&plan, mixture, device_bytes - experts - 1, &wanted, &error),
                     STATUS_REFUSE);
    assert_int_equal(limits_derive(&plan, model, PLENTY, &wanted, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "--placement experts: family llama has no experts");
    wanted.placing = PLACING_DEVICE;
    assert_int_equal(limits_derive(&plan, mixture, device_bytes - 1, &wanted, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "--placement experts:3 (of 5 layers)"));
    char text[256];
    wanted.placing = PLACING_EXPERTS;
    wanted.n_device_layers = 2;
    assert_true(plan_fits(&plan, mixture, PLENTY, &wanted));
    limits_describe_placement(&plan, mixture, text, sizeof text);
    assert_non_null(strstr(text, "the experts of 3 of 5 layers on the CPU with "));
    assert_non_null(strstr(text, "(--placement experts:2)"));
    model_close(mixture);
}

// Either side limits the batch: a quarter of what its weights leave.
TEST(the_side_with_less_memory_for_states_limits_the_batch)
{
    struct model *recurrent =
        open_model_of(&(struct model_recipe){.family = "mamba2", .n_layers = 4, .type = TENSOR_F16});
    struct backend device = stub, host = stub;
    struct limits_plan plan, small;
    device.device.state_bytes = device_slot_bytes;
    host.device.state_bytes = host_slot_bytes;
    struct limits_wanted wanted = {.backend = &device,
                                   .device = true,
                                   .n_tokens_max = 64,
                                   .host = &host,
                                   .host_available_bytes = PLENTY,
                                   .placing = PLACING_LAYERS,
                                   .n_device_layers = 1};
    assert_true(plan_fits(&plan, recurrent, PLENTY, &wanted));
    uint64_t on_host = plan.host_weight_bytes + 4 * 21000 * 20;
    wanted.host_available_bytes = on_host;
    assert_true(plan_fits(&small, recurrent, PLENTY, &wanted));
    assert_true(small.batch.n_sequences_max == 20 && plan.batch.n_sequences_max > 20);
    assert_int_equal(small.batch.n_state_slots, 30);
    wanted.host_available_bytes = PLENTY;
    assert_true(plan_fits(&small, recurrent, plan.weight_bytes + 4 * 10000 * 40, &wanted));
    assert_int_equal(small.batch.n_sequences_max, 40);
    model_close(recurrent);
}

TEST(an_encoder_has_pages_of_one_layer_for_its_longest_text)
{
    char directory[64], path[96];
    struct error error = {0};
    struct model *encoder;
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_encoder(path, &(struct encoder_recipe){.n_layers = 5});
    assert_ok(model_open(&encoder, path, &error), &error);
    struct limits_wanted wanted = {.n_tokens_max = 64};
    struct limits_plan plan;
    assert_int_equal(limits_derive(&plan, encoder, PLENTY, &wanted, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "(bert) attends in both directions: it generates no text"));
    limits_set_embedding(&wanted, encoder, 200);
    assert_ok(limits_derive(&plan, encoder, PLENTY, &wanted, &error), &error);
    // 200 positions in 13 pages beside a step of 64 rows and texts; 48 floats of keys and of values
    assert_int_equal(plan.forward.n_pages, 13 + 64 / 16 + plan.forward.n_sequences_max);
    assert_int_equal(plan.page_bytes, (uint64_t)plan.forward.n_pages * 16 * 2 * 48 * sizeof(float));
    assert_int_equal(plan.forward.kv_type, KV_F32);
    assert_true(plan.forward.hidden_only && plan.forward.n_outputs_max == 64);
    assert_int_equal(limits_derive(&plan, encoder, model_weight_bytes(encoder), &wanted, &error),
                     STATUS_REFUSE);
    wanted = (struct limits_wanted){.n_tokens_max = 3}; // fewer rows than texts in a step
    limits_set_embedding(&wanted, encoder, 200);
    assert_int_equal(wanted.n_sequences_max, 3);
    model_close(encoder);
    remove_directory(directory);
}

static int close_model(void **state)
{
    model_close(model);
    return 0;
}

TEST_FIXTURE(open_model, close_model);
