// Commits: which jobs are published, and what is sent with them (consumer/queue/kafka/kafka_transaction.c).
#include "tests/unit/consumer/queue/kafka/transaction_script.h"

// ---- what is published ----

TEST(jobs_are_published_with_the_maps_of_their_partitions)
{
    char bytes[sizeof world.sent_as];
    size_t size;
    own_partition(3); // nothing of it is finished
    for (int i = 3; i <= 40; i++)
        assert_int_equal(offset_map_deliver(&partition_of(1)->map, FIRST + i), DELIVERY_NEW);
    jobs[2]->source.offset = FIRST + 40;
    assert_int_equal(commit_jobs(1, 3), STATUS_OK);
    assert_string_equal(world.steps, "mnb(012-o=c)");
    assert_committed("1111");
    assert_int_equal(world.sent->cnt, 2);
    write_group(kafka.group.membership, bytes, &size);
    assert_int_equal(world.sent_as_size, size);
    assert_memory_equal(world.sent_as, bytes, size);
    assert_sent(0, 1, FIRST, FIRST + 41, "01000000000000000000000000000000000000001");
    assert_sent(1, 2, FIRST + 1, FIRST + 3, "1000");
    assert_int_equal(partition_of(1)->committed, FIRST);
    assert_int_equal(partition_of(2)->committed, FIRST + 1);
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    assert_true(offset_map_is_finished(&partition_of(1)->map, FIRST + 40));
    assert_true(offset_map_is_finished(&partition_of(2)->map, FIRST));
    assert_int_equal(partition_of(2)->suspects.promised, FIRST + 3 + SUSPECTS_AHEAD);
    assert_int_equal(partition_of(3)->suspects.promised, 0);
    assert_int_equal(kafka.figures.n_commits, 1);
    assert_int_equal(kafka.figures.n_aborts + kafka.figures.n_dropped, 0);
    assert_int_equal(kafka.figures.map_bytes_max, world.sent->elems[0].metadata_size);
    assert_true(world.sent->elems[0].metadata_size > world.sent->elems[1].metadata_size);
    assert_no_transaction();
}

TEST(finished_suspects_are_forgotten_and_others_are_saved)
{
    struct partition *partition = partition_of(1);
    suspects_compute(&partition->suspects, FIRST, SUSPECT_ALONE);
    suspects_compute(&partition->suspects, FIRST + 1, SUSPECT_AMONG_FEW);
    partition->unsaved = true;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_false(partition->unsaved);
    assert_int_equal(partition->suspects.n_items, 1);
    assert_int_equal(partition->suspects.items[0].offset, FIRST + 1);
}

TEST(a_state_to_save_is_committed_without_jobs)
{
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "m");
    partition_of(2)->unsaved = true;
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "mnb(-o=c)");
    assert_int_equal(world.sent->cnt, 1);
    assert_sent(0, 2, FIRST, FIRST + 3, "000");
    assert_false(partition_of(2)->unsaved);
    partition_of(1)->committed = FIRST - 1; // the watermark has passed offsets that are no records
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_int_equal(world.sent->elems[0].partition, 1);
    partition_of(1)->committed = FIRST - 1;
    partition_of(1)->owned = false;
    offset_map_init(&partition_of(2)->map); // nothing was delivered yet
    partition_of(2)->unsaved = true;
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "m");
}

TEST(explained_gaps_are_committed_without_jobs)
{
    struct partition *partition = partition_of(2);
    assert_int_equal(offset_map_deliver(&partition->map, FIRST + 4), DELIVERY_NEW);
    assert_true(offset_map_skip(&partition->map, FIRST + 3, FIRST + 4));
    partition->gaps.are_unsaved = true;
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_int_equal(world.sent->cnt, 1);
    assert_sent(0, 2, FIRST, FIRST + 5, "00010");
    assert_false(partition->gaps.are_unsaved);
}

TEST(a_partition_that_is_left_says_that_nothing_is_computed)
{
    struct suspects suspects = {.doubtful = 1};
    partition_of(1)->leaving = partition_of(1)->unsaved = true;
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    struct text metadata = {world.sent->elems[0].metadata, world.sent->elems[0].metadata_size};
    assert_ok(suspects_take_over(&suspects, FIRST, metadata, OWNER + 1, &error), &error);
    assert_int_equal(suspects.doubtful, 0);
    assert_false(suspects_are_computed(FIRST, metadata));
    assert_int_equal(partition_of(1)->suspects.promised, FIRST);
}

TEST(jobs_of_others_are_dropped)
{
    partition_of(1)->owned = false;
    offset_map_forget(&partition_of(2)->map, FIRST + 1); // job 4: delivered to another worker
    assert_int_equal(commit_jobs(0, 5), STATUS_OK);
    assert_string_equal(world.steps, "mnb(3-o=c)");
    assert_committed("00010");
    assert_int_equal(kafka.figures.n_dropped, 4);
    for (int i = 0; i < 3; i++)
        assert_false(offset_map_is_running(&partition_of(1)->map, FIRST + i));
    assert_int_equal(world.sent->cnt, 1);
    jobs[0]->source.partition = 5; // which never was ours
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "m");
    assert_committed("0");
}

