// The offset map against a naive model, at both sides of its limits, and with hostile metadata.
#include "consumer/queue/kafka/client/offset_map.h"
#include "schemas/base/base64.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static struct text encode_map(const struct offset_map *map, struct buffer *buffer)
{
    buffer_clear(buffer);
    offset_map_encode(map, buffer);
    assert_false(buffer->failed);
    return (struct text){buffer->data, buffer->size};
}

static void restart(struct offset_map *map, int64_t offset, struct text metadata)
{
    struct error error;
    enum status status = offset_map_restart(map, offset, metadata, &error);
    if (status != STATUS_OK)
        fail_msg("%s", error.text);
}

static void deliver(struct offset_map *map, int64_t first, int64_t last)
{
    for (int64_t offset = first; offset <= last; offset++)
        assert_int_equal(offset_map_deliver(map, offset), DELIVERY_NEW);
}

static struct offset_map map;

static int begin(void **state)
{
    memset(&map, 0xA5, sizeof map);
    offset_map_init(&map);
    return 0;
}

TEST(the_watermark_is_the_lowest_unfinished_offset)
{
    assert_int_equal(map.watermark, OFFSET_UNKNOWN);
    deliver(&map, 100, 104);
    assert_int_equal(map.watermark, 100);
    assert_int_equal(map.n_running, 5);
    offset_map_finish(&map, 102);
    offset_map_finish(&map, 101);
    assert_int_equal(map.watermark, 100);
    assert_int_equal(map.n_finished, 2);
    offset_map_finish(&map, 100);
    assert_int_equal(map.watermark, 103);
    assert_int_equal(map.n_finished, 0);
    offset_map_finish(&map, 104);
    offset_map_finish(&map, 103);
    assert_int_equal(map.watermark, 105);
    assert_int_equal(map.position, 105);
}

TEST(gaps_do_not_hold_the_watermark_up)
{
    deliver(&map, 10, 11);
    deliver(&map, 20, 20);
    deliver(&map, 1000000, 1000000 - 1);
    offset_map_finish(&map, 20);
    offset_map_finish(&map, 10);
    assert_int_equal(map.watermark, 11);
    offset_map_finish(&map, 11);
    assert_int_equal(map.watermark, 21);
    assert_int_equal(map.n_finished, 0);
}

TEST(offsets_without_a_job_are_finished_and_known_to_the_next_owner)
{
    struct buffer buffer = {0};
    struct offset_map next;
    deliver(&map, 100, 101);
    offset_map_finish(&map, 101);
    assert_true(offset_map_skip(&map, 102, 104)); // markers
    deliver(&map, 104, 104);
    assert_true(offset_map_skip(&map, 99, 106)); // all but what runs
    offset_map_reach(&map, 106);
    assert_false(offset_map_skip(&map, 102, 106));
    assert_int_equal(map.watermark, 100);
    assert_int_equal(map.n_running, 2);
    assert_int_equal(map.n_finished, 4); // 101, 102, 103, 105
    for (int64_t from = 99; from < 108; from++)
        assert_int_equal(offset_map_count(&map, from), from < 102    ? 4
                                                       : from > 105  ? 0
                                                       : from == 102 ? 3
                                                                     : 1 + (from < 104));
    offset_map_init(&next);
    restart(&next, map.watermark, encode_map(&map, &buffer));
    assert_int_equal(next.n_finished, 4);
    deliver(&next, 100, 100);
    offset_map_reach(&next, 104);
    deliver(&next, 104, 104);
    offset_map_finish(&next, 100);
    assert_int_equal(next.watermark, 104);
    offset_map_finish(&next, 104);
    assert_int_equal(next.watermark, 106);
    buffer_finish(&buffer);
}

TEST(offsets_without_a_job_beyond_the_window_are_left)
{
    assert_false(offset_map_skip(&map, 0, 10)); // where it starts is not known
    deliver(&map, 0, 0);
    assert_true(offset_map_skip(&map, 1, INT64_MAX));
    assert_int_equal(map.n_finished, OFFSET_MAP_WINDOW - 1);
    assert_int_equal(offset_map_count(&map, INT64_MAX), 0);
    assert_false(offset_map_is_finished(&map, OFFSET_MAP_WINDOW));
    offset_map_finish(&map, 0);
    assert_int_equal(map.watermark, OFFSET_MAP_WINDOW);
    assert_int_equal(map.n_finished, 0);
    assert_true(offset_map_skip(&map, OFFSET_MAP_WINDOW, OFFSET_MAP_WINDOW + 1)); // while nothing runs
    assert_int_equal(map.watermark, OFFSET_MAP_WINDOW + 1);
}

