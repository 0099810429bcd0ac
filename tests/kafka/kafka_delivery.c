// The Kafka transport with a real broker: published records, resuming, refusals.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"

#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct kafka_figures *figures_of(const struct member *member)
{
    return kafka_transport_figures(member->transport);
}

static void assert_part(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("expected \"%s\" in: %s", part, text);
}

static void refuse_to_open(const struct kafka_config *config, const char *part)
{
    struct transport *transport;
    struct error error;
    assert_int_equal(kafka_transport_open(&transport, config, &error), STATUS_REFUSE);
    assert_null(transport);
    assert_part(error.text, part);
}

static bool is_odd(const struct job *job)
{
    return member_job_number(job) % 2;
}

static bool is_not_first(const struct job *job)
{
    return member_job_number(job) > 0;
}

// Each of job-0 .. job-(n-1) has one result.
static void assert_one_result_each(const struct member *member, int n_jobs)
{
    size_t n_records;
    struct probe_record *records = probe_read(brokers, member->config.topics.results, &n_records);
    unsigned char *seen = calloc((size_t)n_jobs, 1);
    for (struct probe_record *record = records; record; record = record->next) {
        int number = atoi(record->key + 4);
        assert_in_range(number, 0, n_jobs - 1);
        assert_int_equal(seen[number]++, 0);
    }
    assert_int_equal(n_records, n_jobs);
    free(seen);
    probe_free(records);
}

// ---- set-up ----

static void a_missing_topic_is_named_unless_it_may_be_created(void **state)
{
    struct member member;
    member_init(&member, brokers, "missing");
    member.config.topics.create = false;
    refuse_to_open(&member.config, member.config.topics.jobs);
    member.config.topics.create = true;
    member_open(&member);
    member_close(&member);
    member.config.topics.create = false;
    member_open(&member);
    member_finish(&member);
}

static void a_broker_that_does_not_answer_is_named_in_time(void **state)
{
    struct member member;
    member_init(&member, "127.0.0.1:1", "unreachable");
    member.config.start_timeout_ms = 1500;
    int64_t began_ms, took_ms = INT64_MAX;
    for (int tries = 0; tries < 5 && took_ms > 6000; tries++) { // a busy machine may stand still for seconds
        began_ms = clock_ms();
        refuse_to_open(&member.config, "127.0.0.1:1");
        took_ms = clock_ms() - began_ms;
    }
    assert_in_range(took_ms, 1000, 6000);
    refuse_to_open(&member.config, "refused");
    member_finish(&member);
}

static void properties_are_passed_on_and_checked(void **state)
{
    struct member member;
    member_init(&member, brokers, "properties");
    member.config.n_properties = 1;
    member.config.properties = &(struct kafka_property){"no.such.property", "secret"};
    refuse_to_open(&member.config, "no.such.property");
    member.config.properties = &(struct kafka_property){"session.timeout.ms", "never"};
    refuse_to_open(&member.config, "session.timeout.ms");
    member.config.properties = &(struct kafka_property){"enable.auto.commit", "true"};
    refuse_to_open(&member.config, "sheaf sets this property itself");
    member.config.properties =
        &(struct kafka_property){"partition.assignment.strategy", "cooperative-sticky"};
    if (rd_kafka_version() < 0x020601ff)
        refuse_to_open(&member.config, "2.6.1");
    member.config.n_properties = 0;
    for (enum group_protocol i = GROUP_PROTOCOL_COOPERATIVE; i <= GROUP_PROTOCOL_CONSUMER; i++) {
        member.config.group.protocol = i;
        if (rd_kafka_version() < (i == GROUP_PROTOCOL_CONSUMER ? 0x020c00ff : 0x020601ff))
            refuse_to_open(&member.config, i == GROUP_PROTOCOL_CONSUMER
                                               ? "needs librdkafka 2.12.0 or newer, this is 2."
                                               : "needs librdkafka 2.6.1 or newer, this is 2.");
    }
    member.config.group.protocol = GROUP_PROTOCOL_EAGER;
    member.config.n_properties = 1;
    member.config.properties = &(struct kafka_property){"fetch.wait.max.ms", "20"};
    member_open(&member);
    member_finish(&member);
}

