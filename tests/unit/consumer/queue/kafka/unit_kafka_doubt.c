// What each answer of the brokers to a commit means for its jobs and the next commit
// (consumer/queue/kafka/kafka_transaction.c).
#include "tests/unit/consumer/queue/kafka/transaction_script.h"

// ---- what the brokers answer ----

TEST(offsets_are_sent_again_until_the_deadline)
{
    answer_with(OFFSETS, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "mnb(0-ooo=c)");
    assert_int_equal(world.timeout_ms[OFFSETS], CALL_MS);
    world.now_ms = 1000000;
    answer_with(OFFSETS, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1000);
    world.answers[OFFSETS].step_ms = KAFKA_COMMIT_TIMEOUT_MS / 2 - 100;
    assert_int_equal(commit_jobs(1, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0-oooai");
    assert_true(world.timeout_ms[OFFSETS] > 0 && world.timeout_ms[OFFSETS] < 200);
    assert_no_transaction();
    world.now_ms = 1000000;
    answer_with(OFFSETS, ABORTABLE, RD_KAFKA_RESP_ERR__STATE, 1);
    assert_int_equal(commit_jobs(1, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0-oai");
    world.now_ms = 1000000;
    kafka.clients.producer.is_down = false;
    answer_with(OFFSETS, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(commit_jobs(1, 1), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0-oi");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
}

// The caller got an error, so its next commits learn what was published.
TEST(a_commit_in_doubt_is_continued_and_its_jobs_are_reported_once)
{
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = KAFKA_COMMIT_TIMEOUT_MS;
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0123-o=ci");
    assert_committed("0000");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_COMMITTING);
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "c)m");
    assert_committed("11");
    assert_int_equal(kafka.figures.n_commits, 1);
    assert_true(offset_map_is_finished(&partition_of(1)->map, FIRST + 2));
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 2);
    assert_int_equal(commit_jobs(2, 3), STATUS_OK); // two of it, and a new one
    assert_string_equal(world.steps, "mnb(2-o=c)");
    assert_committed("11111");
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    assert_int_equal(commit_jobs(0, 4), STATUS_OK); // as no caller does
    assert_committed("0000");
    assert_no_transaction();
}

static void leave_in_doubt(size_t first, size_t n)
{
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = KAFKA_COMMIT_TIMEOUT_MS;
    assert_int_equal(commit_jobs(first, n), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_COMMITTING);
    world.now_ms = 1000000;
    memset(world.steps, 0, sizeof world.steps);
}

TEST(the_jobs_of_a_commit_in_doubt_are_known)
{
    assert_false(kafka_transaction_has(&kafka, jobs[0]));
    leave_in_doubt(0, 2);
    for (int i = 0; i < N_JOBS; i++)
        assert_int_equal(kafka_transaction_has(&kafka, jobs[i]), i < 2);
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    assert_false(kafka_transaction_has(&kafka, jobs[0]));
}

TEST(what_changes_while_a_commit_is_in_doubt_is_committed_after_it)
{
    for (int32_t id = 1; id <= 2; id++)
        partition_of(id)->unsaved = partition_of(id)->gaps.are_unsaved = true;
    leave_in_doubt(0, 4);
    partition_of(2)->leaving = partition_of(2)->changed = true;
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    assert_false(partition_of(1)->unsaved || partition_of(1)->gaps.are_unsaved);
    assert_true(partition_of(2)->unsaved && partition_of(2)->gaps.are_unsaved);
    assert_int_equal(commit_jobs(0, 0), STATUS_OK);
    assert_int_equal(world.sent->cnt, 1);
    assert_int_equal(world.sent->elems[0].partition, 2);
    assert_false(partition_of(2)->unsaved || partition_of(2)->gaps.are_unsaved);
}

// ---- throttled ----

static void throttle(int ms)
{
    kafka.clients.producer.throttle.until_ms = world.now_ms + ms;
    kafka.publishing.throttling.socket_timeout_ms = 10000;
    world.n_queued = 1;
}

TEST(a_commit_whose_requests_time_out_is_given_up_after_one_call)
{
    leave_in_doubt(0, 1);
    throttle(60000);
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 5);
    world.is_made = true;
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    assert_string_equal(world.steps, "cOr");
}

TEST(a_worker_that_hurries_replaces_a_throttled_producer)
{
    assert_ok(kafka_transaction_hurry(&kafka, world.now_ms + 5000, &error), &error);
    assert_string_equal(world.steps, "");
    throttle(60000);
    answer_with(OPEN, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2); // the coordinator is not found at once
    world.opening = STATUS_RETRY;
    assert_ok(kafka_transaction_hurry(&kafka, world.now_ms + 5000, &error), &error);
    assert_string_equal(world.steps, "OOO");
    assert_int_equal(kafka.clients.producer.throttle.until_ms, 0);
    assert_no_transaction();
    leave_in_doubt(0, 1);
    throttle(60000);
    world.is_made = true;
    assert_ok(kafka_transaction_hurry(&kafka, world.now_ms + 5000, &error), &error);
    assert_string_equal(world.steps, "Or");
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 1);
}

TEST(hurrying_has_a_deadline_and_needs_a_broker)
{
    throttle(60000);
    answer_with(OPEN, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 100);
    world.answers[OPEN].step_ms = CALL_MS;
    world.opening = STATUS_RETRY;
    assert_int_equal(kafka_transaction_hurry(&kafka, world.now_ms + 2 * CALL_MS, &error), STATUS_RETRY);
    assert_string_equal(world.steps, "OO");
    kafka.clients.producer.is_down = true;
    assert_int_equal(kafka_transaction_hurry(&kafka, world.now_ms + 2 * CALL_MS, &error), STATUS_RETRY);
    assert_string_equal(world.steps, "OOO");
}

// ---- until the deadline ----

TEST(a_commit_is_tried_again_until_its_deadline)
{
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 3);
    world.answers[COMMIT].step_ms = 600;
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
    assert_string_equal(world.steps, "mnb(0-o=cccc)");
    assert_int_equal(world.timeout_ms[COMMIT], CALL_MS);
    kafka.clients.producer.is_down = true; // as it turns out in its callbacks
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    kafka.publishing.transaction.phase = TRANSACTION_ABORTING;
    answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 3);
    assert_int_equal(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), STATUS_RETRY);
    assert_int_equal(world.n_calls[ABORT], 1); // without a broker there is no use in it
}