TEST(the_end_of_the_partition_moves_an_idle_watermark)
{
    deliver(&map, 0, 1);
    offset_map_reach(&map, 3);
    assert_int_equal(map.watermark, 0);
    assert_int_equal(map.position, 3);
    offset_map_finish(&map, 0);
    offset_map_finish(&map, 1);
    assert_int_equal(map.watermark, 3);
    offset_map_reach(&map, 2);
    assert_int_equal(map.watermark, 3);

    struct offset_map fresh;
    offset_map_init(&fresh);
    offset_map_reach(&fresh, 7);
    assert_int_equal(fresh.watermark, 7);
    offset_map_reach(&fresh, INT64_MAX); // no offset
    assert_int_equal(fresh.watermark, 7);
    offset_map_init(&fresh);
    offset_map_reach(&fresh, -1);
    offset_map_reach(&fresh, INT64_MAX);
    assert_int_equal(fresh.watermark, OFFSET_UNKNOWN);
    offset_map_reach(&fresh, INT64_MAX - 1);
    assert_int_equal(fresh.watermark, INT64_MAX - 1);
}

TEST(what_was_finished_before_a_restart_is_dropped_after_it)
{
    struct buffer buffer = {0};
    deliver(&map, 0, 200);
    for (int64_t offset = 3; offset <= 200; offset += 3)
        offset_map_finish(&map, offset);

    struct offset_map next;
    offset_map_init(&next);
    restart(&next, map.watermark, encode_map(&map, &buffer));
    assert_int_equal(next.n_running, 0);
    assert_int_equal(next.n_finished, map.n_finished);
    for (int64_t offset = 0; offset <= 200; offset++)
        assert_int_equal(offset_map_deliver(&next, offset),
                         offset > 0 && offset % 3 == 0 ? DELIVERY_DONE : DELIVERY_NEW);
    buffer_finish(&buffer);
}

TEST(running_offsets_are_adopted_unless_covered)
{
    struct offset_map other;
    struct buffer buffer = {0};
    deliver(&map, 0, 9); // lost here with ten jobs running
    offset_map_init(&other);
    deliver(&other, 0, 9);
    offset_map_finish(&other, 0);
    offset_map_finish(&other, 1);
    offset_map_finish(&other, 5); // another worker finished three of them

    restart(&map, other.watermark, encode_map(&other, &buffer));
    assert_int_equal(map.n_running, 7);
    assert_false(offset_map_is_running(&map, 1));
    assert_true(offset_map_is_running(&map, 2));
    assert_false(offset_map_is_running(&map, 5));
    assert_true(offset_map_is_running(&map, 9));
    offset_map_finish(&map, 9); // before it is delivered again
    assert_int_equal(map.watermark, 2);
    for (int64_t offset = 2; offset <= 9; offset++)
        assert_int_equal(offset_map_deliver(&map, offset), DELIVERY_DONE);
    assert_int_equal(offset_map_deliver(&map, 10), DELIVERY_NEW);
    assert_int_equal(map.watermark, 2);
    buffer_finish(&buffer);
}

TEST(a_released_offset_is_delivered_again)
{
    deliver(&map, 0, 4);
    offset_map_finish(&map, 3);
    offset_map_release(&map, 4);
    offset_map_release(&map, 1);
    assert_int_equal(map.position, 1);
    offset_map_finish(&map, 0);
    assert_int_equal(map.watermark, 1);
    assert_int_equal(offset_map_deliver(&map, 1), DELIVERY_NEW);
    assert_int_equal(offset_map_deliver(&map, 2), DELIVERY_DONE);
    assert_int_equal(offset_map_deliver(&map, 3), DELIVERY_DONE);
    assert_int_equal(offset_map_deliver(&map, 4), DELIVERY_NEW);
    offset_map_finish(&map, 2);
    offset_map_finish(&map, 4);
    assert_int_equal(map.watermark, 1);
    offset_map_finish(&map, 1);
    assert_int_equal(map.watermark, 5);
}

