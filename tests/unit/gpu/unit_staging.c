// Weights on their way to the device through two buffers, and the times of a step's phases, over a device
// that notes what it is asked for (gpu/staging.h, gpu/phases.h).
#include "gpu/phases.h"
#include "gpu/staging.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"

struct noted_event {
    int number;
    double at_us;
    bool recorded, waited;
};

enum { EVENTS_MAX = 3 * PHASES_MAX };

static struct {
    struct noted_event events[EVENTS_MAX];
    int n_events, n_destroyed, n_pinned, n_unpinned, n_uploads;
    int n_events_left, n_pins_left; // until one fails; -1: no limit
    double now_us;
    const void *uploading[2]; // buffers whose copy may still run
    struct device_event *after[2];
    char log[256];
    enum status status;
} world;

static struct device *const device = (struct device *)&world;

struct device_event *device_event_create(struct device *of)
{
    assert_ptr_equal(of, device);
    if (world.n_events_left == 0)
        return NULL;
    world.n_events_left -= world.n_events_left > 0;
    assert_true(world.n_events < EVENTS_MAX);
    world.events[world.n_events] = (struct noted_event){.number = world.n_events};
    return (struct device_event *)&world.events[world.n_events++];
}

void device_event_destroy(struct device *of, struct device_event *event)
{
    world.n_destroyed += event != NULL;
}

void device_event_record(struct device *of, struct device_event *event)
{
    struct noted_event *noted = (struct noted_event *)event;
    noted->recorded = true;
    noted->waited = false;
    noted->at_us = world.now_us;
    for (int i = 0; i < 2; i++)
        if (world.uploading[i] && !world.after[i])
            world.after[i] = event;
}

void device_event_wait(struct device *of, struct device_event *event)
{
    struct noted_event *noted = (struct noted_event *)event;
    assert_true(noted->recorded);
    noted->waited = true;
    for (int i = 0; i < 2; i++)
        if (world.after[i] == event)
            world.uploading[i] = world.after[i] = NULL;
}

double device_event_between_us(const struct device_event *begin, const struct device_event *end)
{
    const struct noted_event *from = (const struct noted_event *)begin, *to = (const struct noted_event *)end;
    assert_true(from->recorded && to->recorded);
    return to->at_us - from->at_us;
}

void *device_pin(struct device *of, size_t size_bytes)
{
    if (world.n_pins_left == 0)
        return NULL;
    world.n_pins_left -= world.n_pins_left > 0;
    world.n_pinned++;
    return malloc(size_bytes);
}

void device_unpin(struct device *of, void *memory)
{
    for (int i = 0; i < 2; i++)
        assert_true(!memory || world.uploading[i] != memory);
    world.n_unpinned += memory != NULL;
    free(memory);
}

// The copy runs until the event after it was waited for.
void device_upload(struct device *of, void *to, const void *from, size_t size_bytes)
{
    int i = world.uploading[0] ? 1 : 0;
    assert_null(world.uploading[i]);
    world.uploading[i] = from;
    world.n_uploads++;
    memcpy(to, from, size_bytes);
    size_t size = strlen(world.log);
    snprintf(world.log + size, sizeof world.log - size, "%zu ", size_bytes);
}

enum status device_status(struct device *of, struct error *error)
{
    return world.status == STATUS_OK ? STATUS_OK
                                     : error_set(error, world.status, ERROR_FILE, "the device is lost");
}

static int start(void **state)
{
    memset(&world, 0, sizeof world);
    world.n_events_left = world.n_pins_left = -1;
    return 0;
}

// ---- staging ----

static void nothing_is_left(void)
{
    assert_int_equal(world.n_destroyed, world.n_events);
    assert_int_equal(world.n_unpinned, world.n_pinned);
}

TEST(a_buffer_is_filled_again_only_when_its_copy_has_run)
{
    enum { SIZE = STAGING_BYTES };
    struct staging staging;
    struct error error;
    unsigned char to[16];
    assert_ok(staging_init(&staging, device, &error), &error);
    assert_int_equal(staging.size_bytes, SIZE);
    unsigned char *buffers[5];
    for (int i = 0; i < 5; i++) {
        buffers[i] = staging_take(&staging);
        for (int j = 0; j < 2; j++)
            assert_ptr_not_equal(world.uploading[j], buffers[i]);
        memset(buffers[i], i, sizeof to);
        staging_send(&staging, to, sizeof to);
        for (size_t j = 0; j < sizeof to; j++)
            assert_int_equal(to[j], i);
    }
    assert_ptr_not_equal(buffers[0], buffers[1]);
    for (int i = 2; i < 5; i++)
        assert_ptr_equal(buffers[i], buffers[i - 2]);
    // the other one may still be copied
    assert_true(world.uploading[0] || world.uploading[1]);
    staging_finish(&staging);
    assert_null(staging.device);
    nothing_is_left();
    staging_finish(&staging);
    nothing_is_left();
}

TEST(memory_of_any_size_is_copied_in_pieces)
{
    static const struct {
        size_t size;
        const char *pieces;
    } rows[] = {{0, ""},
                {1, "1 "},
                {STAGING_BYTES - 1, "8388607 "},
                {STAGING_BYTES, "8388608 "},
                {STAGING_BYTES + 1, "8388608 1 "},
                {2 * STAGING_BYTES, "8388608 8388608 "},
                {3 * STAGING_BYTES + 7, "8388608 8388608 8388608 7 "}};
    unsigned char *from = malloc(4 * STAGING_BYTES), *to = malloc(4 * STAGING_BYTES);
    for (size_t i = 0; i < 4 * STAGING_BYTES; i++)
        from[i] = (unsigned char)(i * 7 + i / 4099);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct staging staging;
        struct error error;
        start(state);
        memset(to, 0xee, 4 * STAGING_BYTES);
        assert_ok(staging_init(&staging, device, &error), &error);
        staging_copy(&staging, to, from, rows[i].size);
        assert_string_equal(world.log, rows[i].pieces);
        assert_memory_equal(to, from, rows[i].size);
        assert_int_equal(to[rows[i].size], 0xee);
        staging_finish(&staging);
        nothing_is_left();
    }
    free(from);
    free(to);
}