static void topics_that_take_too_little_are_refused(void **state)
{
    struct member member;
    member_init(&member, brokers, "tiny");
    probe_create_topic(brokers, member.config.topics.results, 1, "max.message.bytes", "10000");
    refuse_to_open(&member.config, "max.message.bytes");
    member_finish(&member);
}

// ---- results ----

static const struct probe_record *find_key(const struct probe_record *records, const char *key)
{
    while (records && strcmp(records->key, key) != 0)
        records = records->next;
    assert_non_null(records);
    return records;
}

static void results_carry_encoding_identity_and_trace(void **state)
{
    struct member member;
    size_t n_records;
    member_init(&member, brokers, "results");
    member_open(&member);
    const char *json = "{\"job_id\":\"a\",\"prompt\":\"p\"}";
    probe_produce(brokers, member.config.topics.jobs, 0, "k1", json, strlen(json), "traceparent",
                  "00-ab-cd-01");
    const char msgpack[] = "\x82\xa6job_id\xa1"
                           "b\xa6prompt\xa1p";
    probe_produce(brokers, member.config.topics.jobs, 0, "k2", msgpack, sizeof msgpack - 1, NULL, NULL);
    member_receive(&member, 2);
    member_commit(&member, NULL);
    assert_int_equal(member.n_published, 2);

    struct probe_record *records = probe_read(brokers, member.config.topics.results, &n_records);
    assert_int_equal(n_records, 2);
    const struct probe_record *record = find_key(records, "k1");
    assert_int_equal(record->value[0], '{');
    assert_part(record->value, "answer to a");
    assert_part(record->headers, "content-type=application/json\n");
    assert_part(record->headers, "ce_specversion=1.0\nce_id=0-0\nce_source=/sheaf/");
    assert_part(record->headers, "ce_type=sheaf.result\nce_subject=a\nce_time=20");
    assert_part(record->headers, "traceparent=00-ab-cd-01\n");
    assert_part(record->headers, "sheaf-source-partition=0\nsheaf-source-offset=0\nsheaf-worker=tester\n");
    assert_part(record->headers, "sheaf-attempts=1\nsheaf-cached-tokens=0\n");
    record = find_key(records, "k2");
    assert_part(record->headers, "content-type=application/msgpack\n");
    assert_int_equal((unsigned char)record->value[0] & 0xf0, 0x80);
    assert_null(strstr(record->headers, "traceparent"));
    probe_free(records);
    member_finish(&member);
}

static void a_record_that_is_no_job_becomes_a_dead_letter_with_its_bytes(void **state)
{
    struct member member;
    size_t n_records;
    member_init(&member, brokers, "dead");
    member_open(&member);
    probe_produce(brokers, member.config.topics.jobs, 0, "k1", "\xff\x00rubbish", 9, "x-mine", "kept");
    const char *named = "{\"job_id\":\"named\",\"prompt\":\"p\",\"n\":\"many\"}";
    probe_produce(brokers, member.config.topics.jobs, 0, "k2", named, strlen(named), NULL, NULL);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 1);
    member_receive(&member, 3);
    member_commit(&member, NULL);

    struct probe_record *records = probe_read(brokers, member.config.topics.dead, &n_records);
    assert_int_equal(n_records, 2);
    const struct probe_record *record = find_key(records, "k1");
    assert_int_equal(record->size, 9);
    assert_memory_equal(record->value, "\xff\x00rubbish", 9);
    assert_part(record->headers, "x-mine=kept\n__sheaf.errors.topic=");
    assert_part(record->headers,
                "__sheaf.errors.partition=0\n__sheaf.errors.offset=0\n__sheaf.errors.stage=decode\n"
                "__sheaf.errors.code=invalid_encoding\n__sheaf.errors.message=");
    assert_part(record->headers, "__sheaf.errors.timestamp=20");
    assert_string_equal(find_key(records, "k2")->value, named);
    probe_free(records);

    records = probe_read(brokers, member.config.topics.results, &n_records);
    assert_int_equal(n_records, 2); // the job's, and an error for the one whose id could be read
    assert_part(find_key(records, "k2")->value, "invalid_field");
    assert_part(find_key(records, "job-0")->value, "answer");
    probe_free(records);
    member_finish(&member);
}

