// Crash accounting in commits: the suspects of a crash, a change of owner, and hostile texts.
#include "consumer/queue/kafka/suspects.h"
#include "schemas/base/base64.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

enum { ME = 7, OTHER = 8 };

static struct error error;

// The whole metadata of a commit.
static struct buffer commit(struct suspects *suspects, struct offset_map *map, uint64_t owner, bool leaving)
{
    struct buffer text = {0};
    offset_map_encode(map, &text);
    suspects->promised = suspects_encode(suspects, map, owner, leaving, &text);
    suspects_prune(suspects, map);
    assert_false(text.failed);
    assert_true(text.size <= 4096);
    return text;
}

static void take_over(struct suspects *suspects, struct offset_map *map, const struct buffer *text,
                      int64_t offset, uint64_t owner)
{
    struct text metadata = {text->data, text->size};
    assert_ok(offset_map_restart(map, offset, metadata, &error) != STATUS_OK ||
                  suspects_take_over(suspects, offset, metadata, owner, &error),
              &error);
}

// The owner commits and is gone; OTHER takes the partition.
static void crash(struct suspects *suspects, struct offset_map *map, bool leaving)
{
    struct buffer text = commit(suspects, map, ME, leaving);
    take_over(suspects, map, &text, map->watermark, OTHER);
    assert_int_equal(suspects->promised, 0);
    buffer_finish(&text);
}

static struct offset_map map_of(int64_t first, int64_t n)
{
    struct offset_map map;
    offset_map_init(&map);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(offset_map_deliver(&map, first + i), DELIVERY_NEW);
    return map;
}

TEST(a_worker_that_leaves_is_no_crash_and_one_that_dies_makes_its_jobs_suspects)
{
    struct suspects suspects = {0};
    struct offset_map map = map_of(100, 10);
    offset_map_finish(&map, 103);
    crash(&suspects, &map, true);
    for (int64_t offset = 100; offset < 110; offset++)
        assert_int_equal(suspects_crashes(&suspects, offset), 0);
    map = map_of(100, 10);
    crash(&suspects, &map, false);
    assert_int_equal(suspects_crashes(&suspects, 100), 1);
    assert_int_equal(suspects_crashes(&suspects, 110 + SUSPECTS_AHEAD - 1), 1); // it may have read on
    assert_int_equal(suspects_crashes(&suspects, 110 + SUSPECTS_AHEAD), 0);
}

TEST(one_of_few_is_blamed_again_and_the_only_one_takes_the_blame_off_all_others)
{
    struct suspects suspects = {0};
    struct offset_map map = map_of(100, 10);
    crash(&suspects, &map, false);
    map = map_of(100, 10);
    suspects_compute(&suspects, 104, SUSPECT_AMONG_FEW);
    suspects_compute(&suspects, 102, SUSPECT_AMONG_FEW);
    crash(&suspects, &map, false);
    assert_int_equal(suspects_crashes(&suspects, 102), 2);
    assert_int_equal(suspects_crashes(&suspects, 104), 2);
    assert_int_equal(suspects_crashes(&suspects, 103), 1);
    map = map_of(100, 10);
    suspects_rest(&suspects);
    suspects_compute(&suspects, 104, SUSPECT_ALONE);
    crash(&suspects, &map, false);
    assert_int_equal(suspects_crashes(&suspects, 104), 3);
    assert_int_equal(suspects_crashes(&suspects, 102), 2);
    assert_int_equal(suspects_crashes(&suspects, 103), 1);
    // It is finished as a dead letter; the others wait for their turn, also if members leave meanwhile.
    map = map_of(100, 10);
    offset_map_finish(&map, 104);
    crash(&suspects, &map, true);
    assert_int_equal(suspects_crashes(&suspects, 102), 2);
    assert_int_equal(suspects.n_items, 1);
}

// It is known whose fault it was: nobody else becomes a suspect, however far the worker had read.
TEST(a_crash_of_one_alone_makes_no_new_suspects)
{
    struct suspects suspects = {.items = {{.offset = 104, .crashes = 2}}, .n_items = 1};
    struct offset_map map = map_of(100, 10);
    suspects_compute(&suspects, 104, SUSPECT_ALONE);
    crash(&suspects, &map, false);
    assert_int_equal(suspects_crashes(&suspects, 104), 3);
    assert_int_equal(suspects.doubtful, 0);
    for (int64_t offset = 100; offset < 110; offset++)
        assert_int_equal(suspects_crashes(&suspects, offset), offset == 104 ? 3 : 0);
}