TEST(buffers_grow_and_never_shrink)
{
    struct staging staging;
    struct error error;
    unsigned char to[4] = {0};
    assert_ok(staging_init(&staging, device, &error), &error);
    unsigned char *buffer = staging_take(&staging);
    assert_ok(staging_reserve(&staging, STAGING_BYTES, &error), &error);
    assert_ptr_equal(staging_take(&staging), buffer);
    staging_send(&staging, to, sizeof to);
    assert_ok(staging_reserve(&staging, STAGING_BYTES + 1, &error), &error);
    assert_int_equal(staging.size_bytes, STAGING_BYTES + 1);
    assert_ptr_equal(staging.device, device);
    assert_int_equal(world.n_unpinned, 2);
    assert_int_equal(world.n_pinned, 4);
    memset(staging_take(&staging), 5, STAGING_BYTES + 1);
    staging_send(&staging, to, sizeof to);
    assert_int_equal(to[3], 5);
    staging_finish(&staging);
    nothing_is_left();
}

TEST(without_memory_nothing_is_kept)
{
    struct staging staging;
    struct error error;
    for (int n = 0; n < 2; n++)
        for (int pins = 0; pins < 2; pins++) {
            start(state);
            *(pins ? &world.n_pins_left : &world.n_events_left) = n;
            assert_int_equal(staging_init(&staging, device, &error), STATUS_REFUSE);
            assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
            assert_non_null(strstr(error.text, "two buffers of 8388608 bytes"));
            assert_null(staging.device);
            nothing_is_left();
        }
    start(state);
    world.n_pins_left = 1;
    world.status = STATUS_RESTART;
    assert_int_equal(staging_init(&staging, device, &error), STATUS_RESTART);
    assert_string_equal(error.text, "the device is lost");
    nothing_is_left();
}

// ---- phases ----

TEST(the_time_of_a_phase_is_what_passes_until_the_next_mark)
{
    struct phases phases = {0};
    struct step_times times = {0};
    for (int round = 1; round <= 2; round++) { // events are used again
        phases.n = 0;
        world.now_us = 1000 * round;
        phases_mark(&phases, device, (enum step_phase)0);
        world.now_us += 1;
        phases_mark(&phases, device, (enum step_phase)1);
        world.now_us += 10;
        phases_mark(&phases, device, (enum step_phase)1); // goes on
        world.now_us += 20;
        phases_mark(&phases, device, (enum step_phase)0);
        world.now_us += 100;
        phases_end(&phases, device);
        world.now_us += 5000; // of none
        phases_mark(&phases, device, (enum step_phase)2);
        world.now_us += 400;
        phases_end(&phases, device);
        assert_int_equal(phases.n, 6);
        phases_add(&phases, &times);
        assert_true(times.us[0] == 101 * round && times.us[1] == 30 * round && times.us[2] == 400 * round);
    }
    assert_int_equal(world.n_events, 6);
    phases_finish(&phases, device);
    assert_int_equal(world.n_destroyed, 6);
    assert_null(phases.events);
    phases_add(&phases, &times);
}

TEST(marks_beyond_the_most_extend_the_last_phase)
{
    struct phases phases = {0};
    struct step_times times = {0};
    for (int i = 0; i < PHASES_MAX + 5; i++, world.now_us++)
        phases_mark(&phases, device, (enum step_phase)(i % 2));
    phases_end(&phases, device);
    assert_int_equal(phases.n, PHASES_MAX);
    assert_int_equal(world.n_events, PHASES_MAX);
    phases_add(&phases, &times);
    assert_true(times.us[0] == PHASES_MAX / 2 && times.us[1] == PHASES_MAX / 2 - 1);
    phases_finish(&phases, device);
    assert_int_equal(world.n_destroyed, PHASES_MAX);
}

TEST(without_memory_or_events_the_last_phase_is_extended)
{
    failing_memory.fails_alone = true;
    for (int n_good = 0; n_good < 4; n_good++) { // two arrays, grown once
        struct phases phases = {0};
        struct step_times times = {0};
        start(state);
        for (int i = 0; i < 65; i++, world.now_us++) {
            if (i == 0 || i == 64)
                failing_memory_after(i == 0 ? n_good : n_good - 2);
            phases_mark(&phases, device, (enum step_phase)(i % 3));
            failing_memory_after(-1);
        }
        assert_int_equal(phases.n, 64);
        phases_end(&phases, device);
        phases_add(&phases, &times);
        assert_true(times.us[0] + times.us[1] + times.us[2] == (n_good < 2 ? 64 : 65));
        phases_finish(&phases, device);
        assert_int_equal(world.n_destroyed, world.n_events);
    }
    struct phases phases = {0};
    start(state);
    world.n_events_left = 1;
    phases_mark(&phases, device, (enum step_phase)0);
    phases_mark(&phases, device, (enum step_phase)1);
    phases_end(&phases, device);
    assert_int_equal(phases.n, 1);
    assert_int_equal(phases.n_made, 1);
    phases_finish(&phases, device);
    assert_int_equal(world.n_destroyed, 1);
}

TEST_FIXTURE(start, NULL);