TEST(jobs_are_reported_in_any_order)
{
    struct job *reversed[] = {jobs[4], jobs[2], jobs[0]};
    for (int n = 1; n <= 3; n++) {
        answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
        world.answers[COMMIT].step_ms = KAFKA_COMMIT_TIMEOUT_MS;
        world.now_ms = 1000000;
        assert_int_equal(kafka_commit(&kafka.base, reversed, (size_t)n, committed, &error), STATUS_RETRY);
        world.now_ms = 1000000;
        for (int i = 0; i < n; i++) {
            memset(world.steps, 0, sizeof world.steps);
            assert_ok(kafka_commit(&kafka.base, &reversed[i], 1, committed, &error), &error);
            assert_string_equal(world.steps, i == 0 ? "c)m" : "m");
            assert_true(committed[0]);
        }
        assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
        partition_table_finish(&kafka.partitions);
        own_partition(1);
        own_partition(2);
    }
}

// A deadline that has passed: librdkafka is asked once, without waiting.
TEST(a_call_is_made_once_after_its_deadline)
{
    for (int64_t late_ms = 0; late_ms < 2; late_ms++) {
        kafka.publishing.transaction.phase = TRANSACTION_ABORTING;
        answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
        assert_int_equal(kafka_transaction_resolve(&kafka, world.now_ms - late_ms, &error), STATUS_RETRY);
        assert_int_equal(world.n_calls[ABORT], late_ms + 1);
        assert_int_equal(world.timeout_ms[ABORT], 1);
    }
}

