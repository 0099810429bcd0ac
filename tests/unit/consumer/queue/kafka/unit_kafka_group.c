// Partitions that are paused, rewound, begun and given away (consumer/queue/kafka/kafka_group.c).
#include "tests/unit/consumer/queue/kafka/group_script.h"

// ---- steering ----

TEST(a_full_partition_is_paused_once_and_resumed_once)
{
    struct partition *partition = own(0, 100);
    own(1, 0);
    own(3, 5);
    partition->map.position = 100 + OFFSET_MAP_WINDOW;
    assert_true(offset_map_is_full(&partition->map));
    kafka_steer_partitions(&kafka);
    expect("pause 0");
    assert_int_equal(partition->fetching.moved_ms, START_MS);
    world.now_ms++;
    kafka_steer_partitions(&kafka);
    expect("");
    assert_int_equal(partition->fetching.moved_ms, START_MS);
    partition->map.position--;
    kafka_steer_partitions(&kafka);
    expect("resume 0");
    kafka_steer_partitions(&kafka);
    expect("");
    assert_int_equal(kafka.figures.n_pauses, 1);
    assert_int_equal(kafka.figures.n_resumes, 1);
    partition->owned = false;
    partition->map.position++;
    partition->fetching.rewind = true;
    kafka_steer_partitions(&kafka);
    expect("");
}

TEST(a_partition_whose_unreadable_batch_waits_is_paused)
{
    struct partition *partition = own(0, 100);
    partition->stall.skip.is_waiting = true;
    kafka_steer_partitions(&kafka);
    expect("pause 0");
    partition->stall.skip.is_waiting = false;
    kafka_steer_partitions(&kafka);
    expect("resume 0");
}

TEST(a_partition_is_rewound_until_it_works)
{
    struct partition *partition = own(1, 100);
    partition->map.position = 105;
    partition->fetching.rewind = partition->fetching.at_end = true;
    world.seek_code = RD_KAFKA_RESP_ERR__STATE;
    kafka_steer_partitions(&kafka);
    expect("seek 1@105");
    assert_true(partition->fetching.rewind && partition->fetching.at_end);
    world.seek_code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.seek_fails = true;
    kafka_steer_partitions(&kafka);
    expect("seek 1@105");
    assert_int_equal(kafka.figures.n_rewinds, 0);
    world.seek_fails = false;
    kafka_steer_partitions(&kafka);
    expect("seek 1@105");
    assert_false(partition->fetching.rewind || partition->fetching.at_end);
    assert_int_equal(kafka.figures.n_rewinds, 1);
    kafka_steer_partitions(&kafka);
    expect("");
    partition->map.position = 100 + OFFSET_MAP_WINDOW; // full: later
    partition->fetching.rewind = true;
    kafka_steer_partitions(&kafka);
    expect("pause 1");
    assert_true(partition->fetching.rewind);
    offset_map_init(&partition->map); // nothing was delivered
    kafka_steer_partitions(&kafka);
    expect("resume 1");
    assert_false(partition->fetching.rewind);
}

TEST(redelivery_is_from_the_watermark)
{
    struct partition *partition = own(1, 100);
    partition->map.position = 105;
    world.redelivers = true;
    kafka_steer_partitions(&kafka);
    expect("seek 1@100");
    partition->map.position = 100 + OFFSET_MAP_WINDOW;
    kafka_steer_partitions(&kafka);
    expect("pause 1");
}

// ---- partitions come ----

static enum status begin_assigned(const char *ids)
{
    if (kafka.group.assigned)
        rd_kafka_topic_partition_list_destroy(kafka.group.assigned);
    kafka.group.assigned = list_of(ids);
    for (int i = 0; i < kafka.group.assigned->cnt; i++)
        kafka.group.assigned->elems[i].offset = 0;
    buffer_clear(&world.calls);
    return kafka_begin_assigned(&kafka, 6000, &error);
}

