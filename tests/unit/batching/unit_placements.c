// Where a model's layers and pages go on devices of every size, from one that holds all down to none
// (batching/limits.h).
#include "tests/support/cases.h"
#include "tests/unit/batching/plans.h"

static struct backend stub; // only asked for bytes: as many as in the file

// "2s:32": layers of the host, with "a" if attention of all is there; steps of a GPU ("l") or smaller ones
// ("s"); and the pages of the smallest device that gets this placement.
static void name_plan(const struct limits_plan *plan, char name[8])
{
    snprintf(name, 8, "%d%s%c", plan->placement.n_host_layers, plan->placement.host_attention ? "a" : "",
             plan->batch.n_sequences_max == 256 ? 'l' : 's');
}

// The placements of devices from PLENTY of memory down to none, concatenated.
static void list_plans(const struct model *model, const struct limits_wanted *wanted, char *list, size_t size)
{
    uint64_t available = PLENTY;
    struct limits_plan plan, smaller;
    char name[8], other[8];
    size_t length = 0;
    list[0] = '\0';
    while (plan_fits(&plan, model, available, wanted)) {
        name_plan(&plan, name);
        uint64_t low = 0;
        while (low + 1 < available) { // `available` gets the plan, `low` another or none
            uint64_t middle = (low + available) / 2;
            bool fits = plan_fits(&smaller, model, middle, wanted);
            name_plan(&smaller, other);
            if (fits && strcmp(name, other) == 0)
                available = middle, plan = smaller;
            else
                low = middle;
        }
        length += (size_t)snprintf(list + length, size - length, "%s%s:%d", length ? " " : "", name,
                                   plan.batch.n_pages);
        available--;
    }
}

TEST(placements_come_in_their_order_as_devices_get_smaller)
{
    struct model *model = open_model_of(&(struct model_recipe){
        .type = TENSOR_F16, .seed = 5, .n_layers = 4, .n_embd = 64, .n_ff = 8192, .n_context = 4096});
    uint64_t page = forward_page_bytes(model, NULL, LIMITS_PAGE_POSITIONS, KV_F16);
    enum { NO_HOST, PAGES, ALL }; // what the host holds; pages: twice as many as the fewest of a device
    static const struct {
        enum placing placing;
        int host;
        uint64_t n_pages; // asked for; 0: as many as fit
        const char *expected;
    } rows[] = {
        {PLACING_AUTO, NO_HOST, 0, "0l:1 0s:1"},
        {PLACING_AUTO, NO_HOST, 100, "0l:100 0s:100"},
        {PLACING_AUTO, PAGES, 0, "0l:128 0s:128 0al:128 0as:170"},
        {PLACING_AUTO, PAGES, 100, "0l:100 0s:100 0al:100 0as:100"},
        {PLACING_AUTO, ALL, 0, "0l:128 0s:128 1s:32 2s:32 3s:32 3as:16384"},
        {PLACING_AUTO, ALL, 100, "0l:100 0s:100 0al:100 0as:100 1s:100 2s:100 3s:100 3as:100"},
        {PLACING_DEVICE, NO_HOST, 0, "0l:1 0s:1"},
        {PLACING_DEVICE, ALL, 0, "0l:1 0s:1"},
        {PLACING_DEVICE, ALL, 100, "0l:100 0s:100"},
        {PLACING_LAYERS, NO_HOST, 0, "0l:32 0s:32"},
        {PLACING_LAYERS, PAGES, 0, "0l:32 0s:32"},
        {PLACING_LAYERS, ALL, 0, "0l:32 0s:32 1s:32 2s:32 3s:32"},
        {PLACING_LAYERS, ALL, 100, "0l:100 0s:100 1s:100 2s:100 3s:100"},
        {PLACING_ATTENTION, NO_HOST, 0, ""},
        {PLACING_ATTENTION, PAGES, 0, "0al:128 0as:170"},
        {PLACING_ATTENTION, PAGES, 100, "0al:100 0as:100"},
        {PLACING_ATTENTION, ALL, 0, "0al:54471 0as:16384 1as:16384 2as:16384 3as:16384"},
        {PLACING_ATTENTION, ALL, 100, "0al:100 0as:100 1as:100 2as:100 3as:100"},
    };
    struct limits_wanted attention = {.backend = &stub,
                                      .device = true,
                                      .n_tokens_max = 512,
                                      .placing = PLACING_ATTENTION,
                                      .n_device_layers = 4,
                                      .host = &stub,
                                      .host_available_bytes = PLENTY};
    struct limits_plan plan;
    assert_true(plan_fits(&plan, model, PLENTY, &attention));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct limits_wanted wanted = attention;
        char list[256];
        wanted.n_device_layers = 0;
        wanted.placing = rows[i].placing;
        wanted.page_bytes = rows[i].n_pages * page;
        if (rows[i].host == NO_HOST)
            wanted.host = NULL, wanted.host_available_bytes = 0;
        if (rows[i].host == PAGES)
            wanted.host_available_bytes = 2 * plan.matrix_bytes + 2 * 128 * page;
        list_plans(model, &wanted, list, sizeof list);
        assert_string_equal(list, rows[i].expected);
    }
    model_close(model);
}

TEST(a_single_layer_stays_on_the_device)
{
    struct model *model = open_model_of(&(struct model_recipe){.type = TENSOR_F32, .seed = 5, .n_layers = 1});
    struct limits_plan plan;
    struct limits_wanted wanted = {.backend = &stub,
                                   .device = true,
                                   .n_tokens_max = 32,
                                   .placing = PLACING_LAYERS,
                                   .host = &stub,
                                   .host_available_bytes = PLENTY};
    char list[64];
    list_plans(model, &wanted, list, sizeof list);
    assert_string_equal(list, "0l:32 0s:32");
    assert_true(plan_fits(&plan, model, PLENTY, &wanted));
    assert_int_equal(plan.forward.kv_type, KV_F32);
    model_close(model);
}

int main(void)
{
    backend_init(&stub, &(struct backend_device){.name = "stub"}, &(struct backend_operations){0});
    return cases_run();
}