TEST(an_aborted_commit_is_published_again)
{
    answer_with(COMMIT, ABORTABLE, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(01-o=cai");
    assert_non_null(strstr(error.text, "committing a transaction"));
    assert_int_equal(kafka.figures.n_aborts, 1);
    assert_int_equal(kafka.figures.n_commits, 0);
    assert_int_equal(world.timeout_ms[ABORT], CALL_MS);
    assert_no_transaction();
    assert_committed("00");
    answer_with(COMMIT, PLAIN, RD_KAFKA_RESP_ERR__STATE, 1); // of no kind: the same
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(01-o=cai");
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_committed("11");
}

TEST(an_abort_without_an_answer_is_continued)
{
    world.publishing = STATUS_RETRY;
    answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    world.answers[ABORT].step_ms = 3000;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(error.text, "publishing"); // the cause
    assert_string_equal(world.steps, "mnb(0ai");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_ABORTING);
    world.publishing = STATUS_OK;
    world.answers[ABORT].step_ms = KAFKA_COMMIT_TIMEOUT_MS;
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "a");
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "amnb(01-o=c)");
    assert_int_equal(kafka.figures.n_aborts, 1);
}

TEST(a_producer_that_can_t_abort_is_replaced)
{
    world.publishing = STATUS_RETRY;
    answer_with(ABORT, ABORTABLE, RD_KAFKA_RESP_ERR__STATE, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(kafka.figures.n_aborts, 0);
    world.publishing = STATUS_OK;
    world.opening = STATUS_RETRY;
    add_committed(1, FIRST, "000");
    answer_with(OPEN, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "O");
    assert_int_equal(world.timeout_ms[OPEN], CALL_MS);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "Ormnb(01-o=c)");
    assert_int_equal(kafka.figures.n_producers, 1);
    kafka.publishing.transaction.phase = TRANSACTION_BROKEN; // after a commit that was aborted
    assert_int_equal(commit_jobs(2, 1), STATUS_OK);
    assert_string_equal(world.steps, "Omnb(0-o=c)"); // it has no offsets
    kafka.publishing.transaction.phase = TRANSACTION_BROKEN;
    world.opening = STATUS_REFUSE;
    answer_with(OPEN, PLAIN, RD_KAFKA_RESP_ERR__STATE, 1);
    assert_int_equal(commit_jobs(3, 1), STATUS_REFUSE);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_string_equal(kafka.stopped.text, "no producer");
}

// ---- a transaction whose outcome the group's offsets say ----

