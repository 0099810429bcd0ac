// Another fleet with this worker's group (consumer/queue/kafka/kafka_fleet.c).
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <stdio.h>

enum { RANDOM = 0x1234567 };

static struct kafka_transport kafka;
static struct kafka_config config;
static char warnings[2048];

static void take_line(void *context, int level, const char *line)
{
    assert_int_equal(level, 4);
    assert_true(strlen(warnings) + strlen(line) + 2 < sizeof warnings);
    strcat(strcat(warnings, line), "\n");
}

static int begin(void **state)
{
    memset(&kafka, 0, sizeof kafka);
    config = (struct kafka_config){.topics = {.jobs = "jobs", .results = "ours"},
                                   .group.name = "workers",
                                   .log = take_line};
    kafka.config = &config;
    warnings[0] = '\0';
    return 0;
}

// Compares with the commit of a process with this id; 0: of one that computed nothing.
static void compare_with(uint64_t owner)
{
    struct buffer text = {0};
    struct offset_map map;
    struct suspects suspects = {0};
    offset_map_init(&map);
    offset_map_restart_empty(&map, 20);
    offset_map_encode(&map, &text);
    if (owner)
        (void)suspects_encode(&suspects, &map, owner, true, &text);
    rd_kafka_topic_partition_t committed = {
        .topic = "jobs", .partition = 3, .offset = 20, .metadata = text.data, .metadata_size = text.size};
    kafka_fleet_compare(&kafka, &committed);
    buffer_finish(&text);
}

TEST(a_worker_with_another_results_topic_is_named_once)
{
    struct kafka_config other = config;
    other.topics.results = "theirs";
    compare_with(kafka_fleet_owner(&other, RANDOM));
    assert_non_null(strstr(warnings, "group workers: the last worker of partition 3 of topic jobs"));
    assert_non_null(strstr(warnings, "another topic than ours"));
    size_t size = strlen(warnings);
    compare_with(kafka_fleet_owner(&other, RANDOM + 1));
    assert_int_equal(strlen(warnings), size);
}

TEST(workers_of_this_fleet_of_older_versions_and_none_are_not)
{
    compare_with(kafka_fleet_owner(&config, RANDOM));
    compare_with(UINT64_C(0x123456789abcdef0)); // random throughout
    compare_with(0);
    assert_string_equal(warnings, "");
}

TEST(ids_of_two_processes_differ)
{
    assert_true(kafka_fleet_owner(&config, RANDOM) != kafka_fleet_owner(&config, RANDOM + 1));
}

TEST_FIXTURE(begin, NULL);