static void a_result_too_large_for_the_topic_becomes_an_error(void **state)
{
    struct member member;
    size_t n_records;
    member_init(&member, brokers, "oversize");
    probe_create_topic(brokers, member.config.topics.results, 1, "max.message.bytes", "20000");
    probe_create_topic(brokers, member.config.topics.dead, 1, "max.message.bytes", "20000");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 3);
    char *rubbish = malloc(30000);
    memset(rubbish, '!', 30000);
    probe_produce(brokers, member.config.topics.jobs, 0, "k", rubbish, 30000, NULL, NULL);
    member_receive(&member, 4);
    for (size_t i = 0; i < 3; i++)
        member_answer(member.jobs[i]);
    // The answers of two jobs just fit one by one, and together are more than a batch may be.
    struct text *text = &member.jobs[0]->result.choices[0].text;
    assert_true(job_set_text(member.jobs[0], text, (struct text){rubbish, 19000}));
    assert_true(
        job_set_text(member.jobs[1], &member.jobs[1]->result.choices[0].text, (struct text){rubbish, 20001}));
    assert_true(
        job_set_text(member.jobs[2], &member.jobs[2]->result.choices[0].text, (struct text){rubbish, 19000}));
    member_commit(&member, NULL);
    assert_int_equal(figures_of(&member)->n_aborts, 0);
    assert_int_equal(figures_of(&member)->records.n_oversize, 2);

    struct probe_record *records = probe_read(brokers, member.config.topics.results, &n_records);
    assert_int_equal(n_records, 3);
    assert_true(find_key(records, "job-0")->size > 19000);
    assert_part(find_key(records, "job-1")->value, "result_too_large");
    assert_true(find_key(records, "job-2")->size > 19000);
    probe_free(records);
    records = probe_read(brokers, member.config.topics.dead, &n_records);
    assert_int_equal(n_records, 1);
    assert_int_equal(records->size, 0);
    assert_string_equal(records->key, "k");
    assert_part(records->headers, "__sheaf.errors.omitted=value\n");
    probe_free(records);
    free(rubbish);
    member_finish(&member);
}

// ---- progress ----

static void jobs_finished_out_of_order_are_not_delivered_again(void **state)
{
    struct member member;
    member_init(&member, brokers, "order");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 100);
    member_receive(&member, 100);
    member_commit(&member, is_odd);
    assert_int_equal(member.n_jobs, 50);
    char *metadata;
    assert_int_equal(
        probe_committed(brokers, member.config.group.name, member.config.topics.jobs, 0, &metadata), 0);
    assert_memory_equal(metadata, "sheaf1:", 7);
    free(metadata);
    member_close(&member);

    member_open(&member);
    member_receive(&member, 50);
    member_drain(&member);
    assert_int_equal(member.n_jobs, 50);
    assert_int_equal(figures_of(&member)->records.n_skipped, 50);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(member_job_number(member.jobs[i]), 2 * i);
    member_commit(&member, NULL);
    assert_int_equal(probe_committed(brokers, member.config.group.name, member.config.topics.jobs, 0, NULL),
                     100);
    assert_one_result_each(&member, 100);
    member_finish(&member);
}

static struct partition_figures only_partition(const struct member *member)
{
    struct partition_figures figures[2];
    assert_int_equal(member->transport->impl->figures(member->transport, figures, 2), 1);
    return figures[0];
}