static void break_commit(void)
{
    answer_with(COMMIT, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(0123-o=ci");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    assert_int_equal(kafka.figures.n_aborts, 0);
}

TEST(a_broken_commit_was_made_if_the_group_s_offsets_say_so)
{
    break_commit();
    add_committed(1, FIRST + 3, "111");
    add_committed(2, FIRST, "0");
    assert_int_equal(commit_jobs(0, 4), STATUS_OK);
    assert_string_equal(world.steps, "Ormnb(3-o=c)"); // 3 was not published
    assert_committed("1111");
    assert_int_equal(partition_of(1)->committed, FIRST + 3);
    assert_int_equal(partition_of(2)->committed, FIRST + 1);
    assert_int_equal(partition_of(1)->map.watermark, FIRST + 3);
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    assert_int_equal(kafka.figures.n_producers, 1);
}

TEST(offsets_without_a_commit_publish_none)
{
    break_commit();
    add_committed(1, -1, "");
    add_committed(2, FIRST, "0");
    partition_of(2)->owned = false;
    partition_of(2)->committed = 5;
    partition_of(1)->saved_crc = 6;
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    assert_int_equal(partition_of(1)->committed, FIRST); // as it was
    assert_int_equal(partition_of(1)->saved_crc, 6);
    assert_int_equal(partition_of(2)->committed, 5); // another's
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    assert_no_transaction();
}

TEST(a_part_may_have_been_published_by_others)
{
    break_commit();
    add_committed(1, FIRST, "010");
    add_committed(2, FIRST + 2, "11");
    answer_with(COMMITTED, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "Orr");
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_UNKNOWN);
    assert_int_equal(commit_jobs(0, 4), STATUS_OK);
    assert_string_equal(world.steps, "rmnb(02-o=c)");
    assert_committed("1111");
    assert_int_equal(partition_of(1)->map.watermark, FIRST + 3);
    assert_int_equal(partition_of(2)->committed, FIRST + 2);
}

TEST(metadata_of_another_program_ends_the_worker)
{
    break_commit();
    add_committed(1, FIRST, "010");
    add_committed(2, FIRST, "0");
    memcpy(world.committed->elems[0].metadata, "other:", 6);
    assert_int_equal(commit_jobs(0, 4), STATUS_REFUSE);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_non_null(strstr(error.text, "topic jobs partition 1, group workers"));
}

// A broker that was stopped may have lost the end marker of a committed transaction.
TEST(a_transaction_that_took_long_counts_when_the_group_s_offsets_say_so)
{
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS - RETRY_MS - 1;
    assert_int_equal(commit_jobs(3, 1), STATUS_OK);
    assert_string_equal(world.steps, "mnb(0-o=cc)");
    world.now_ms = 1000000;
    add_committed(1, FIRST, "000");
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS - RETRY_MS;
    assert_int_equal(commit_jobs(0, 3), STATUS_RETRY);
    assert_string_equal(world.steps, "mnb(012-o=cc)ri");
    assert_non_null(strstr(error.text, "took 2000 ms, and the group's offsets do not show it yet"));
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_UNKNOWN);
    assert_true(offset_map_is_running(&partition_of(1)->map, FIRST));
    world.now_ms = 1000000;
    memset(world.steps, 0, sizeof world.steps);
    assert_ok(kafka_transaction_resolve(&kafka, world.now_ms + 9000, &error), &error);
    assert_string_equal(world.steps, "r");
    assert_no_transaction();
    assert_int_equal(world.n_settlings, 1);
    assert_int_equal(kafka.publishing.transaction.n_unacknowledged, 0);
    world.is_made = true;
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS;
    assert_int_equal(commit_jobs(0, 3), STATUS_OK);
    assert_string_equal(world.steps, "mnb(012-o=cc)r");
    assert_committed("111");
    assert_int_equal(partition_of(1)->saved_crc, kafka_saved_crc(&world.sent->elems[0]));
    assert_int_equal(world.n_settlings, 1);
}

// Its offsets are pending at first; then they show that it was committed, and its jobs are reported.
TEST(a_transaction_that_took_long_is_reported_by_the_next_commit)
{
    world.is_made = true;
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    world.answers[COMMIT].step_ms = DOUBT_MS;
    answer_with(COMMITTED, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_int_equal(commit_jobs(0, 3), STATUS_RETRY);
    assert_committed("000");
    world.now_ms = 1000000;
    assert_int_equal(commit_jobs(0, 3), STATUS_OK);
    assert_string_equal(world.steps, "rm");
    assert_committed("111");
    assert_int_equal(world.n_settlings, 0);
}

TEST(nothing_is_published_before_what_an_abort_left_is_settled)
{
    answer_with(COMMIT, ABORTABLE, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, 1);
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_int_equal(world.n_settlings, 1);
    world.settling = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "");
    assert_string_equal(error.text, "undecided");
    world.settling = STATUS_OK;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
    assert_string_equal(world.steps, "mnb(01-o=c)");
    assert_committed("11");
    assert_int_equal(world.n_settlings, 1);
}

TEST(nothing_is_published_before_older_offsets_of_the_group_are_read)
{
    kafka.watch.is_outdated = true;
    assert_int_equal(commit_jobs(0, 2), STATUS_RETRY);
    assert_string_equal(world.steps, "");
    assert_non_null(strstr(error.text, "the group's offsets are read again"));
    kafka.watch.is_outdated = false;
    assert_int_equal(commit_jobs(0, 2), STATUS_OK);
}