TEST(the_window_is_full_at_its_limit_and_not_before)
{
    struct buffer buffer = {0};
    deliver(&map, 5, 5 + OFFSET_MAP_WINDOW - 2);
    assert_false(offset_map_is_full(&map));
    deliver(&map, 5 + OFFSET_MAP_WINDOW - 1, 5 + OFFSET_MAP_WINDOW - 1);
    assert_true(offset_map_is_full(&map));
    assert_int_equal(offset_map_deliver(&map, 5 + OFFSET_MAP_WINDOW), DELIVERY_FULL);
    assert_int_equal(map.n_running, OFFSET_MAP_WINDOW);
    for (int64_t offset = 6; offset < 5 + OFFSET_MAP_WINDOW; offset++)
        offset_map_finish(&map, offset);
    assert_int_equal(encode_map(&map, &buffer).size, OFFSET_MAP_TEXT_BYTES_MAX);
    assert_true(offset_map_is_full(&map));

    struct offset_map next;
    offset_map_init(&next);
    restart(&next, 5, encode_map(&map, &buffer));
    assert_int_equal(next.n_finished, OFFSET_MAP_WINDOW - 1);
    deliver(&next, 5, 5);
    assert_true(!offset_map_is_full(&next));
    assert_int_equal(offset_map_deliver(&next, 5 + OFFSET_MAP_WINDOW), DELIVERY_FULL);
    offset_map_finish(&next, 5);
    assert_int_equal(next.watermark, 5 + OFFSET_MAP_WINDOW);
    assert_int_equal(offset_map_deliver(&next, 5 + OFFSET_MAP_WINDOW), DELIVERY_NEW);
    buffer_finish(&buffer);
}

TEST(a_gap_longer_than_the_window_waits_for_what_runs_before_it)
{
    int64_t far = INT64_C(1) << 40;
    deliver(&map, 0, 0);
    assert_int_equal(offset_map_deliver(&map, far), DELIVERY_FULL);
    assert_true(offset_map_is_full(&map));
    assert_int_equal(map.position, far);
    offset_map_finish(&map, 0);
    assert_int_equal(map.watermark, far);
    assert_int_equal(offset_map_deliver(&map, far), DELIVERY_NEW);
}

TEST(offsets_at_the_end_of_int64_are_taken_or_refused)
{
    deliver(&map, INT64_MAX - 2, INT64_MAX - 1);
    assert_int_equal(offset_map_deliver(&map, INT64_MAX), DELIVERY_FULL);
    assert_int_equal(offset_map_deliver(&map, -5), DELIVERY_FULL);
    offset_map_finish(&map, INT64_MAX - 1);
    offset_map_finish(&map, INT64_MAX - 2);
    assert_int_equal(map.watermark, INT64_MAX);
    struct error error;
    assert_ok(offset_map_restart(&map, INT64_MAX - 1, TEXT(""), &error), &error);
    assert_int_equal(offset_map_restart(&map, INT64_MAX, TEXT(""), &error), STATUS_REFUSE);
    assert_int_equal(offset_map_restart(&map, -1, TEXT(""), &error), STATUS_REFUSE);
}

// Expected: Python's zlib.crc32 and base64 over the layout that offset_map.h gives.
TEST(the_metadata_has_stable_bytes)
{
    struct buffer buffer = {0};
    deliver(&map, 1000, 1020);
    assert_string_equal(encode_map(&map, &buffer).data, "sheaf1:IPv/BA==");
    offset_map_finish(&map, 1003);
    offset_map_finish(&map, 1010);
    assert_string_equal(encode_map(&map, &buffer).data, "sheaf1:J1eGMQgE");
    buffer_finish(&buffer);
}

static void refused(int64_t offset, struct text metadata, const char *part)
{
    struct offset_map before;
    offset_map_init(&map);
    deliver(&map, 3, 5);
    before = map;
    struct error error;
    assert_int_equal(offset_map_restart(&map, offset, metadata, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, part));
    assert_memory_equal(&map, &before, sizeof map);
}