static void the_end_of_a_partition_is_committed_when_nothing_is_in_flight(void **state)
{
    struct member member;
    member_init(&member, brokers, "end");
    member_open(&member);
    probe_produce_transaction(brokers, member.config.topics.jobs, 0, 5, true);  // offsets 0..4, marker 5
    probe_produce_transaction(brokers, member.config.topics.jobs, 5, 5, false); // aborted: 6..10, marker 11
    probe_produce_transaction(brokers, member.config.topics.jobs, 5, 5, true);  // 12..16, marker 17
    member_receive(&member, 10);
    member_drain(&member);
    struct partition_figures figures = only_partition(&member);
    assert_int_equal(figures.n_in_flight, 10);
    assert_int_equal(figures.committed, -1);
    assert_int_equal(figures.position, 18);
    assert_int_equal(figures.end, 18);
    member_commit(&member, is_not_first);
    assert_int_equal(only_partition(&member).committed, 0);
    member_commit(&member, NULL);
    assert_int_equal(only_partition(&member).committed, 18);
    probe_produce_transaction(brokers, member.config.topics.jobs, 99, 5,
                              false); // nothing to do but to move on
    int64_t until_ms = clock_ms() + 20000;
    struct error error;
    while (only_partition(&member).committed < 24 && clock_ms() < until_ms)
        (void)!member_poll(&member, 10, &error);
    assert_int_equal(probe_committed(brokers, member.config.group.name, member.config.topics.jobs, 0, NULL),
                     24);
    assert_one_result_each(&member, 10);
    member_finish(&member);
}

static void a_full_window_pauses_its_partition_and_resumes_it_once(void **state)
{
    struct member member;
    int n_jobs = OFFSET_MAP_WINDOW + 500;
    member_init(&member, brokers, "window");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, n_jobs);
    member_receive(&member, OFFSET_MAP_WINDOW);
    assert_int_equal(figures_of(&member)->n_pauses, 1);
    struct error error;
    for (int i = 0; i < 10; i++)
        assert_int_equal(member_poll(&member, 100, &error), STATUS_OK);
    assert_int_equal(member.n_jobs, OFFSET_MAP_WINDOW);
    member_commit(&member, is_not_first);
    // With the list of suspects after the map, which is short here.
    assert_in_range(figures_of(&member)->map_bytes_max, OFFSET_MAP_TEXT_BYTES_MAX,
                    OFFSET_MAP_TEXT_BYTES_MAX + 64);
    for (int i = 0; i < 10; i++)
        assert_int_equal(member_poll(&member, 100, &error), STATUS_OK);
    assert_int_equal(member.n_jobs, 1);
    assert_int_equal(figures_of(&member)->n_resumes, 0);
    member_close(&member); // the map of a full window is read back

    member_open(&member);
    member_receive(&member, 1);
    assert_int_equal(member_poll(&member, 100, &error), STATUS_OK);
    assert_int_equal(member.n_jobs, 1);
    member_commit(&member, NULL);
    member_receive(&member, 500);
    member_drain(&member);
    assert_int_equal(member.n_jobs, 500);
    assert_int_equal(figures_of(&member)->n_pauses, figures_of(&member)->n_resumes);
    assert_true(figures_of(&member)->n_resumes <= 1);
    member_commit(&member, NULL);
    assert_one_result_each(&member, n_jobs);
    member_finish(&member);
}