TEST(a_suspect_that_rests_is_not_blamed_for_a_later_crash)
{
    struct suspects suspects = {.items = {{.offset = 102, .crashes = 2}, {.offset = 104, .crashes = 2}},
                                .n_items = 2};
    struct offset_map map = map_of(100, 10);
    suspects_compute(&suspects, 102, SUSPECT_AMONG_FEW);
    suspects_rest(&suspects);
    suspects_compute(&suspects, 104, SUSPECT_AMONG_FEW);
    crash(&suspects, &map, false);
    assert_int_equal(suspects_crashes(&suspects, 102), 2);
    assert_int_equal(suspects_crashes(&suspects, 104), 3);
}

TEST(a_crash_takes_no_blame_off_jobs_of_an_earlier_one)
{
    struct suspects suspects = {.doubtful = 9000};
    struct offset_map map = map_of(100, 10);
    crash(&suspects, &map, false); // promised less than the worker before
    assert_int_equal(suspects.doubtful, 9000);
}

TEST(a_suspect_there_is_no_room_for_stays_a_suspect)
{
    enum { LEAST = 103 };
    static const int64_t doubtful[][2] = {
        {0, LEAST + 1}, {LEAST, LEAST + 1}, {LEAST + 1, LEAST + 1}, {9000, 9000}};
    for (size_t i = 0; i < sizeof doubtful / sizeof *doubtful; i++) {
        struct suspects suspects = {.n_items = SUSPECTS_MAX, .doubtful = doubtful[i][0]};
        for (int32_t s = 0; s < SUSPECTS_MAX; s++)
            suspects.items[s] = (struct suspect){.offset = 100 + s, .crashes = 100 + s == LEAST ? 1 : 2};
        suspects_compute(&suspects, 10000, SUSPECT_AMONG_FEW);
        assert_int_equal(suspects.n_items, SUSPECTS_MAX);
        assert_int_equal(suspects.doubtful, doubtful[i][1]);
        assert_int_equal(suspects_crashes(&suspects, LEAST), 1);
        assert_int_equal(suspects_crashes(&suspects, LEAST + 1), 2);
    }
}

TEST(what_is_finished_is_forgotten)
{
    struct suspects suspects = {0};
    struct offset_map map = map_of(0, 10);
    crash(&suspects, &map, false);
    map = map_of(0, 10);
    for (int64_t offset = 0; offset < 10; offset++)
        suspects_compute(&suspects, offset, SUSPECT_AMONG_FEW);
    offset_map_finish(&map, 0);
    offset_map_finish(&map, 5);
    suspects_prune(&suspects, &map);
    assert_int_equal(suspects.n_items, 8);
    for (int64_t offset = 1; offset < 10; offset++)
        if (offset != 5)
            offset_map_finish(&map, offset);
    offset_map_reach(&map, 10 + SUSPECTS_AHEAD);
    suspects_prune(&suspects, &map);
    assert_int_equal(suspects.n_items, 0);
    assert_int_equal(suspects.doubtful, 0);
}

// Metadata that cannot be read counts as that of a worker that computes.
TEST(metadata_says_whether_jobs_were_computed)
{
    for (int leaving = 0; leaving < 2; leaving++) {
        struct suspects suspects = {0};
        struct offset_map map = map_of(10, 5);
        struct buffer text = commit(&suspects, &map, ME, leaving);
        struct text metadata = {text.data, text.size};
        assert_int_equal(suspects_are_computed(10, metadata), !leaving);
        assert_true(suspects_are_computed(11, metadata)); // a wrong CRC
        metadata.size -= 4;
        assert_true(suspects_are_computed(10, metadata));
        buffer_finish(&text);
    }
    assert_false(suspects_are_computed(10, (struct text){0}));
    assert_false(suspects_are_computed(10, text_from_string("no dot")));
}

TEST(what_the_process_said_itself_is_no_crash)
{
    struct suspects suspects = {0};
    struct offset_map map = map_of(0, 10);
    suspects_compute(&suspects, 3, SUSPECT_AMONG_FEW);
    struct buffer text = commit(&suspects, &map, ME, false);
    assert_true(suspects.promised > 0);
    take_over(&suspects, &map, &text, 0, ME);
    assert_int_equal(suspects_crashes(&suspects, 3), 0);
    assert_int_equal(suspects.items[0].state, SUSPECT_AMONG_FEW);
    assert_int_equal(suspects.promised, 0); // the partition was away: to be promised again
    buffer_finish(&text);
}