TEST(of_two_jobs_of_one_offset_one_is_published)
{
    jobs[2]->source.offset = jobs[0]->source.offset;
    jobs[4]->source.offset = jobs[0]->source.offset;
    assert_int_equal(commit_jobs(0, 5), STATUS_OK); // 3 and 4 too
    assert_string_equal(world.steps, "mnb(013-o=c)");
    assert_committed("11010");
    assert_int_equal(kafka.figures.n_dropped, 2);
    assert_sent(0, 1, FIRST + 2, FIRST + 3, "110");
    assert_true(offset_map_is_finished(&partition_of(1)->map, FIRST)); // not forgotten for its twin
}

TEST(between_owners_nothing_is_published)
{
    rd_kafka_topic_partition_list_t *assigned = rd_kafka_topic_partition_list_new(1);
    kafka.group.assigned = assigned;
    partition_of(1)->unsaved = true;
    assert_int_equal(commit_jobs(0, 5), STATUS_RETRY);
    assert_string_equal(world.steps, "mi");
    assert_non_null(strstr(error.text, "the group is being rebalanced"));
    assert_committed("00000");
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    assert_no_transaction();
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_string_equal(world.steps, "m");
    kafka.group.assigned = NULL;
    rd_kafka_topic_partition_list_destroy(assigned);
    rd_kafka_consumer_group_metadata_destroy(kafka.group.membership);
    kafka.group.membership = NULL;
    assert_int_equal(commit_jobs(0, 5), STATUS_RETRY);
    for (int i = 0; i < 3; i++) // of none of ours
        offset_map_forget(&partition_of(1)->map, FIRST + i);
    assert_int_equal(commit_jobs(0, 3), STATUS_OK);
    assert_string_equal(world.steps, "m");
    assert_committed("000");
}

TEST(doubted_jobs_are_published_after_the_others_each_alone)
{
    jobs[0]->source.is_doubted = jobs[3]->source.is_doubted = true;
    assert_int_equal(commit_jobs(0, 5), STATUS_OK);
    assert_string_equal(world.steps, "mnb(124fAD-o=c)");
    assert_committed("11111");
}

TEST(jobs_that_can_t_be_published_end_the_transaction)
{
    world.publishing = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 3), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0ai");
    world.publishing = STATUS_OK;
    world.flushing = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 3), STATUS_OK); // nothing to flush for
    assert_string_equal(world.steps, "mnb(012-o=c)");
    jobs[3]->source.is_doubted = true;
    assert_int_equal(commit_jobs(3, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(1fai");
    world.flushing = STATUS_OK;
    world.publishing = STATUS_REFUSE;
    assert_int_equal(commit_jobs(3, 1), STATUS_REFUSE);
    assert_string_equal(world.steps, "mnb(fAa"); // no refusals to count
    assert_int_equal(kafka.figures.n_aborts, 3);
    assert_no_transaction();
    assert_true(offset_map_is_running(&partition_of(2)->map, FIRST));
    assert_int_equal(partition_of(2)->committed, FIRST);
}

TEST(results_that_are_published_end_a_series_of_given_up_ones)
{
    kafka.publishing.refusals.n_given_up = 5;
    jobs[0]->result.error.code = ERROR_RESULT_REFUSED;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_int_equal(kafka.publishing.refusals.n_given_up, 5);
    partition_of(1)->owned = false;
    assert_int_equal(commit_jobs(1, 1), STATUS_OK); // dropped
    assert_int_equal(kafka.publishing.refusals.n_given_up, 5);
    assert_int_equal(commit_jobs(3, 1), STATUS_OK);
    assert_int_equal(kafka.publishing.refusals.n_given_up, 0);
}

// ---- before a commit ----

TEST(a_commit_needs_brokers_and_topics)
{
    kafka.clients.consumer.is_down = true;
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_non_null(strstr(error.text, "no broker is up"));
    kafka.clients.consumer.is_down = false;
    world.topics = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_string_equal(error.text, "topics");
    world.topics = STATUS_OK;
    config.refuse_deleted = true;
    world.gaps = STATUS_REFUSE;
    assert_int_equal(commit_jobs(0, 1), STATUS_REFUSE);
    assert_string_equal(world.steps, "g");
    world.gaps = STATUS_OK;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "gmnb(0-o=c)");
    kafka.stopped = (struct error){.status = STATUS_RESTART, .text = "stopped"};
    assert_int_equal(commit_jobs(1, 1), STATUS_RESTART);
    assert_string_equal(error.text, "stopped");
    assert_string_equal(world.steps, "");
    assert_false(committed[1]);
    assert_int_equal(kafka_transaction_resolve(&kafka, world.now_ms + 1, &error), STATUS_RESTART);
}

TEST(nothing_is_published_for_a_topic_that_was_recreated)
{
    world.is_outdated = true;
    assert_int_equal(commit_jobs(0, 1), STATUS_RESTART);
    assert_non_null(strstr(error.text, "was deleted or recreated"));
    assert_string_equal(world.steps, "m");
    assert_false(committed[0]);
    assert_no_transaction();
}

TEST(a_transaction_that_does_not_begin_is_none)
{
    for (enum kind kind = RETRIABLE; kind <= PLAIN; kind++) {
        if (kind == FATAL)
            continue;
        answer_with(BEGIN, kind, RD_KAFKA_RESP_ERR__STATE, 1);
        assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
        assert_string_equal(world.steps, "mnbi");
        assert_non_null(strstr(error.text, "Kafka at broker:9092: beginning a transaction: as the test"));
        assert_no_transaction();
    }
    answer_with(BEGIN, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnbi");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
}

TEST_FIXTURE(begin, end);