// A bitmap of `size` bytes whose last byte alone has a bit, with its CRC.
static enum status restart_from(int64_t offset, size_t size)
{
    unsigned char bytes[4 + 8] = {0};
    struct buffer text = {0};
    struct error error;
    bytes[4 + size - 1] = 0x80;
    uint32_t crc = offset_map_crc(offset, bytes + 4, size);
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(crc >> 8 * i);
    buffer_add_string(&text, "sheaf1:");
    base64_encode((struct text){(const char *)bytes, 4 + size}, &text);
    offset_map_init(&map);
    enum status status = offset_map_restart(&map, offset, (struct text){text.data, text.size}, &error);
    if (status == STATUS_OK) {
        assert_true(offset_map_is_finished(&map, offset + 8 * (int64_t)size - 1));
        assert_false(offset_map_is_finished(&map, offset + 8 * (int64_t)size - 2));
    }
    buffer_finish(&text);
    return status;
}

TEST(a_bitmap_ends_with_the_last_offset_that_there_is)
{
    const int64_t end = INT64_MAX - 1; // offsets that may be committed
    for (size_t size = 1; size <= 8; size++) {
        assert_int_equal(restart_from(end - 8 * (int64_t)size, size), STATUS_OK);
        assert_int_equal(restart_from(end - 8 * (int64_t)size + 1, size), STATUS_REFUSE);
    }
    assert_int_equal(restart_from(0, 1), STATUS_OK);
}

TEST(unknown_or_damaged_metadata_is_refused)
{
    struct buffer buffer = {0};
    deliver(&map, 50, 90);
    offset_map_finish(&map, 60);
    offset_map_finish(&map, 71);
    struct text text = encode_map(&map, &buffer);
    refused(51, text, "CRC");
    refused(50, (struct text){text.data, text.size - 4}, "CRC");
    refused(50, (struct text){text.data, text.size - 1}, "base64");
    refused(50, TEXT("sheaf2:AAAA"), "tag");
    refused(50, TEXT("somebody else's"), "tag");
    refused(50, TEXT("sheaf1"), "tag");
    refused(50, TEXT("sheaf1:"), "cut short");
    refused(50, TEXT("sheaf1:AAAA"), "cut short");
    refused(50, TEXT("sheaf1:AAAAAA=="), "CRC");
    for (size_t i = 0; i < text.size * 8; i++) {
        struct offset_map other;
        struct error error;
        buffer.data[i / 8] ^= (char)(1 << i % 8);
        offset_map_init(&other);
        assert_int_equal(offset_map_restart(&other, 50, text, &error), STATUS_REFUSE);
        buffer.data[i / 8] ^= (char)(1 << i % 8);
    }
    char longer[OFFSET_MAP_TEXT_BYTES_MAX + 1];
    memset(longer, 'A', sizeof longer);
    memcpy(longer, "sheaf1:", 7);
    refused(50, (struct text){longer, sizeof longer}, "longer");
    refused(50, (struct text){longer, sizeof longer - 1}, "CRC");
    buffer_finish(&buffer);
}

TEST(empty_metadata_means_that_nothing_above_is_finished)
{
    restart(&map, 40, TEXT(""));
    assert_int_equal(map.watermark, 40);
    assert_int_equal(map.n_finished, 0);
    assert_int_equal(offset_map_deliver(&map, 39), DELIVERY_DONE);
    assert_int_equal(offset_map_deliver(&map, 41), DELIVERY_NEW);
    assert_int_equal(map.watermark, 41);
}

// The model: one byte an offset, everything recomputed each time.
enum { N_OFFSETS = 60000 };
enum { ABSENT, PRESENT, RUNNING, FINISHED };

struct map_model {
    unsigned char *state; // [N_OFFSETS]
    int64_t position;
    int64_t watermark;
};

static void model_advance(struct map_model *model)
{
    while (model->watermark < N_OFFSETS) {
        unsigned char at = model->state[model->watermark];
        if (at == RUNNING || (at != FINISHED && model->watermark >= model->position))
            break;
        model->watermark++;
    }
    if (model->position < model->watermark)
        model->position = model->watermark;
}

