#include "tests/kafka/kafka_member.h"

#include "schemas/base/clock.h"
#include "tests/kafka/kafka_probe.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE_MS = 60000, WAIT_MS = 100, FIGURES_MAX = 64 };

static void keep_log(void *context, int level, const char *line)
{
    struct member *member = context;
    snprintf(member->last_log, sizeof member->last_log, "%s", line);
    size_t used = strlen(member->warnings);
    if (level == 4)
        snprintf(member->warnings + used, sizeof member->warnings - used, "%s\n", line);
    if (getenv("SHEAF_TEST_LOG"))
        fprintf(stderr, "%s: %s\n", member->names[4], line);
}

static void set_config(struct member *member, const char *brokers)
{
    member->config = (struct kafka_config){
        .brokers = brokers,
        .topics.jobs = member->names[0],
        .topics.results = member->names[1],
        .topics.dead = member->names[2],
        .topics.control = member->names[3],
        .group.name = member->names[4],
        .directory = member->folder,
        .worker = "tester",
        .topics.create = true,
        .topics.n_partitions = 1,
        .log = keep_log,
        .log_context = member,
    };
    // the same tests with another one, where librdkafka has it
    const char *protocol = getenv("SHEAF_TEST_GROUP_PROTOCOL");
    if (protocol && !kafka_find_protocol(protocol, &member->config.group.protocol))
        fail_msg("SHEAF_TEST_GROUP_PROTOCOL: expected eager, cooperative or consumer, got \"%s\"", protocol);
}

void member_init(struct member *member, const char *brokers, const char *name)
{
    static int n_members;
    static const char *const kinds[] = {"jobs", "results", "dead", "control", "group"};
    memset(member, 0, sizeof *member);
    snprintf(member->prefix, sizeof member->prefix, "%.30s-%d-%d", name, (int)getpid(), n_members++);
    for (size_t i = 0; i < 5; i++)
        snprintf(member->names[i], sizeof member->names[i], "%s-%s", member->prefix, kinds[i]);
    strcpy(member->folder, "/tmp/sheaf-slots-XXXXXX");
    assert_non_null(mkdtemp(member->folder));
    set_config(member, brokers);
}

void member_init_with_jobs(struct member *member, const char *brokers, const char *name, int n_partitions,
                           int n_jobs)
{
    struct error error;
    member_init(member, brokers, name);
    member->config.topics.n_partitions = n_partitions;
    if (kafka_create_topics(&member->config, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    for (int i = 0; i < n_partitions; i++)
        probe_produce_jobs(brokers, member->config.topics.jobs, i, i * n_jobs / n_partitions,
                           n_jobs / n_partitions);
}

void member_join(struct member *member, const struct member *first)
{
    memset(member, 0, sizeof *member);
    memcpy(member->prefix, first->prefix, sizeof member->prefix);
    memcpy(member->names, first->names, sizeof member->names);
    memcpy(member->folder, first->folder, sizeof member->folder);
    set_config(member, first->config.brokers);
}

// With KIP-848 these are the broker's.
static void drop_session(struct member *member)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < member->config.n_properties && n_kept < 8; i++) {
        const char *name = member->config.properties[i].name;
        if (strcmp(name, "session.timeout.ms") != 0 && strcmp(name, "heartbeat.interval.ms") != 0)
            member->properties[n_kept++] = member->config.properties[i];
    }
    member->config.properties = member->properties;
    member->config.n_properties = n_kept;
}

