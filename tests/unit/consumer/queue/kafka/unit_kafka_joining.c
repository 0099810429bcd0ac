// Joining, rejoining and leaving the group (consumer/queue/kafka/kafka_group.c).
#include "tests/unit/consumer/queue/kafka/group_script.h"

// ---- joining ----

TEST(a_consumer_wakes_the_worker_and_has_its_time)
{
    static const struct kafka_property interval = {"max.poll.interval.ms", "70000"};
    static const struct kafka_property wrong = {"no.such.property", "1"};
    kafka.intake.records = NULL;
    kafka.clients.consumer.owner = NULL;
    assert_ok(kafka_group_open(&kafka, &error), &error);
    expect("open; wake 1; wake 2");
    assert_ptr_equal(kafka.intake.records, &queues[2]);
    assert_true(kafka.outside.timeout_ms > 0 && kafka.outside.timeout_ms % 3 == 0);
    config.properties = &interval;
    config.n_properties = 1;
    assert_ok(kafka_group_open(&kafka, &error), &error);
    assert_int_equal(kafka.outside.timeout_ms, 210000);
    config.group.membership_timeout_ms = 5;
    assert_ok(kafka_group_open(&kafka, &error), &error);
    assert_int_equal(kafka.outside.timeout_ms, 5);
    config.properties = &wrong;
    assert_int_equal(kafka_group_open(&kafka, &error), STATUS_REFUSE);
    config.n_properties = 0;
    world.fails = OPEN;
    buffer_clear(&world.calls);
    assert_int_equal(kafka_group_open(&kafka, &error), STATUS_RETRY);
    expect("open");
    kafka_group_drop_records(&kafka);
    expect("destroy");
    kafka_group_drop_records(&kafka);
    expect("");
}

TEST(a_member_says_in_its_slot_that_it_joins)
{
    assert_ok(kafka_group_join(&kafka, &error), &error);
    expect("slot joining; subscribe");
    assert_true(kafka.group.subscribed);
    kafka.group.subscribed = false;
    world.fails = SUBSCRIBE;
    assert_int_equal(kafka_group_join(&kafka, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "joining the group"));
    assert_false(kafka.group.subscribed);
}

TEST(a_new_consumer_forgets_the_group_and_keeps_the_maps)
{
    struct partition *partition = own(0, 5);
    own(2, 5);
    partition->fetching.paused = partition->fetching.at_end = partition->fetching.rewind = true;
    be_member();
    kafka.group.assigned = list_of("2");
    kafka.group.coming = rd_kafka_consumer_group_metadata_new("workers");
    kafka.group.subscribed = kafka.watch.is_stuck = true;
    assert_ok(kafka_group_renew(&kafka, &error), &error);
    expect("destroy; close; open; wake 1; wake 2");
    assert_false(kafka.watch.is_stuck || kafka.group.subscribed);
    assert_true(kafka.group.has_lost);
    assert_null(kafka.group.assigned);
    assert_null(kafka.group.coming);
    assert_null(kafka.group.membership);
    assert_false(partition->owned || partition->fetching.paused || partition->fetching.at_end ||
                 partition->fetching.rewind || partition_of(2)->owned);
    assert_int_equal(partition->map.watermark, 5);
    assert_int_equal(kafka.figures.n_rejoins, 1);
    world.fails = OPEN;
    assert_int_equal(kafka_group_renew(&kafka, &error), STATUS_RETRY);
    assert_int_equal(kafka.stopped.status, STATUS_RETRY);
}

TEST(a_member_that_is_expelled_twice_in_a_minute_has_a_namesake)
{
    kafka.group.is_expelled = true;
    assert_ok(kafka_group_rejoin(&kafka, &error), &error);
    assert_int_equal(world.timeout_ms[CHECK_ID], 5000);
    assert_false(kafka.group.is_expelled);
    assert_int_equal(kafka.group.rejoined_ms, START_MS);
    buffer_clear(&world.calls);
    world.now_ms += 60000;
    assert_ok(kafka_group_rejoin(&kafka, &error), &error);
    expect("check id; destroy; close; open; wake 1; wake 2");
    world.now_ms += 59999;
    assert_int_equal(kafka_group_rejoin(&kafka, &error), STATUS_RESTART);
    assert_non_null(strstr(error.text, "for the second time within a minute"));
    expect("slot fenced");
}