TEST(offsets_set_by_hand_have_no_suspects)
{
    struct suspects suspects = {.doubtful = 9};
    assert_ok(suspects_take_over(&suspects, 5, (struct text){0}, ME, &error), &error);
    assert_int_equal(suspects.doubtful, 0);
}

TEST(the_fullest_list_fits_a_broker_beside_the_fullest_map)
{
    struct suspects suspects = {0};
    struct offset_map map;
    offset_map_init(&map);
    int64_t first = INT64_C(1) << 40;
    for (int64_t i = 0; i < OFFSET_MAP_WINDOW; i++)
        assert_int_equal(offset_map_deliver(&map, first + i), DELIVERY_NEW);
    for (int64_t i = 1; i < OFFSET_MAP_WINDOW; i++)
        if (i % 64)
            offset_map_finish(&map, first + i);
    for (int round = 0; round < 3; round++) {
        suspects_rest(&suspects);
        for (int64_t i = 0; i < SUSPECTS_MAX; i++)
            suspects_compute(&suspects, first + i * 64, SUSPECT_AMONG_FEW);
        struct buffer text = commit(&suspects, &map, ME, false);
        struct offset_map again;
        offset_map_init(&again);
        take_over(&suspects, &again, &text, first, OTHER);
        buffer_finish(&text);
    }
    assert_int_equal(suspects.n_items, SUSPECTS_MAX);
    for (int64_t i = 0; i < SUSPECTS_MAX; i++)
        assert_int_equal(suspects_crashes(&suspects, first + i * 64), 3);
    // One more takes the place of one with as few crashes as any: that one is a suspect still.
    suspects_compute(&suspects, first + 1, SUSPECT_AMONG_FEW);
    assert_int_equal(suspects.n_items, SUSPECTS_MAX);
    assert_int_equal(suspects_crashes(&suspects, first), 1);
}

TEST(crashes_are_counted_to_a_limit)
{
    struct suspects suspects = {0};
    for (int i = 0; i < SUSPECT_CRASHES_MAX + 5; i++) {
        struct offset_map map = map_of(0, 1);
        suspects_compute(&suspects, 0, SUSPECT_ALONE);
        crash(&suspects, &map, false);
        assert_int_equal(suspects_crashes(&suspects, 0),
                         i + 1 < SUSPECT_CRASHES_MAX ? i + 1 : SUSPECT_CRASHES_MAX);
    }
}

TEST(a_damaged_text_is_refused_and_changes_nothing)
{
    struct suspects suspects = {0};
    struct offset_map map = map_of(50, 20);
    for (int64_t offset = 50; offset < 70; offset += 3)
        suspects_compute(&suspects, offset, SUSPECT_AMONG_FEW);
    struct buffer text = commit(&suspects, &map, OTHER, false);
    size_t dot = (size_t)((char *)memchr(text.data, '.', text.size) - text.data);
    struct suspects before = {.doubtful = 77};
    for (size_t i = dot; i < text.size; i++) { // each byte damaged, and each end cut off
        char *copy = malloc(text.size);
        memcpy(copy, text.data, text.size);
        copy[i] ^= i == dot ? 0x01 : 0x05;
        struct suspects taken = before;
        enum status damaged = suspects_take_over(&taken, 50, (struct text){copy, text.size}, ME, &error);
        if (i == dot)
            assert_int_equal(damaged, STATUS_OK); // no list at all, and no offset map either
        else
            assert_int_equal(damaged, STATUS_REFUSE);
        taken = before;
        if (i > dot)
            assert_int_equal(suspects_take_over(&taken, 50, (struct text){text.data, i}, ME, &error),
                             STATUS_REFUSE);
        free(copy);
    }
    struct suspects taken = before;
    // Of another offset.
    assert_int_equal(suspects_take_over(&taken, 51, (struct text){text.data, text.size}, ME, &error),
                     STATUS_REFUSE);
    assert_int_equal(taken.doubtful, 77);
    assert_non_null(strstr(error.text, "suspects"));
    // Any bytes after a correct CRC are read without harm.
    uint64_t random_state = random_seed(20240815);
    for (int round = 0; round < 20000; round++) {
        unsigned char bytes[4 + 64];
        size_t size = 0;
        size_t n = random_below(&random_state, 64);
        for (; size < n; size++) {
            bytes[4 + size] =
                (unsigned char)random_below(&random_state, random_below(&random_state, 2) ? 256 : 4);
        }
        uint32_t crc = offset_map_crc(50, bytes + 4, size);
        for (int i = 0; i < 4; i++)
            bytes[i] = (unsigned char)(crc >> 8 * i);
        struct buffer hostile = {0};
        buffer_add_string(&hostile, "sheaf1:.S1:");
        base64_encode((struct text){(const char *)bytes, 4 + size}, &hostile);
        taken = before;
        if (suspects_take_over(&taken, 50, (struct text){hostile.data, hostile.size}, ME, &error) ==
            STATUS_OK)
            assert_in_range(taken.n_items, 0, SUSPECTS_MAX);
        else
            assert_int_equal(taken.doubtful, 77);
        buffer_finish(&hostile);
    }
    buffer_finish(&text);
}