void member_open(struct member *member)
{
    struct error error;
    if (member->config.group.protocol == GROUP_PROTOCOL_CONSUMER)
        drop_session(member);
    if (kafka_transport_open(&member->transport, &member->config, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void drop_jobs(struct member *member)
{
    for (size_t i = 0; i < member->n_jobs; i++)
        job_destroy(member->jobs[i]);
    member->n_jobs = 0;
}

void member_close(struct member *member)
{
    drop_jobs(member);
    if (member->transport)
        member->transport->impl->close(member->transport);
    member->transport = NULL;
}

void member_finish(struct member *member)
{
    char command[160];
    member_close(member);
    snprintf(command, sizeof command, "rm -rf %s", member->folder);
    assert_int_equal(system(command), 0);
}

// ---- receiving ----

static void copy_source(struct job *job, const struct record *record)
{
    struct job_source *source = &job->source;
    assert_true(job_set_text(job, &source->topic, record->topic));
    source->partition = record->partition;
    source->offset = record->offset;
    source->written_s = record->written_s;
    if (record->key.data)
        assert_true(job_set_text(job, &source->key, record->key));
    source->headers = arena_allocate_array(&job->arena, (size_t)record->n_headers, sizeof *source->headers);
    source->n_headers = record->n_headers;
    for (int32_t i = 0; i < record->n_headers; i++) {
        assert_true(job_set_text(job, &source->headers[i].name, record->headers[i].name));
        assert_true(job_set_text(job, &source->headers[i].value, record->headers[i].value));
    }
}

static void receive_record(void *context, const struct record *record)
{
    struct member *member = context;
    struct job *job = job_create();
    struct error error;
    enum encoding encoding;
    assert_true(member->n_jobs < MEMBER_JOBS_MAX);
    copy_source(job, record);
    enum status status =
        encoding_detect(record->content_type, record->value, &encoding)
            ? job_decode(job, record->value, encoding, &error)
            : error_set(&error, STATUS_REJECT, ERROR_INVALID_ENCODING, "neither JSON nor msgpack");
    if (status != STATUS_OK) {
        job_fail(job, &error);
        assert_true(job_set_text(job, &job->source.record, record->value));
    }
    member->last_attempts = record->attempts;
    member->jobs[member->n_jobs++] = job;
    member->n_received++;
}

static void cancel(void *context, struct text dataset, struct text job_id, int64_t until_s)
{
    struct member *member = context;
    member->n_cancels++;
    member->last_cancel_until_s = until_s;
    snprintf(member->last_cancel, sizeof member->last_cancel, "%.*s/%.*s", (int)dataset.size, dataset.data,
             (int)job_id.size, job_id.size ? job_id.data : "");
}

static void on_revoke(void *context)
{
    struct member *member = context;
    struct error error;
    member->n_revokes++;
    if (!member->commit_on_revoke)
        return;
    for (size_t i = 0; i < member->n_jobs; i++)
        member_answer(member->jobs[i]);
    if (member_commit_once(member, NULL, &error) != STATUS_OK)
        fprintf(stderr, "%s\n", error.text);
}

static void on_lost(void *context, const int32_t *partitions, size_t n_partitions)
{
    struct member *member = context;
    size_t used = 0;
    member->n_lost++;
    for (size_t i = 0; i < n_partitions && used < sizeof member->last_lost; i++)
        used += (size_t)snprintf(member->last_lost + used, sizeof member->last_lost - used, " %d",
                                 (int)partitions[i]);
}

enum status member_poll(struct member *member, int n_max, struct error *error)
{
    const struct transport_impl *impl = member->transport->impl;
    const struct transport_events events = {member,    receive_record, cancel,
                                            on_revoke, on_lost,        member->bytes_max};
    struct pollfd wait = {impl->fd(member->transport), POLLIN, 0};
    poll(&wait, 1, WAIT_MS);
    size_t n_before = member->n_received;
    enum status status = impl->poll(member->transport, 0, n_max, &events, error);
    assert_true(member->n_received - n_before <= (size_t)n_max);
    return status;
}

void member_receive(struct member *member, size_t n_jobs)
{
    int64_t until_ms = clock_ms() + PATIENCE_MS;
    while (member->n_jobs < n_jobs) {
        struct error error = {0};
        enum status status = member_poll(member, (int)(n_jobs - member->n_jobs), &error);
        if (status != STATUS_OK && status != STATUS_RETRY)
            fail_msg("%s", error.text);
        if (clock_ms() > until_ms)
            fail_msg("%zu of %zu jobs after %d ms: %s", member->n_jobs, n_jobs, PATIENCE_MS, error.text);
    }
}

void member_drain(struct member *member)
{
    int64_t until_ms = clock_ms() + PATIENCE_MS;
    while (!member->transport->impl->is_drained(member->transport)) {
        struct error error = {0};
        enum status status = member_poll(member, 500, &error);
        if (status != STATUS_OK && status != STATUS_RETRY)
            fail_msg("%s", error.text);
        if (clock_ms() > until_ms)
            fail_msg("not drained after %d ms: %s", PATIENCE_MS, error.text);
    }
}

// ---- finishing ----

void member_answer(struct job *job)
{
    if (job->result.status != RESULT_NONE)
        return;
    char text[512];
    snprintf(text, sizeof text, "answer to %.*s", (int)job->job_id.size, job->job_id.data);
    struct choice *choice = arena_allocate(&job->arena, sizeof *choice);
    assert_true(job_set_text(job, &choice->text, text_from_string(text)));
    choice->finish_reason = FINISH_STOP;
    choice->n_tokens = 3;
    job->result.status = RESULT_DONE;
    job->result.choices = choice;
    job->result.n_choices = 1;
    job->result.prompt_tokens = 2;
    job->result.completion_tokens = 3;
    job->figures.attempts = 1;
}

enum status member_commit_once(struct member *member, bool (*choose)(const struct job *job),
                               struct error *error)
{
    static struct job *chosen[MEMBER_JOBS_MAX];
    static bool committed[MEMBER_JOBS_MAX];
    size_t n_chosen = 0, n_kept = 0;
    for (size_t i = 0; i < member->n_jobs; i++) {
        if (choose && !choose(member->jobs[i]))
            continue;
        member_answer(member->jobs[i]);
        chosen[n_chosen++] = member->jobs[i];
    }
    enum status status =
        member->transport->impl->commit(member->transport, chosen, n_chosen, committed, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < member->n_jobs; i++) {
        if (choose && !choose(member->jobs[i]))
            member->jobs[n_kept++] = member->jobs[i];
    }
    member->n_jobs = n_kept;
    for (size_t i = 0; i < n_chosen; i++) {
        *(committed[i] ? &member->n_published : &member->n_dropped) += 1;
        job_destroy(chosen[i]);
    }
    return STATUS_OK;
}

static const struct job *only_job;

static bool is_only_job(const struct job *job)
{
    return job == only_job;
}

enum status member_commit_first(struct member *member, struct error *error)
{
    struct job *first = member->jobs[0];
    only_job = first;
    enum status status = member_commit_once(member, is_only_job, error);
    if (status != STATUS_OK) {
        memmove(member->jobs, member->jobs + 1, (member->n_jobs - 1) * sizeof *member->jobs);
        member->jobs[member->n_jobs - 1] = first;
    }
    return status;
}

void member_commit(struct member *member, bool (*choose)(const struct job *job))
{
    int64_t until_ms = clock_ms() + PATIENCE_MS;
    struct error error;
    for (;;) {
        enum status status = member_commit_once(member, choose, &error);
        if (status == STATUS_OK)
            return;
        if (status != STATUS_RETRY || clock_ms() > until_ms)
            fail_msg("%s", error.text);
        status = member_poll(member, 0, &error);
    }
}

int member_job_number(const struct job *job)
{
    return job->job_id.size > 4 ? atoi(job->job_id.data + 4) : -1;
}

void member_poll_well(struct member *member, int n_max)
{
    struct error error;
    enum status status = member_poll(member, n_max, &error);
    if (status != STATUS_OK && status != STATUS_RETRY)
        fail_msg("%s", error.text);
}

const struct kafka_transport *member_transport(const struct member *member)
{
    return (const struct kafka_transport *)member->transport;
}

size_t member_n_partitions(const struct member *member)
{
    struct partition_figures figures[FIGURES_MAX];
    size_t n = member->transport->impl->figures(member->transport, figures, FIGURES_MAX), n_owned = 0;
    assert_true(n <= FIGURES_MAX);
    for (size_t i = 0; i < n; i++)
        n_owned += !figures[i].is_past;
    return n_owned;
}