static void while_paused_nothing_is_delivered_and_nothing_is_lost(void **state)
{
    struct member member;
    struct error error;
    member_init(&member, brokers, "paused");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 1000);
    for (int round = 0; round < 10; round++) {
        member_receive(&member, 100 * (size_t)(round + 1));
        member.transport->impl->pause(member.transport);
        for (int i = 0; i < 5; i++)
            assert_int_equal(member_poll(&member, 0, &error), STATUS_OK);
        assert_int_equal(member.n_jobs, 100 * (round + 1));
        member.transport->impl->resume(member.transport);
        member.transport->impl->resume(member.transport);
    }
    assert_int_equal(figures_of(&member)->records.n_skipped, 0);
    // Fetched records are kept: pausing the partition would discard and fetch them again.
    assert_int_equal(figures_of(&member)->n_pauses, 0);
    assert_int_equal(figures_of(&member)->n_rewinds, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(member_job_number(member.jobs[i]), i);
    member_commit(&member, NULL);
    assert_one_result_each(&member, 1000);
    member_finish(&member);
}

// Each poll delivers one record, since one has more bytes than it is to deliver; the others wait as fetched.
static void a_poll_delivers_no_more_bytes_than_it_is_to(void **state)
{
    (void)state;
    struct member member;
    struct error error;
    member_init(&member, brokers, "bytes");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 20);
    member_receive(&member, 1);
    member.bytes_max = 1;
    for (int polls = 0; member.n_jobs < 20 && polls < 1000; polls++) {
        size_t n_before = member.n_jobs;
        assert_int_equal(member_poll(&member, 20, &error), STATUS_OK);
        assert_in_range(member.n_jobs - n_before, 0, 1);
    }
    for (int i = 0; i < 20; i++)
        assert_int_equal(member_job_number(member.jobs[i]), i);
    assert_int_equal(figures_of(&member)->n_rewinds, 0);
    member_commit(&member, NULL);
    assert_one_result_each(&member, 20);
    member_finish(&member);
}

static void released_jobs_are_delivered_again(void **state)
{
    struct member member;
    struct error error;
    member_init(&member, brokers, "release");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 20);
    member_receive(&member, 20);
    struct job *released[] = {member.jobs[19], member.jobs[7]};
    assert_int_equal(member.transport->impl->release(member.transport, released, 2, &error), STATUS_OK);
    assert_false(member.transport->impl->is_drained(member.transport));
    job_destroy(released[0]);
    job_destroy(released[1]);
    memmove(&member.jobs[7], &member.jobs[8], 11 * sizeof member.jobs[0]);
    member.n_jobs = 18;
    member_receive(&member, 20);
    assert_int_equal(member_job_number(member.jobs[18]), 7);
    assert_int_equal(member_job_number(member.jobs[19]), 19);
    member_drain(&member);
    assert_int_equal(member.n_jobs, 20);
    member_commit(&member, NULL);
    assert_one_result_each(&member, 20);
    member_finish(&member);
}

static void the_descriptor_tells_of_new_jobs(void **state)
{
    struct member member;
    struct error error;
    member_init(&member, brokers, "descriptor");
    member_open(&member);
    member_drain(&member);
    struct pollfd wait = {member.transport->impl->fd(member.transport), POLLIN, 0};
    for (int i = 0; i < 5; i++) {
        while (poll(&wait, 1, 700) == 1)
            assert_int_equal(member_poll(&member, 10, &error), STATUS_OK);
        probe_produce_jobs(brokers, member.config.topics.jobs, 0, i, 1);
        assert_int_equal(poll(&wait, 1, 10000), 1);
        member_receive(&member, (size_t)i + 1);
    }
    member_finish(&member);
}

// ---- what the group committed ----

static void an_unknown_offset_map_is_refused_unless_it_may_be_dropped(void **state)
{
    struct member member;
    member_init(&member, brokers, "unknown");
    member_open(&member);
    member_close(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 10);
    probe_commit(brokers, member.config.group.name, member.config.topics.jobs, 0, 4, "somebody else's");
    refuse_to_open(&member.config, "offset map");
    refuse_to_open(&member.config, member.config.group.name);
    member.config.accept_unknown_map = true;
    member_open(&member);
    member_receive(&member, 6);
    member_drain(&member);
    assert_int_equal(member_job_number(member.jobs[0]), 4);
    member_finish(&member);
}