static void compare_map(const struct map_model *model, const struct offset_map *tested)
{
    assert_int_equal(tested->watermark, model->watermark);
    assert_int_equal(tested->position, model->position);
    int32_t n_running = 0, n_finished = 0;
    for (int64_t i = model->watermark; i < model->watermark + OFFSET_MAP_WINDOW && i < N_OFFSETS; i++) {
        n_running += model->state[i] == RUNNING;
        n_finished += model->state[i] == FINISHED;
        assert_int_equal(offset_map_is_running(tested, i), model->state[i] == RUNNING);
    }
    assert_int_equal(tested->n_running, n_running);
    assert_int_equal(tested->n_finished, n_finished);
}

// The next offset of the log at or after `position`; the gaps are those of control records and compaction.
static void model_deliver(struct map_model *model, struct offset_map *tested)
{
    int64_t offset = model->position;
    while (offset < N_OFFSETS && model->state[offset] == ABSENT)
        offset++;
    if (offset == N_OFFSETS)
        return;
    if (offset % 2) { // it is known that the gap lost no job
        offset_map_skip(tested, model->position, offset);
        for (int64_t i = model->position; i < offset && i - model->watermark < OFFSET_MAP_WINDOW; i++)
            model->state[i] = FINISHED;
    }
    model->position = offset;
    model_advance(model);
    enum delivery expected = DELIVERY_FULL;
    if (offset < model->watermark) {
        expected = DELIVERY_DONE;
    } else if (offset - model->watermark < OFFSET_MAP_WINDOW) {
        expected = model->state[offset] == PRESENT ? DELIVERY_NEW : DELIVERY_DONE;
        if (expected == DELIVERY_NEW)
            model->state[offset] = RUNNING;
        if (model->position <= offset)
            model->position = offset + 1;
        model_advance(model);
    }
    assert_int_equal(offset_map_deliver(tested, offset), expected);
}

static void model_restart(struct map_model *model, struct offset_map *tested, bool adopt,
                          struct buffer *buffer)
{
    struct offset_map next;
    struct text text = encode_map(tested, buffer);
    int64_t watermark = tested->watermark;
    if (adopt)
        next = *tested;
    else
        offset_map_init(&next);
    restart(&next, watermark, text);
    *tested = next;
    model->position = model->watermark;
    for (int64_t i = model->watermark; i < N_OFFSETS && !adopt; i++)
        if (model->state[i] == RUNNING)
            model->state[i] = PRESENT;
}

static int64_t random_running(const struct map_model *model, uint64_t *seed)
{
    int64_t span = model->position - model->watermark;
    for (int i = 0; i < 50 && span > 0; i++) {
        // Half of the time near the watermark, so that it moves.
        int64_t reach = random_bits(seed) % 2 && span > 40 ? 40 : span;
        int64_t offset = model->watermark + random_bits(seed) % (uint32_t)reach;
        if (model->state[offset] == RUNNING)
            return offset;
    }
    return -1;
}

TEST(random_histories_agree_with_the_model)
{
    for (uint32_t round = 1; round <= 12; round++) {
        uint64_t seed = random_seed(round);
        struct map_model model = {.state = malloc(N_OFFSETS)};
        struct offset_map tested;
        struct buffer buffer = {0};
        uint32_t gap_of = 2 + round * 3;
        for (size_t i = 0; i < N_OFFSETS; i++)
            model.state[i] =
                i >= 20000 && i < 37000 && round % 4 == 0 ? ABSENT : random_bits(&seed) % gap_of > 0;
        offset_map_init(&tested);
        offset_map_restart_empty(&tested, 0);
        for (int i = 0; i < 150000 && model.watermark < N_OFFSETS; i++) {
            uint32_t action = random_bits(&seed) % 1000;
            int64_t offset = action < 520 ? -1 : random_running(&model, &seed);
            if (action < 520) {
                model_deliver(&model, &tested);
            } else if (offset >= 0 && action < 997) {
                model.state[offset] = FINISHED;
                offset_map_finish(&tested, offset);
                model_advance(&model);
            } else if (offset >= 0 && action < 998) {
                model.state[offset] = PRESENT;
                offset_map_release(&tested, offset);
                if (model.position > offset)
                    model.position = offset;
            } else if (action >= 998) {
                model_restart(&model, &tested, action % 2, &buffer);
            }
            if (i % 97 == 0)
                compare_map(&model, &tested);
        }
        compare_map(&model, &tested);
        free(model.state);
        buffer_finish(&buffer);
    }
}

TEST_FIXTURE(begin, NULL);
