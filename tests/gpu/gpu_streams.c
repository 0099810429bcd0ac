// Uploads in the device's second stream: they run before the work that joins them, in every order that the device may
// choose. On the emulated device, which runs an upload as late as allowed or at once, each missing wait gives
// wrong bytes.
#include "gpu/device.h"
#include "tests/support/cases.h"

enum { N_ROUNDS = 64, N_BYTES = 256 };

// A step's path: host memory, a buffer of its slot, memory that all steps share, host memory.
static struct device *device;
static unsigned char *hosts[2], *slots[2], *shared, *results;

static void device_start(enum device_upload_order order)
{
    struct error error = {0};
    assert_ok(device_open(&device, &(struct device_options){.upload_order = order}, &error), &error);
    for (int slot = 0; slot < 2; slot++) {
        hosts[slot] = device_pin(device, N_BYTES);
        slots[slot] = device_allocate(device, N_BYTES);
        assert_true(hosts[slot] && slots[slot]);
    }
    shared = device_allocate(device, N_BYTES);
    results = device_pin(device, (size_t)N_ROUNDS * N_BYTES);
    assert_true(shared && results);
}

static void device_stop(void)
{
    for (int slot = 0; slot < 2; slot++) {
        device_unpin(device, hosts[slot]);
        device_free(device, slots[slot]);
    }
    device_free(device, shared);
    device_unpin(device, results);
    device_close(device);
}

static bool is_emulated(void)
{
    device_start(UPLOADS_MIXED);
    bool emulated = device_facts(device)->emulated;
    device_stop();
    return emulated;
}

enum fault {
    NO_FAULT,
    NO_JOIN,       // the step does not wait for its upload
    EARLY_UPLOAD,  // an upload does not wait for the step that last used the slot
    EARLY_CHANGES, // the host changes memory before its upload has run
};

// Runs rounds of which two are under way, and counts rounds with wrong bytes. Each has bytes of its own.
static int count_wrong(enum device_upload_order order, enum fault fault)
{
    struct error error = {0};
    struct device_event *ended[2];
    device_start(order);
    for (int slot = 0; slot < 2; slot++)
        ended[slot] = device_event_create(device);
    for (int round = 0; round < N_ROUNDS; round++) {
        int slot = round % 2;
        if (round >= 2 && fault != EARLY_UPLOAD)
            device_event_wait(device, ended[slot]);
        memset(hosts[slot], round, N_BYTES);
        device_upload_ahead(device, slots[slot], hosts[slot], N_BYTES);
        if (fault == EARLY_CHANGES)
            memset(hosts[slot], 0xEE, N_BYTES);
        if (fault != NO_JOIN)
            device_join_uploads(device);
        device_copy(device, shared, slots[slot], N_BYTES);
        device_download(device, results + round * N_BYTES, shared, N_BYTES);
        device_event_record(device, ended[slot]);
    }
    assert_ok(device_wait(device, &error), &error);
    int n_wrong = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        bool wrong = false;
        for (int i = 0; i < N_BYTES; i++)
            wrong |= results[round * N_BYTES + i] != round;
        n_wrong += wrong;
    }
    for (int slot = 0; slot < 2; slot++)
        device_event_destroy(device, ended[slot]);
    device_stop();
    return n_wrong;
}

TEST(uploads_ahead_arrive_before_the_work_that_joins_them)
{
    for (enum device_upload_order order = UPLOADS_MIXED; order <= UPLOADS_AT_ONCE; order++)
        assert_int_equal(count_wrong(order, NO_FAULT), 0);
}

TEST(a_missing_wait_between_the_streams_gives_wrong_bytes)
{
    if (!is_emulated()) // a device may happen to run them in the right order
        skip();
    assert_int_equal(count_wrong(UPLOADS_LATE, NO_JOIN), N_ROUNDS);
    assert_int_equal(count_wrong(UPLOADS_AT_ONCE, NO_JOIN), 0);
    assert_in_range(count_wrong(UPLOADS_MIXED, NO_JOIN), N_ROUNDS / 8, N_ROUNDS - 1);
}

TEST(an_upload_to_memory_that_is_still_read_gives_wrong_bytes)
{
    if (!is_emulated())
        skip();
    assert_int_equal(count_wrong(UPLOADS_AT_ONCE, EARLY_UPLOAD), N_ROUNDS - 2);
    assert_in_range(count_wrong(UPLOADS_MIXED, EARLY_UPLOAD), N_ROUNDS / 8, N_ROUNDS - 2);
}

TEST(host_memory_that_changes_before_its_upload_has_run_gives_wrong_bytes)
{
    if (!is_emulated())
        skip();
    assert_int_equal(count_wrong(UPLOADS_LATE, EARLY_CHANGES), N_ROUNDS);
    assert_in_range(count_wrong(UPLOADS_MIXED, EARLY_CHANGES), N_ROUNDS / 8, N_ROUNDS - 1);
}

TEST(a_failed_upload_ahead_is_the_device_s_error)
{
    struct error error = {0};
    if (!is_emulated())
        skip();
    for (int64_t failing = 1; failing <= 3; failing++) // the upload, its join, the copy
        for (enum device_upload_order order = UPLOADS_MIXED; order <= UPLOADS_AT_ONCE; order++) {
            struct device_options options = {.upload_order = order, .failing_work = failing};
            assert_ok(device_open(&device, &options, &error), &error);
            unsigned char *host = device_pin(device, N_BYTES), *memory = device_allocate(device, 2 * N_BYTES);
            memset(host, 0, N_BYTES);
            device_upload_ahead(device, memory, host, N_BYTES);
            device_join_uploads(device);
            device_copy(device, memory + N_BYTES, memory, N_BYTES);
            assert_int_equal(device_wait(device, &error), STATUS_RESTART);
            assert_int_equal(error.code, ERROR_DEVICE);
            assert_non_null(strstr(error.text, "an ordered fault"));
            device_unpin(device, host);
            device_free(device, memory);
            device_close(device);
        }
}

int main(void)
{
    struct error error;
    if (device_open(&device, &(struct device_options){0}, &error) != STATUS_OK) {
        print_message("skipped: %s\n", error.text);
        return 77;
    }
    device_close(device);
    return cases_run();
}