TEST(partitions_are_begun_at_their_committed_offsets)
{
    struct offset_map map;
    struct buffer text = {0};
    offset_map_init(&map);
    offset_map_restart_empty(&map, 100);
    for (int i = 0; i < 3; i++)
        assert_int_equal(offset_map_deliver(&map, 100 + i), DELIVERY_NEW);
    offset_map_finish(&map, 101);
    offset_map_encode(&map, &text);
    world.partitions[0].offset = 100;
    world.partitions[0].end = 100; // all of it is read
    world.partitions[0].metadata = text.data;
    world.partitions[3].offset = 0;
    struct partition *partition = own(0, 1);
    partition->owned = false;
    partition->fetching =
        (struct fetching){.paused = true, .rewind = true, .was_rewound = true, .at_end = true};
    partition->unsaved = partition->leaving = true;
    partition->gaps.n_items = 2;
    assert_int_equal(begin_assigned("013"), STATUS_OK);
    expect("resolve; confirm; read 0 1 3; ends; look at 0; look at 3; apart 0; forward; apart 1; forward; "
           "apart 3; assign 0@100 1@-1001 3@0; member; claimed");
    assert_null(kafka.group.assigned);
    assert_int_equal(kafka.figures.n_rebalances, 1);
    assert_true(partition->owned && partition_of(1)->owned && partition_of(3)->owned);
    assert_int_equal(partition->committed, 100);
    assert_true(offset_map_is_finished(&partition->map, 101));
    assert_int_equal(partition->fetching.end, -1);
    assert_false(partition->fetching.paused || partition->fetching.rewind ||
                 partition->fetching.was_rewound || partition->fetching.at_end || partition->unsaved ||
                 partition->leaving);
    assert_int_equal(partition->gaps.n_items, 0);
    assert_int_equal(partition->fetching.moved_ms, START_MS);
    assert_int_equal(partition_of(1)->committed, -1);
    assert_int_equal(partition_of(3)->committed, 0);
    assert_int_equal(partition_of(3)->map.watermark, 0);
    assert_int_equal(partition_of(1)->map.watermark, OFFSET_UNKNOWN);
    buffer_finish(&text);
}

TEST(a_member_of_a_cooperative_group_adds_its_partitions)
{
    world.is_cooperative = true;
    world.partitions[2].offset = 7;
    assert_int_equal(begin_assigned("2"), STATUS_OK);
    expect("resolve; confirm; read 2; ends; look at 2; apart 2; forward; add 2@7; member; claimed");
    assert_int_equal(begin_assigned(""), STATUS_OK);
    expect("resolve; confirm; add -; member; claimed"); // it has what it had
}

// Released and delivered again, before anything was committed.
TEST(a_partition_without_a_commit_goes_on_where_it_was)
{
    struct partition *partition = own(1, 50);
    partition->committed = -1;
    partition->suspects.doubtful = 77;
    assert_int_equal(offset_map_deliver(&partition->map, 50), DELIVERY_NEW);
    assert_int_equal(offset_map_deliver(&partition->map, 51), DELIVERY_NEW);
    offset_map_finish(&partition->map, 50);
    assert_int_equal(begin_assigned("1"), STATUS_OK);
    assert_int_equal(partition->map.position, 51);
    assert_int_equal(partition->suspects.doubtful, 0);
    expect("resolve; confirm; read 1; ends; apart 1; forward; assign 1@51; member; claimed");
}

TEST(a_partition_that_lost_its_commit_ends_the_worker)
{
    own(1, 0);
    assert_int_equal(begin_assigned("1"), STATUS_RESTART);
    assert_non_null(strstr(error.text, "partition 1 had the committed offset 0 and has none"));
    assert_int_equal(kafka.stopped.status, STATUS_RESTART);
    expect("resolve; confirm; read 1; ends");
}