static void offsets_that_were_set_by_hand_are_used(void **state)
{
    struct member member;
    member_init(&member, brokers, "reset");
    member.config.group.is_dynamic = true; // leaves at close, so that the group is empty at once
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 10);
    member_receive(&member, 10);
    member_commit(&member, is_odd);
    member_close(&member);
    probe_commit(brokers, member.config.group.name, member.config.topics.jobs, 0, 3, "");
    member_open(&member);
    member_receive(&member, 7);
    member_drain(&member);
    assert_int_equal(member_job_number(member.jobs[0]), 3);
    member_finish(&member);
}

static void an_offset_beyond_the_end_of_a_topic_is_refused(void **state)
{
    struct member member;
    struct error error;
    member_init(&member, brokers, "beyond");
    member.config.group.is_dynamic = true;
    member_open(&member);
    member_close(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 10);
    probe_commit(brokers, member.config.group.name, member.config.topics.jobs, 0, 11, "");
    member_open(&member);
    int64_t until_ms = clock_ms() + 20000;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && clock_ms() < until_ms)
        status = member_poll(&member, 10, &error);
    assert_int_equal(status, STATUS_REFUSE);
    assert_part(error.text, "offset 11");
    assert_int_equal(member.n_jobs, 0);
    member_finish(&member);
}

// ---- cancelling ----

static void cancellations_are_read_before_the_first_job_and_while_running(void **state)
{
    struct member member;
    struct error error;
    member_init(&member, brokers, "cancel");
    assert_int_equal(kafka_create_topics(&member.config, &error), STATUS_OK);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 1);
    assert_int_equal(kafka_cancel(&member.config, TEXT("default"), TEXT("job-0"), 0, &error), STATUS_OK);
    probe_produce(brokers, member.config.topics.control, 0, "x", "{\"no\":1}", 8, NULL, NULL);
    member_open(&member);
    member_receive(&member, 1);
    assert_int_equal(member.n_cancels, 1);
    assert_part(member.last_log, "is no cancellation");
    const struct transport_impl *impl = member.transport->impl;
    struct job *job = member.jobs[0];
    assert_int_equal(job->created_s, 0);
    assert_in_range(job->source.written_s, time(NULL) - 60, time(NULL)); // what counts then
    assert_true(impl->is_cancelled(member.transport, job));
    assert_true(job_set_id(job, TEXT("job-1")));
    assert_false(impl->is_cancelled(member.transport, job));

    int64_t began_ms = clock_ms();
    assert_int_equal(kafka_cancel(&member.config, TEXT("default"), (struct text){0}, 0, &error), STATUS_OK);
    while (member.n_cancels < 2 && clock_ms() < began_ms + 20000)
        assert_int_equal(member_poll(&member, 1, &error), STATUS_OK);
    assert_string_equal(member.last_cancel, "default/");
    assert_true(member.last_cancel_until_s == INT64_MAX); // all that was delivered was there before it
    int64_t until_s =
        cancel_set_until(&member_transport(&member)->control.set, TEXT("default"), (struct text){0});
    assert_in_range(until_s, job->source.written_s, time(NULL));
    assert_true(impl->is_cancelled(member.transport, job));
    job->source.written_s = until_s + 1;
    assert_true(impl->is_cancelled(member.transport, job)); // by a clock that is ahead
    job->source.offset++;
    assert_false(impl->is_cancelled(member.transport, job)); // written after it
    job->created_s = until_s;
    assert_true(impl->is_cancelled(member.transport, job)); // what it says itself stands above that
    job->created_s = until_s + 1;
    assert_false(impl->is_cancelled(member.transport, job));
    job->source.offset--;
    member_finish(&member);
}

// ---- submitting and collecting ----

static enum status count_record(void *context, const struct record *record, struct error *error)
{
    int *n_records = context;
    ++*n_records;
    return STATUS_OK;
}