static size_t add_varint(unsigned char *bytes, size_t size, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        bytes[size++] = (unsigned char)(value | 0x80);
    bytes[size++] = (unsigned char)value;
    return size;
}

// Takes over a list that another process committed while it computed, with any numbers.
static enum status take_over_numbers(struct suspects *suspects, int64_t offset, uint64_t promised,
                                     uint64_t doubtful, unsigned flags)
{
    unsigned char bytes[64] = {0}; // room for the CRC, then an owner's eight bytes
    size_t size = 4 + 8;
    bytes[4] = OTHER;
    bytes[size++] = (unsigned char)flags;
    size = add_varint(bytes, size, promised);
    size = add_varint(bytes, size, doubtful);
    bytes[size++] = 0; // no items
    uint32_t crc = offset_map_crc(offset, bytes + 4, size - 4);
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(crc >> 8 * i);
    struct buffer text = {0};
    buffer_add_string(&text, "sheaf1:.S1:");
    base64_encode((struct text){(const char *)bytes, size}, &text);
    enum status status =
        suspects_take_over(suspects, offset, (struct text){text.data, text.size}, ME, &error);
    buffer_finish(&text);
    return status;
}

TEST(numbers_of_a_list_are_taken_up_to_their_limits)
{
    const int64_t last = INT64_MAX / 2; // no later offset is ever promised or doubtful
    const int64_t offsets[] = {0, 50, INT64_MAX / 4};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const uint64_t room = (uint64_t)(last - offsets[i]);
        struct suspects suspects = {0};
        assert_int_equal(take_over_numbers(&suspects, offsets[i], room, 0, 1), STATUS_OK);
        assert_true(suspects.doubtful == last);
        assert_int_equal(take_over_numbers(&suspects, offsets[i], 0, room, 0), STATUS_OK);
        assert_true(suspects.doubtful == last);
        assert_int_equal(take_over_numbers(&suspects, offsets[i], 0, 1, 0), STATUS_OK);
        assert_true(suspects.doubtful == offsets[i] + 1);
        assert_int_equal(take_over_numbers(&suspects, offsets[i], room + 1, 0, 1), STATUS_REFUSE);
        assert_int_equal(take_over_numbers(&suspects, offsets[i], 0, room + 1, 0), STATUS_REFUSE);
        assert_int_equal(take_over_numbers(&suspects, offsets[i], 0, 0, 2), STATUS_REFUSE);
        assert_int_equal(take_over_numbers(&suspects, offsets[i], INT64_MAX, 0, 1), STATUS_REFUSE);
        assert_true(suspects.doubtful == offsets[i] + 1);
    }
    struct suspects suspects = {0};
    assert_int_equal(take_over_numbers(&suspects, INT64_MAX / 4 + 1, 1, 1, 1), STATUS_REFUSE);
}

// Truncated, with a correct CRC of the rest; also if only the flags of our own list are missing.
TEST(a_list_that_ends_early_is_refused)
{
    for (size_t size = 0; size < 12; size++) {
        unsigned char bytes[4 + 12] = {[4] = ME};
        uint32_t crc = offset_map_crc(50, bytes + 4, size);
        for (int i = 0; i < 4; i++)
            bytes[i] = (unsigned char)(crc >> 8 * i);
        struct buffer text = {0};
        buffer_add_string(&text, "sheaf1:.S1:");
        base64_encode((struct text){(const char *)bytes, 4 + size}, &text);
        struct suspects suspects = {.doubtful = 77};
        assert_int_equal(suspects_take_over(&suspects, 50, (struct text){text.data, text.size}, ME, &error),
                         STATUS_REFUSE);
        assert_int_equal(suspects.doubtful, 77);
        buffer_finish(&text);
    }
}