TEST(an_offset_beyond_the_end_is_of_another_topic)
{
    world.partitions[1].offset = 11;
    world.partitions[1].end = 10;
    assert_int_equal(begin_assigned("01"), STATUS_REFUSE);
    assert_string_equal(error.text,
                        "group workers committed offset 11 of topic jobs partition 1, which ends at 10: was"
                        " it recreated? Reset the group's offsets (kafka-consumer-groups --reset-offsets)");
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_null(partition_find(&kafka.partitions, 0)); // nothing was begun
    kafka.stopped = (struct error){0};
    assert_int_equal(begin_assigned("10"), STATUS_REFUSE); // as the first, too
    world.partitions[1].end = 11;
    kafka.stopped = (struct error){0};
    assert_int_equal(begin_assigned("10"), STATUS_OK);
}

TEST(what_fails_for_now_is_tried_again)
{
    static const char *const calls[] = {NULL, "resolve", "resolve; confirm", "resolve; confirm; read 1",
                                        "resolve; confirm; read 1; ends"};
    world.step_ms = 1000;
    for (int which = RESOLVE; which <= ENDS; which++) {
        world.fails = which;
        world.now_ms = START_MS;
        assert_int_equal(begin_assigned("1"), STATUS_RETRY);
        expect(calls[which]);
        assert_int_equal(world.timeout_ms[which], 6000 - 1000 * (which - 1));
        assert_non_null(kafka.group.assigned);
        assert_int_equal(kafka.stopped.status, STATUS_OK);
        assert_int_equal(kafka.figures.n_rebalances, 0);
    }
    assert_non_null(strstr(error.text, "reading the ends of partitions"));
    world.status = STATUS_REFUSE;
    world.fails = READ;
    assert_int_equal(begin_assigned("1"), STATUS_REFUSE);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
}

TEST(partitions_that_are_not_taken_end_the_worker)
{
    world.fails = ASSIGN;
    for (int i = 0; i < 2; i++) {
        world.is_cooperative = i == 1;
        kafka.stopped = (struct error){0};
        assert_int_equal(begin_assigned("1"), STATUS_RESTART);
        assert_non_null(strstr(error.text, "taking partitions"));
        assert_int_equal(kafka.stopped.status, STATUS_RESTART);
        assert_false(partition_of(1)->owned);
    }
}

TEST(committed_maps_are_checked_before_joining)
{
    world.n_partitions = 3;
    world.partitions[2].offset = 9;
    assert_ok(kafka_check_committed(&kafka, 700, &error), &error);
    expect("read 0 1 2");
    assert_int_equal(world.timeout_ms[READ], 700);
    assert_int_equal(world.timeout_ms[FIND], KAFKA_START_TIMEOUT_MS);
    for (int i = 0; i < 3; i++) {
        world.partitions[i].offset = 9;
        world.partitions[i].metadata = "of another program";
        assert_int_equal(kafka_check_committed(&kafka, 700, &error), STATUS_REFUSE);
        world.partitions[i].offset = RD_KAFKA_OFFSET_INVALID; // it has none
        assert_ok(kafka_check_committed(&kafka, 700, &error), &error);
    }
    world.n_partitions = 0;
    buffer_clear(&world.calls);
    assert_ok(kafka_check_committed(&kafka, 700, &error), &error);
    expect("");
    world.n_partitions = 1;
    for (int i = 0; i < 2; i++) {
        world.fails = i == 0 ? FIND : READ;
        assert_int_equal(kafka_check_committed(&kafka, 700, &error), STATUS_RETRY);
    }
}

// ---- partitions go ----

TEST(an_assignment_is_answered_at_once_and_taken_later)
{
    own(2, 5)->fetching.paused = true;
    be_member();
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "01");
    expect("resume 2; assign -");
    assert_false(partition_of(2)->owned);
    assert_null(kafka.group.membership);
    assert_non_null(kafka.group.coming);
    assert_int_equal(kafka.group.assigned->cnt, 2);
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "1"); // another one before that was taken
    expect("assign -");
    assert_string_equal(ids_of(kafka.group.assigned), "1");
}

TEST(a_cooperative_assignment_is_added)
{
    world.is_cooperative = true;
    own(2, 5);
    be_member();
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "01");
    expect("add -");
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "13");
    expect("add -");
    assert_string_equal(ids_of(kafka.group.assigned), "0 1 3");
    assert_true(partition_of(2)->owned);
    assert_non_null(kafka.group.membership);
    world.fails = ASSIGN; // of no consequence here
    rebalance(RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, "");
    assert_string_equal(ids_of(kafka.group.assigned), "0 1 3");
}