static enum status stop_at_third(void *context, const struct record *record, struct error *error)
{
    int *n_records = context;
    if (++*n_records == 3)
        return error_set(error, STATUS_REJECT, ERROR_FILE, "enough");
    return STATUS_OK;
}

static void a_topic_is_filled_with_back_pressure_and_read_to_its_end(void **state)
{
    struct member member;
    struct kafka_producer *producer;
    struct error error;
    int n_records = 0;
    member_init(&member, brokers, "client");
    member.config.topics.n_partitions = 3;
    const struct kafka_property small[] = {{"queue.buffering.max.messages", "100"}};
    member.config.properties = small;
    member.config.n_properties = 1;
    assert_int_equal(kafka_producer_open(&producer, &member.config, member.config.topics.jobs, &error),
                     STATUS_OK);
    char value[2000000];
    memset(value, 'x', sizeof value);
    for (int i = 0; i < 3000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        struct header header = {TEXT("content-type"), TEXT("application/json")};
        struct kafka_record record = {text_from_string(key), {value, 300}, &header, 1};
        assert_int_equal(kafka_producer_send(producer, &record, &error), STATUS_OK);
    }
    struct kafka_record large = {.value = {value, sizeof value}};
    assert_int_equal(kafka_producer_send(producer, &large, &error), STATUS_REJECT);
    assert_int_equal(kafka_producer_flush(producer, 20000, &error), STATUS_OK);
    kafka_producer_close(producer);

    probe_produce_transaction(brokers, member.config.topics.jobs, 0, 5, false); // is not read
    assert_int_equal(kafka_read_topic(&member.config, member.config.topics.jobs, KAFKA_END_STABLE,
                                      count_record, &n_records, &error),
                     STATUS_OK);
    assert_int_equal(n_records, 3000);
    n_records = 0;
    assert_int_equal(kafka_read_topic(&member.config, member.config.topics.jobs, KAFKA_END_STABLE,
                                      stop_at_third, &n_records, &error),
                     STATUS_REJECT);
    assert_int_equal(n_records, 3);
    assert_int_equal(kafka_read_topic(&member.config, member.config.topics.results, KAFKA_END_STABLE,
                                      count_record, &n_records, &error),
                     STATUS_REFUSE); // never created by reading
    assert_part(error.text, member.config.topics.results);
    member_finish(&member);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_missing_topic_is_named_unless_it_may_be_created),
        BROKER_TEST(a_broker_that_does_not_answer_is_named_in_time),
        BROKER_TEST(properties_are_passed_on_and_checked),
        BROKER_TEST(topics_that_take_too_little_are_refused),
        BROKER_TEST(results_carry_encoding_identity_and_trace),
        BROKER_TEST(a_record_that_is_no_job_becomes_a_dead_letter_with_its_bytes),
        BROKER_TEST(a_result_too_large_for_the_topic_becomes_an_error),
        BROKER_TEST(jobs_finished_out_of_order_are_not_delivered_again),
        BROKER_TEST(the_end_of_a_partition_is_committed_when_nothing_is_in_flight),
        BROKER_TEST(a_full_window_pauses_its_partition_and_resumes_it_once),
        BROKER_TEST(while_paused_nothing_is_delivered_and_nothing_is_lost),
        BROKER_TEST(a_poll_delivers_no_more_bytes_than_it_is_to),
        BROKER_TEST(released_jobs_are_delivered_again),
        BROKER_TEST(the_descriptor_tells_of_new_jobs),
        BROKER_TEST(an_unknown_offset_map_is_refused_unless_it_may_be_dropped),
        BROKER_TEST(offsets_that_were_set_by_hand_are_used),
        BROKER_TEST(an_offset_beyond_the_end_of_a_topic_is_refused),
        BROKER_TEST(cancellations_are_read_before_the_first_job_and_while_running),
        BROKER_TEST(a_topic_is_filled_with_back_pressure_and_read_to_its_end),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}