TEST(offsets_that_are_held_are_settled_and_read_again)
{
    break_commit();
    add_committed(1, FIRST, "000");
    add_committed(2, FIRST, "0");
    answer_with(COMMITTED, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 2);
    world.settling = STATUS_RETRY;
    assert_int_equal(commit_jobs(0, 4), STATUS_RETRY);
    assert_string_equal(world.steps, "Or");
    assert_int_equal(world.n_settlings, 1);
    assert_string_equal(error.text, "no coordinator");
    world.settling = STATUS_OK;
    assert_int_equal(commit_jobs(0, 4), STATUS_OK);
    assert_string_equal(world.steps, "rrmnb(0123-o=c)");
    assert_int_equal(world.n_settlings, 2); // for what was not committed
}

// ---- errors that end the worker ----

TEST(a_producer_that_is_fenced_young_has_a_namesake)
{
    answer_with(COMMIT, FATAL, RD_KAFKA_RESP_ERR__FENCED, 1);
    world.answers[COMMIT].step_ms = TRANSACTION_MS / 2 - 1;
    assert_int_equal(commit_jobs(0, 1), STATUS_RESTART);
    assert_int_equal(world.n_fenced, 1);
    assert_int_equal(kafka.stopped.status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "another worker has our id, workers-a"));
    kafka.stopped = (struct error){0};
    kafka_transaction_finish(&kafka);
    world.now_ms = 1000000;
    answer_with(COMMIT, FATAL, RD_KAFKA_RESP_ERR__FENCED, 1);
    world.answers[COMMIT].step_ms = TRANSACTION_MS / 2; // the coordinator aborts it at its timeout
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_int_equal(world.n_fenced, 1);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
}

TEST(missing_rights_name_both_topics)
{
    answer_with(COMMIT, ABORTABLE, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
    assert_int_equal(commit_jobs(0, 1), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "the worker needs the right Write on topics results and dead"));
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    kafka.stopped = (struct error){0};
    kafka_transaction_finish(&kafka);
    answer_with(BEGIN, ABORTABLE, RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 1);
    (void)commit_jobs(0, 1);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_null(strstr(error.text, "the right Write"));
}

TEST(records_for_a_deleted_topic_cost_the_producer)
{
    world.lost = "results";
    answer_with(COMMIT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 9);
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_int_equal(world.n_calls[COMMIT], 1);
    assert_non_null(strstr(error.text, "topic results was deleted or recreated"));
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    kafka_transaction_finish(&kafka);
    world.publishing = STATUS_RETRY;
    answer_with(ABORT, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 9);
    assert_int_equal(commit_jobs(0, 1), STATUS_RETRY);
    assert_int_equal(world.n_calls[ABORT], 1);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    kafka_transaction_finish(&kafka);
    world.publishing = STATUS_OK;
    answer_with(COMMIT, RETRIABLE, 0, 0); // an answer in time: the topic was of no use to it
    assert_int_equal(commit_jobs(0, 1), STATUS_OK);
}

// ---- another process with our id ----

TEST(an_id_is_checked_in_a_transaction_that_is_aborted)
{
    answer_with(OFFSETS, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_ok(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), &error);
    assert_string_equal(world.steps, "booa");
    assert_int_equal(world.sent->cnt, 1);
    assert_string_equal(world.sent->elems[0].topic, "jobs");
    assert_int_equal(world.sent->elems[0].partition, 0);
    assert_int_equal(world.sent->elems[0].offset, 0);
    assert_int_equal(kafka.publishing.transaction.began_ms, 1000000);
    assert_no_transaction();
    answer_with(BEGIN, RETRIABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, 1);
    assert_int_equal(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), STATUS_RETRY);
    answer_with(BEGIN, FATAL, RD_KAFKA_RESP_ERR__FATAL, 1);
    assert_int_equal(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), STATUS_RETRY);
    assert_int_equal(kafka.publishing.transaction.phase, TRANSACTION_BROKEN);
    answer_with(OFFSETS, FATAL, RD_KAFKA_RESP_ERR__FENCED, 1); // by a new producer
    world.steps[0] = '\0';
    memset(world.steps, 0, sizeof world.steps);
    assert_int_equal(kafka_transaction_check_id(&kafka, world.now_ms + 9000, &error), STATUS_RESTART);
    assert_string_equal(world.steps, "Obo");
    assert_int_equal(kafka.stopped.status, STATUS_RESTART);
}

TEST_FIXTURE(begin, end);