TEST(finished_jobs_are_committed_before_partitions_go)
{
    struct partition *partition = own(1, 5);
    partition->fetching.at_end = partition->fetching.rewind = partition->fetching.paused = true;
    own(2, 5);
    be_member();
    kafka.group.assigned = list_of("3");
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "13");
    expect("mark 1 3; revoke; say; gaps; resolve; resume 1; assign NULL");
    assert_int_equal(world.timeout_ms[RESOLVE], REVOKE_MS);
    assert_false(partition->owned || partition->fetching.at_end || partition->fetching.rewind);
    assert_true(partition_of(2)->owned); // is none of them
    assert_true(kafka.group.has_lost);
    assert_null(kafka.group.assigned);
    assert_null(kafka.group.membership);
}

TEST(a_stopped_worker_explains_nothing_and_one_without_events_asks_nobody)
{
    own(1, 5);
    kafka.stopped.status = STATUS_RESTART;
    kafka.intake.events = NULL; // outside of poll
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "1");
    expect("mark 1; say; resolve; assign NULL");
    world.is_lost = true;
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "1");
    expect("resolve; assign NULL");
}

TEST(of_lost_partitions_nothing_is_said)
{
    for (int i = 0; i < 2; i++) {
        world.is_cooperative = i == 1;
        world.is_lost = true;
        world.is_assigned[1] = true;
        own(1, 5);
        be_member();
        rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "1");
        expect(i == 0 ? "resolve; assign NULL; slot joining" : "resolve; remove 1; slot joining");
        assert_null(kafka.group.membership);
    }
}

TEST(a_cooperative_member_gives_what_is_listed)
{
    world.is_cooperative = true;
    own(1, 5);
    own(2, 5);
    world.is_assigned[1] = world.is_assigned[2] = true;
    be_member();
    kafka.group.assigned = list_of("03");
    kafka.group.coming = rd_kafka_consumer_group_metadata_new("workers");
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "13"); // 3 is not taken yet
    expect("confirm revoked 1 3; mark 1 3; revoke; say; gaps; resolve; remove 1");
    assert_false(partition_of(1)->owned);
    assert_true(partition_of(2)->owned);
    assert_non_null(kafka.group.membership);
    assert_string_equal(ids_of(kafka.group.assigned), "0");
    assert_non_null(kafka.group.coming);
    world.fails = ASSIGN;
    rebalance(RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS, "0");
    assert_null(kafka.group.assigned);
    assert_null(kafka.group.coming);
}

TEST(lost_jobs_are_reported_once_the_group_is_known)
{
    static const struct transport_events none = {.context = &world};
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        if (i == 1)
            continue;
        struct partition *partition = own(i, 5);
        partition->owned = i == 2;
        assert_int_equal(offset_map_deliver(&partition->map, 5), DELIVERY_NEW);
    }
    kafka_report_lost(&kafka);
    expect(""); // nothing was lost since
    kafka.group.has_lost = true;
    kafka_report_lost(&kafka);
    expect(""); // no member
    be_member();
    kafka.group.assigned = list_of("1");
    kafka_report_lost(&kafka);
    expect("");
    rd_kafka_topic_partition_list_destroy(kafka.group.assigned);
    kafka.group.assigned = NULL;
    kafka.intake.events = &none;
    kafka_report_lost(&kafka);
    kafka.intake.events = &events;
    kafka_report_lost(&kafka);
    expect("lost 0; lost 3");
    kafka_report_lost(&kafka);
    expect("");
    kafka.group.has_lost = true;
    offset_map_finish(&partition_of(0)->map, 5); // nothing runs
    partition_of(3)->owned = true;
    kafka_report_lost(&kafka);
    expect("");
    assert_false(kafka.group.has_lost);
}

TEST_FIXTURE(begin, end);