TEST(a_member_whose_id_is_taken_ends_and_one_without_an_answer_goes_on)
{
    world.fails = CHECK_ID;
    assert_ok(kafka_group_rejoin(&kafka, &error), &error);
    assert_int_equal(kafka.figures.n_rejoins, 1);
    world.now_ms += 60000;
    world.status = STATUS_RESTART;
    assert_int_equal(kafka_group_rejoin(&kafka, &error), STATUS_RESTART);
    assert_int_equal(kafka.figures.n_rejoins, 1);
}

// ---- leaving ----

TEST(all_events_are_answered_before_the_group_closes)
{
    world.n_messages = 2;
    world.regroups = true;
    kafka_group_leave(&kafka, false, START_MS + 1000);
    expect("unsubscribe; poll; poll; poll; poll; close group; await; destroy");
    world.n_events = 2;
    world.events[1] = RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS;
    event_list = list_of("1");
    own(1, 5);
    kafka_group_leave(&kafka, false, world.now_ms + 1000);
    expect("unsubscribe; poll; close group; await; mark 1; revoke; say; gaps; resolve; assign NULL; await; "
           "await; destroy");
    assert_false(partition_of(1)->owned);
    rd_kafka_topic_partition_list_destroy(event_list);
}

TEST(leaving_has_a_deadline)
{
    world.n_messages = 100;
    world.step_ms = 400;
    kafka_group_leave(&kafka, false, START_MS + 1000);
    expect("unsubscribe; poll; poll; poll; close group; destroy");
    world.n_messages = 0;
    world.step_ms = 0;
    world.never_closes = true;
    kafka_group_leave(&kafka, false, world.now_ms + 100);
    expect("unsubscribe; poll; close group; await; await; destroy");
    world.has_no_closing = true;
    kafka_group_leave(&kafka, false, world.now_ms + 100);
    expect("unsubscribe; poll; close group; destroy");
}

// Also a static one: librdkafka sends no LeaveGroup for it once its close has begun.
TEST(a_member_has_left_before_the_group_closes)
{
    kafka.group.subscribed = true;
    world.n_polls_to_leave = 3;
    kafka_group_leave(&kafka, true, START_MS + 1000);
    expect("unsubscribe; poll; poll; poll; close group; await; destroy");
    world.n_polls_to_leave = 100;
    world.step_ms = 400;
    kafka_group_leave(&kafka, true, world.now_ms + 1000);
    expect("unsubscribe; poll; poll; poll; close group; destroy");
    world.n_polls_to_leave = 100;
    world.step_ms = 0;
    kafka_group_leave(&kafka, false, world.now_ms + 1000); // no broker would take the request
    expect("unsubscribe; poll; close group; destroy");
    config.group.protocol = GROUP_PROTOCOL_CONSUMER; // keeps its id
    kafka_group_leave(&kafka, true, world.now_ms + 1000);
    expect("unsubscribe; poll; close group; destroy");
}

TEST(a_member_that_leaves_while_it_joins_waits_for_its_id)
{
    kafka.group.subscribed = true;
    world.n_polls_to_id = 2;
    kafka_group_leave(&kafka, true, START_MS + 10000);
    expect("poll; poll; unsubscribe; poll; close group; await; destroy");
    world.is_leaving = false;
    world.n_polls_to_id = 100;
    world.step_ms = 2000;
    kafka_group_leave(&kafka, true, world.now_ms + 10000);
    expect("poll; poll; poll; unsubscribe; poll; close group; destroy");
    world.is_leaving = false;
    world.n_polls_to_id = 100;
    world.n_messages = 1; // the group refuses it
    world.message_code = RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL;
    world.step_ms = 0;
    kafka_group_leave(&kafka, true, world.now_ms + 10000);
    expect("poll; unsubscribe; poll; close group; destroy");
}

TEST_FIXTURE(begin, end);
