// The Kafka transport from inside. Each file calls only those named before it:
//   kafka_state.c        state that all files query, and stopping
//   kafka_throttle.c     brokers' quotas
//   kafka_committed.c    reads the group's offsets
//   kafka_outdated.c     a jobs topic that was recreated
//   kafka_fleet.c        another fleet with this worker's group
//   kafka_membership.c   bounds the time without a place in the group
//   kafka_control.c      follows the control topic
//   kafka_gaps.c         offsets that retention deleted
//   kafka_refusals.c     delivery reports of refused records
//   kafka_reply.c        topics that jobs name for their results
//   kafka_publish.c      results and dead letters
//   kafka_isolation.c    retries refused records alone
//   kafka_calls.c        the calls of a transaction, and what their answers mean
//   kafka_verdict.c      whether an open transaction was committed
//   kafka_settle.c       ends transactions that a coordinator left open
//   kafka_transaction.c  commits
//   kafka_quiet.c        partitions without jobs to deliver
//   kafka_quarantine.c   records that are left unfinished
//   kafka_suspects.c     jobs that may have killed a worker
//   kafka_group.c        partitions assigned and revoked
//   kafka_past.c         figures of partitions that left this worker
//   kafka_idle.c         whether the queue is empty
//   kafka_stall.c        partitions whose next record can't be delivered
//   kafka_hindrance.c    obstacles to the work of a member of the group
//   kafka_namesake.c     another worker with this worker's name
//   kafka_connect.c      starts the transport
//   kafka.c              polls, and the transport's table
// Thread: main, all of it; librdkafka's threads run none of our code. kafka_metadata.h has its own thread.
#pragma once

#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/cancel.h"
#include "consumer/queue/kafka/client/kafka_handle.h"
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/client/kafka_metadata.h"
#include "consumer/queue/kafka/client/slot.h"
#include "consumer/queue/kafka/partition.h"

// ---- transactions ----

// A call without an answer in time leaves its transaction in doubt; the next call continues with it.
enum transaction_phase {
    TRANSACTION_NONE,
    TRANSACTION_COMMITTING,
    TRANSACTION_ABORTING,
    TRANSACTION_BROKEN,  // its producer has failed; a new one must fence it
    TRANSACTION_UNKNOWN, // fenced by a new producer: the group's offsets show its outcome
};

struct transaction_entry {
    int32_t partition;
    bool reported; // the caller has received its result
    int64_t offset;
};

// A transaction. Its entries are sorted by partition and offset.
struct transaction {
    enum transaction_phase phase;
    int64_t began_ms;
    struct transaction_entry *entries;
    size_t n_entries;
    rd_kafka_topic_partition_list_t *offsets; // the offsets to commit
    // Jobs that a transaction in doubt has published; the caller has not retried their commit yet.
    struct transaction_entry *unacknowledged;
    size_t n_unacknowledged;
};

// The search for records that brokers left undecided although their transaction is over.
struct kafka_settling {
    bool is_needed;   // the last transaction was not committed, or a dead process's may not have been
    bool is_sweeping; // an empty transaction, which must be aborted, is open to end others
    int n_sweeps;
    int64_t since_ms; // when something was first undecided, or the last sweep; 0: unknown
    // partitions that still have undecided records below the listed offset, the log end when the search
    // began; NULL: not searched yet
    rd_kafka_topic_partition_list_t *undecided;
};

// ---- refused records ----

enum {
    // refusals of a result alone in its batch, until an error result and a dead letter replace it
    KAFKA_REFUSALS_MAX = 3,
    KAFKA_GIVEN_UP_MAX = 8, // consecutive replaced results; with one more the topic is considered faulty
};

// Records that the broker refused, by their delivery reports. Valid for one commit; `named` is NULL outside.
struct kafka_refusals {
    uint32_t commit_id; // in the opaque of the commit's records, to ignore late reports
    bool *named;        // [n_jobs] of the commit
    size_t n_jobs, n_records;
    bool is_alone; // each record is sent in a batch of its own
    bool is_exact; // the broker named records, not batches
    // An error of this commit that is a fault of the host, not of a record: no record then counts as refused.
    rd_kafka_resp_err_t host_fault;
    rd_kafka_resp_err_t code; // code of the last refusal, also in an earlier commit
    int32_t partition;
    char topic[256];
    int32_t n_given_up; // consecutive results that were replaced, over all commits
};

// ---- the control topic ----

struct kafka_control {
    struct kafka_handle handle;
    struct cancel_set set;
    const struct partition_table *partitions; // partitions of the jobs topic
    int64_t *ends;                            // [n_partitions], at the start; -1: read
    int32_t n_partitions;
    int32_t n_unread; // partitions not yet read to their end
};

// ---- the transport ----

// This process among the group's workers.
struct kafka_identity {
    struct slot slot;
    char id[SLOT_GROUP_BYTES_MAX + SLOT_NAME_BYTES_MAX + 16]; // client.id, transactional.id
    uint64_t owner; // id of this process in the suspects' metadata (kafka_fleet.c)
    bool is_fleet_reported;
};

// The topics for results and dead letters.
struct kafka_outputs {
    rd_kafka_topic_t *results, *dead;
    size_t results_bytes_max, dead_bytes_max; // limits of a record
    bool dead_is_compacted;
    // Partitions of KAFKA_TOPIC_RESULTS and KAFKA_TOPIC_DEAD when the transaction began; 0: unknown.
    int32_t n_partitions[KAFKA_METADATA_TOPICS_MAX];
    int32_t n_in_sync_min[KAFKA_METADATA_TOPICS_MAX]; // min.insync.replicas of these topics; 0: unknown
    int64_t in_sync_asked_ms;                         // last query of unknown ones; 0: never
};

enum { KAFKA_HELD_IDS_BYTES = 96 }; // size without ", ..."

// Partitions of a list whose offsets a transaction holds, found over several calls.
struct kafka_held_search {
    int32_t first; // first partition of the list, to notice another list
    int n_partitions, next;
    // Partitions found in this pass over the list, and in the last complete pass.
    char ids[KAFKA_HELD_IDS_BYTES + 8], last_ids[KAFKA_HELD_IDS_BYTES + 8];
    bool is_cut; // `ids` has no room for more
};

// The member of the group: its assignment and rebalances.
struct kafka_group {
    rd_kafka_topic_partition_list_t *assigned;      // assigned, offsets not read yet; NULL: none
    rd_kafka_consumer_group_metadata_t *coming;     // member and generation of `assigned`
    rd_kafka_consumer_group_metadata_t *membership; // as of the last assignment; NULL: no partition is owned
    bool regrouped;                                 // a rebalance event was handled in this poll
    bool has_lost;                                  // partitions were revoked or lost since kafka_report_lost
    bool subscribed;
    bool idle_is_reported; // a message was logged that this worker has no partition
    bool is_expelled;      // the consumer had a fatal error
    int64_t rejoined_ms;   // 0: never
    int32_t n_partitions;  // partitions at the last kafka_confirm_drained; 0: none
    struct kafka_held_search held_search;
    int64_t held_since_ms; // since when the offsets of `assigned` cannot be read; 0: they can
};

// Time without confirmed membership.
struct kafka_outside {
    char waiting[ERROR_TEXT_BYTES]; // why the membership is not confirmed; "": confirmed
    int64_t time_ms;                // without confirmed membership while a broker answered
    int64_t looked_ms, queried_ms;  // last update of time_ms, and last query of librdkafka
    int64_t timeout_ms;             // limit of time_ms
};

// A worker without jobs is not ready if a transaction has held back its next jobs for this time. The time is
// the default of transaction.timeout.ms, so a transaction of a producer with the default has ended by then.
enum { KAFKA_HELD_UNREADY_MS = 60000 };

// State of checks that are made at intervals.
struct kafka_watch {
    int64_t watched_ms, idle_commit_ms; // last check of quiet partitions, last idle commit
    // Time without records after which a partition is compared with the log end.
    int quiet_ms;
    bool is_stuck;    // the consumer does not fetch available records
    bool is_outdated; // the group's offsets are older than ours; nothing is committed before they are read
    // The group's offsets were refused because the right Read on the jobs topic is missing. The worker waits
    // for it, because a restart would not help.
    bool lacks_read;
    int64_t read_looked_ms; // last query whether the right is back
    int gaps_interval_ms;   // between two queries of log starts
    int64_t gaps_looked_ms; // last query
    bool gaps_failed;       // the last query had no answer for some partition
    int figures_kept_ms;    // how long figures of a lost partition are kept: longer than a scraper's interval
    int64_t past_looked_ms; // last query of lost partitions' offsets
    int held_ms;            // a transaction that stays open for longer is reported
    int held_unready_ms;    // one open for longer keeps a worker without jobs from being ready
    int64_t held_looked_ms; // last search for held records
    int64_t stalls_looked_ms;
    int64_t committed_seen_ms;      // the group's offsets were read or committed (kafka_outdated.c)
    int64_t committed_look_from_ms; // they are not queried before
};

// Indices of the topics in kafka_hindrance's metadata.
enum { KAFKA_TOPIC_JOBS, KAFKA_TOPIC_RESULTS, KAFKA_TOPIC_DEAD, KAFKA_TOPIC_CONTROL };

// Obstacles to the work of a member of the group.
struct kafka_hindrance {
    struct kafka_metadata metadata; // of all topics
    bool is_reported[KAFKA_METADATA_TOPICS_MAX];
    bool silence_is_reported;
    int64_t down_ms;             // since when no broker is up; 0: a broker is up
    char held[ERROR_TEXT_BYTES]; // records that an open transaction holds back; "": none
    char text[ERROR_TEXT_BYTES]; // the obstacle; "": none
};

// Memory that is reused for each record and commit.
struct kafka_scratch {
    struct buffer value, map;
    struct record_headers headers;
    struct header record_headers[KAFKA_HEADERS_MAX], passed_headers[KAFKA_HEADERS_MAX];
};

struct kafka_clients {
    struct kafka_handle consumer, producer;
    struct kafka_asking asking; // for the group's members
};

struct kafka_intake {
    // The partitions' records, separate from group events: records beyond the window wait here while group
    // events are served. Pausing the partitions would discard fetched records.
    rd_kafka_queue_t *records;
    const struct transport_events *events; // during poll
    int64_t n_bytes;                       // bytes of the records delivered by this poll
    int64_t now_ms;                        // time of this poll's search for records
    int wake_file;                         // eventfd
    bool paused;
};

// How long a call of librdkafka may exceed its own timeout. After that a new producer replaces the one that
// made the call.
enum { KAFKA_PATIENCE_MS = 10000 };

struct kafka_throttling {
    int64_t jobs_max;         // jobs of a transaction; 0: no limit
    int64_t total_ms_before;  // the producer's throttle time when the transaction began
    int64_t patient_until_ms; // a last commit waits for a throttle that ends by this time
    int64_t warned_ms;
    int socket_timeout_ms;   // the producer's
    bool are_limits_refused; // brokers refuse a longer transaction.timeout.ms
};

enum { KAFKA_TOPIC_NAME_BYTES = 250 }; // with its NUL

// A topic that jobs named for their results.
struct kafka_reply_topic {
    char name[KAFKA_TOPIC_NAME_BYTES];
    rd_kafka_topic_t *handle; // NULL: there is no such topic for this worker
    size_t bytes_max;         // max.message.bytes
    int64_t checked_ms;       // last lookup
    int64_t used_ms;          // last job
    int n_missing;            // consecutive lookups that did not find it
};

enum { KAFKA_REPLY_TOPICS_MAX = 64 }; // known at a time; the one checked first is forgotten for another

struct kafka_replies {
    struct kafka_reply_topic topics[KAFKA_REPLY_TOPICS_MAX];
    int n_topics;
    bool is_stale;     // a record was not delivered: what is known is looked up again
    bool has_warned;   // of a header without --reply-topics
    char refusal[512]; // of the record that is being delivered
};

struct kafka_publishing {
    struct kafka_replies replies;
    struct kafka_outputs outputs;
    struct kafka_refusals refusals;
    struct transaction transaction;
    struct kafka_settling settling;
    struct kafka_throttling throttling;
    int transaction_timeout_ms;
    int patience_ms;                  // KAFKA_PATIENCE_MS; tests set less
    struct kafka_offsets_call *stuck; // a call of the producer that did not return; NULL: none
    struct kafka_scratch scratch;
};

struct kafka_transport {
    struct transport base;
    const struct kafka_config *config;
    struct kafka_identity identity;
    struct kafka_clients clients;
    struct kafka_intake intake;
    struct kafka_control control;
    struct kafka_group group;
    struct kafka_outside outside;
    struct kafka_watch watch;
    struct kafka_hindrance hindrance;
    struct partition_table partitions;
    bool alone; // a job is computed alone
    struct kafka_publishing publishing;
    struct kafka_figures figures;
    struct error stopped; // STATUS_OK: running; else the error of every further call
};

// ---- kafka_state.c ----

// True if, as far as known, no broker is up; kafka_hindrance_look detects one.
bool kafka_is_down(const struct kafka_transport *kafka);
// Makes all later calls fail with `error`. Returns its status.
enum status kafka_stop(struct kafka_transport *kafka, const struct error *error);
// Makes all later calls fail because the jobs topic was recreated.
enum status kafka_stop_outdated(struct kafka_transport *kafka, const char *how, struct error *error);
bool kafka_is_cooperative(const struct kafka_transport *kafka);
// Stops because another worker has our name; `what` is the call that showed it. Returns STATUS_RESTART.
enum status kafka_stop_fenced(struct kafka_transport *kafka, const char *what, struct error *error);
// True if the code means that no coordinator answered, or that the broker that answered is not the
// coordinator.
bool kafka_is_unreachable(rd_kafka_resp_err_t code);

// ---- kafka_committed.c ----

// Sets STATUS_RETRY: "WHAT: the worker needs the right Read on topic ...".
enum status kafka_wait_for_read(const struct kafka_transport *kafka, const char *what, struct error *error);
// Reads the group's offsets and metadata of the listed partitions. STATUS_RETRY: temporarily unavailable.
enum status kafka_read_committed(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list,
                                 int timeout_ms, struct error *error) WARN_UNUSED;
// Starts a map at the committed offset, and sets the suspects (NULL: not needed).
enum status kafka_restart_map(const struct kafka_transport *kafka, struct offset_map *map,
                              struct suspects *suspects, const rd_kafka_topic_partition_t *committed,
                              struct error *error) WARN_UNUSED;

// ---- kafka_outdated.c ----

// STATUS_RESTART: the group had a committed offset of the partition and has none, so the jobs topic was
// recreated.
enum status kafka_outdated_judge(struct kafka_transport *kafka, const struct partition *partition,
                                 const rd_kafka_topic_partition_t *committed,
                                 struct error *error) WARN_UNUSED;
// The same for all owned partitions. Called in each poll; queries the coordinator at intervals.
enum status kafka_outdated_look(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// The same before a commit, which would restore the offset, so at shorter intervals.
enum status kafka_outdated_check(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;

// ---- kafka_fleet.c ----

uint64_t kafka_fleet_owner(const struct kafka_config *config, uint64_t random);
// Warns, once, if the process that committed the offset writes to another results topic.
void kafka_fleet_compare(struct kafka_transport *kafka, const rd_kafka_topic_partition_t *committed);

// ---- kafka_group.c ----

enum status kafka_group_open(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Joins the group.
enum status kafka_group_join(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Replaces the consumer after its fatal error, which is in `error`. STATUS_RESTART: it is the second time
// within a minute.
enum status kafka_group_rejoin(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Replaces a consumer that no longer fetches.
enum status kafka_group_renew(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Releases the partitions, leaves the group and closes the consumer within the deadline. If no broker
// answers, or a rebalance does not end in time, the group keeps a static member until its session expires.
void kafka_group_leave(struct kafka_transport *kafka, bool is_answered, int64_t deadline_ms);
void kafka_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t *list,
                     void *opaque);
// Starts the assigned partitions from their committed offsets. STATUS_RETRY: call again.
enum status kafka_begin_assigned(struct kafka_transport *kafka, int timeout_ms,
                                 struct error *error) WARN_UNUSED;
// Reports the partitions with running jobs that another worker owns now, once the membership of the new
// assignment is known.
void kafka_report_lost(struct kafka_transport *kafka);
// Checks the group's committed offset maps, before joining.
enum status kafka_check_committed(struct kafka_transport *kafka, int timeout_ms,
                                  struct error *error) WARN_UNUSED;
// Must be called before the consumer is closed.
void kafka_group_drop_records(struct kafka_transport *kafka);
// Pauses, resumes and rewinds partitions as needed.
void kafka_steer_partitions(struct kafka_transport *kafka);

// ---- kafka_membership.c ----

void kafka_drop_metadata(rd_kafka_consumer_group_metadata_t **metadata);
// Sets `membership` for the current assignment. NULL if librdkafka now has another member id or
// generation.
void kafka_take_membership(struct kafka_transport *kafka);
// Must be called before a commit collects the owned partitions.
void kafka_refresh_membership(struct kafka_transport *kafka);
// Asks the coordinator to confirm `assigned`. STATUS_RETRY: it does not, or not yet.
enum status kafka_confirm_assigned(struct kafka_transport *kafka, int timeout_ms,
                                   struct error *error) WARN_UNUSED;
// Called when the listed partitions are being revoked. Saves the membership in which they can still be
// committed.
void kafka_confirm_revoked(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list,
                           int timeout_ms);
// Called in each poll. `why` is the poll's last transient error. STATUS_RESTART: membership was not confirmed
// for too long.
enum status kafka_watch_membership(struct kafka_transport *kafka, const struct error *why,
                                   struct error *error) WARN_UNUSED;

// ---- kafka_gaps.c ----

// `next` is the offset of the next record or the log end. Called before the map is updated.
void kafka_gaps_note(const struct kafka_transport *kafka, struct partition *partition, int64_t next);
// Queries the log starts of all partitions with gaps, in one call. STATUS_RETRY: gaps without an answer
// remain. STATUS_REFUSE: retention deleted records that were not read, and config->refuse_deleted.
enum status kafka_gaps_explain(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// The same, if the last query is long enough ago. Never returns STATUS_RETRY.
enum status kafka_gaps_look(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Warns of a committed offset without our metadata, set by kafka-consumer-groups or another consumer.
void kafka_gaps_warn_of_others(const struct kafka_transport *kafka,
                               const rd_kafka_topic_partition_t *committed);
// Warns once if this worker is a member without partitions.
void kafka_gaps_warn_when_idle(struct kafka_transport *kafka);

// ---- kafka_quiet.c ----

// Commits the positions of partitions whose jobs are all finished, and the maps of partitions with gaps after
// a running job, at most once a second. Control records and compaction move the end of a partition beyond its
// last job: without this commit they would count as unfinished jobs until the next job is finished.
void kafka_quiet_commit(struct kafka_transport *kafka);
// Compares partitions that are quiet for watch.quiet_ms with the log's end: librdkafka may stop fetching a
// partition (its issue 5591, open). The partition is rewound and, if that does not help, fetched by a new
// consumer (watch.is_stuck).
void kafka_quiet_compare(struct kafka_transport *kafka);

// ---- kafka_quarantine.c ----

// Implements the transport's `quarantine`.
void kafka_quarantine(struct transport *transport, int32_t id, int64_t offset);
// Releases the quarantined records of a partition that leaves this worker.
void kafka_quarantine_release(struct partition *partition);
// Writes where quarantined records are; leaves `text` unchanged if there are none.
void kafka_quarantine_describe(const struct kafka_transport *kafka, char *text, size_t size);

// ---- kafka_suspects.c ----

// Implements the transport's `start`.
enum status kafka_start(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                        enum suspect_state how, struct error *error);
// Marks partitions that are being revoked and whose jobs are no longer computed. The next commit, or the
// commit of kafka_say_leaving, records it. `list` NULL: all owned partitions.
void kafka_mark_leaving(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list);
bool kafka_has_to_say_leaving(const struct kafka_transport *kafka);
void kafka_say_leaving(struct kafka_transport *kafka);

// ---- kafka_namesake.c ----

// Waits until no other worker with this worker's name can be alive. Called before the worker uses the name.
// STATUS_RESTART: another one is alive. Returns early if config->is_stopping.
enum status kafka_namesake_await(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;

// ---- kafka_connect.c ----

// Takes the slot, checks topics and offset maps, opens all clients.
enum status kafka_connect(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;

// ---- kafka_past.c ----

// Called in each poll.
void kafka_past_look(struct kafka_transport *kafka);

// ---- kafka_idle.c ----

// Reports partitions whose records an open transaction holds back. Called in each poll.
void kafka_watch_held(struct kafka_transport *kafka);
// Makes librdkafka notice added partitions, or a topic that it may read again. It queries them only every 5
// minutes (topic.metadata.refresh.interval.ms), and its group code reads only an answer that lists all
// topics.
void kafka_find_added(struct kafka_transport *kafka);
// The transport's is_drained and confirm_drained.
bool kafka_is_drained(struct transport *transport);
bool kafka_confirm_drained(struct transport *transport);

// ---- kafka_stall.c ----

// True if the consumer's error means that the next record of a partition cannot be delivered. May deliver a
// record in place of the batch.
bool kafka_stall_note(struct kafka_transport *kafka, const rd_kafka_message_t *message);
// A record or the end of the partition arrived at `offset`: ends the stall. False: the caller drops the
// record, because a probe fetched it or it will be fetched again.
bool kafka_stall_end(struct kafka_transport *kafka, struct partition *partition, int64_t offset);
// Called in each poll.
void kafka_stall_look(struct kafka_transport *kafka);
// Writes which partition is stalled; leaves `text` unchanged if none is.
void kafka_stall_describe(const struct kafka_transport *kafka, char *text, size_t size);

// ---- kafka_hindrance.c ----

enum status kafka_hindrance_open(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Called in each poll. STATUS_RESTART: the jobs topic no longer exists, and some of it was delivered here.
enum status kafka_hindrance_look(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
const char *kafka_waiting(struct transport *transport);

// ---- kafka_reply.c ----

// Sets the record's reply_topic, or `refused`, from its headers. The texts are valid until the next call.
void kafka_reply_read(struct kafka_transport *kafka, struct record *record);
// Looks up the job's reply topic, unless it is known. STATUS_REJECT: there is none for this worker.
enum status kafka_reply_check(struct kafka_transport *kafka, const struct job *job, int64_t deadline_ms,
                              struct error *error) WARN_UNUSED;
// The job's reply topic after kafka_reply_check, valid until its next call.
const struct kafka_reply_topic *kafka_reply_known(const struct kafka_transport *kafka, const struct job *job);
// A topic that the open transaction writes to and that does not exist any more. NULL: none.
const char *kafka_reply_find_lost(struct kafka_transport *kafka);
// Before the producer is closed.
void kafka_reply_forget(struct kafka_transport *kafka);

// ---- kafka_publish.c ----

// Opens the producer, replacing an existing one. STATUS_RETRY: no coordinator is available.
enum status kafka_publish_open(struct kafka_transport *kafka, int timeout_ms,
                               struct error *error) WARN_UNUSED;
void kafka_publish_close(struct kafka_transport *kafka, int64_t deadline_ms);
// Must be called when a transaction begins.
void kafka_publish_note_topics(struct kafka_transport *kafka);
// Returns the name of an output topic that was deleted, or recreated with another partition count, since the
// transaction began; NULL: none. librdkafka keeps messages for its old partitions in the queue until the
// transaction times out. Queries the brokers without waiting, so a later call sees the answer.
const char *kafka_publish_find_lost(struct kafka_transport *kafka);
// STATUS_RETRY: a topic that the jobs' records go to was deleted.
enum status kafka_publish_check_topics(const struct kafka_transport *kafka, struct job *const *jobs,
                                       size_t n_jobs, struct error *error) WARN_UNUSED;
// Produces a job's records: its result, and the original record if it is a dead letter; none of a repeated job. A result that is too
// large is replaced by an error result.
enum status kafka_publish_job(struct kafka_transport *kafka, struct job *job, size_t index,
                              int64_t deadline_ms, struct error *error) WARN_UNUSED;
// Adds to the `error` of a commit an output topic whose in-sync replicas are fewer than min.insync.replicas,
// if there is one. librdkafka retries records refused for that reason, and reports only a timeout.
void kafka_publish_name_replicas(struct kafka_transport *kafka, struct error *error);
// Reads max.message.bytes again, which may have been lowered. STATUS_REFUSE: below the minimum.
enum status kafka_publish_read_limits(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Flushes the producer. STATUS_RETRY, ERROR_RESULT_REFUSED: the broker refused a record of this commit.
enum status kafka_publish_flush(struct kafka_transport *kafka, int64_t deadline_ms,
                                struct error *error) WARN_UNUSED;
// Does the work of kafka_publish_job and waits until the broker has acknowledged the records, each in a batch
// of its own.
enum status kafka_publish_job_alone(struct kafka_transport *kafka, struct job *job, size_t index,
                                    int64_t deadline_ms, struct error *error) WARN_UNUSED;
// Fails the job because the broker refused its result, and saves its record for the dead letter.
enum status kafka_publish_give_up(struct kafka_transport *kafka, struct job *job, const struct error *refused,
                                  struct error *error) WARN_UNUSED;

// ---- kafka_refusals.c ----

// Starts recording refusals for a commit of n_jobs.
enum status kafka_refusals_begin(struct kafka_refusals *refusals, size_t n_jobs,
                                 struct error *error) WARN_UNUSED;
void kafka_refusals_end(struct kafka_refusals *refusals);
// Returns the opaque for a record of job number `index` of the commit.
void *kafka_refusals_opaque(const struct kafka_refusals *refusals, size_t index);
// Records the error of a delivery report or of rd_kafka_produce.
void kafka_refusals_add(struct kafka_refusals *refusals, const void *opaque, rd_kafka_resp_err_t code,
                        const char *topic, int32_t partition);
// Records that a job's result was published.
void kafka_refusals_published(struct kafka_refusals *refusals, const struct job *job);

// ---- kafka_isolation.c ----

// After a commit that failed with `error`: adds the refusals to the jobs and replaces results that were
// refused too often. STATUS_RETRY: commit the jobs again, refused ones alone; the code is
// ERROR_RESULT_REFUSED if records were refused. STATUS_REFUSE: the topic refuses every record.
enum status kafka_isolation_count(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                                  struct error *error) WARN_UNUSED;

// ---- kafka_throttle.c ----

// Returns the milliseconds for which a broker will read nothing from the producer; 0: not throttled.
int kafka_throttled_ms(const struct kafka_transport *kafka);
bool kafka_is_throttled(const struct kafka_transport *kafka); // for long enough to matter
// Puts "throttled by the broker ..." before the error's text while a broker throttles.
void kafka_throttle_explain(const struct kafka_transport *kafka, struct error *error);
// Called before a transaction begins. STATUS_RETRY: a broker throttles, and for longer than until
// throttling.patient_until_ms.
enum status kafka_throttle_await(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// Called when a transaction begins, and (learn) when its records were sent: limits the number of jobs of the
// next transactions by the throttle time that this one caused.
void kafka_throttle_begin(struct kafka_transport *kafka);
void kafka_throttle_learn(struct kafka_transport *kafka);
// True if a throttle lasts longer than the requests' timeout. Records that wait on the connection would then
// time out there, and the producer would fail.
bool kafka_throttle_outlasts_requests(const struct kafka_transport *kafka);
// Sets longer timeouts for a new producer after long throttles, unless the user set them.
void kafka_throttle_set_limits(struct kafka_transport *kafka, rd_kafka_conf_t *conf);
// The transport's commit_advice.
void kafka_commit_advice(struct transport *transport, struct commit_advice *advice);

// ---- kafka_calls.c ----

enum kafka_outcome { KAFKA_OUTCOME_DONE, KAFKA_OUTCOME_RETRY, KAFKA_OUTCOME_ABORT, KAFKA_OUTCOME_BROKEN };

// Returns the timeout for a call that must be made at least once.
int kafka_call_ms(int64_t deadline_ms);
// True if the call should be repeated now; waits a little.
bool kafka_try_again(struct kafka_transport *kafka, enum kafka_outcome outcome, int64_t deadline_ms);
// Classifies a fault (NULL: none) and destroys it; sets `error` if there is one. Stops the transport if
// access was denied, or another worker has our id.
enum kafka_outcome kafka_judge(struct kafka_transport *kafka, rd_kafka_error_t *fault, const char *what,
                               struct error *error);
// Called when the producer has failed. A new producer continues after it has determined the outcome of the
// transaction.
enum status kafka_give_up_producer(struct kafka_transport *kafka, const struct error *error);
// Makes one call; the caller repeats it.
enum kafka_outcome kafka_send_offsets(struct kafka_transport *kafka,
                                      const rd_kafka_topic_partition_list_t *offsets,
                                      const rd_kafka_consumer_group_metadata_t *group, int64_t deadline_ms,
                                      const char *what, struct error *error);
// Sends offsets without a group member, in a transaction that is aborted later. Repeats the call.
enum kafka_outcome kafka_send_no_offsets(struct kafka_transport *kafka, int64_t deadline_ms, const char *what,
                                         struct error *error);

// ---- kafka_verdict.c ----

// Removes the partitions whose first open transaction was committed by this worker or, with `is_first` (this
// process has committed nothing yet), by any worker. *n_others: partitions that stay in the list although
// another worker committed their first open transaction. STATUS_RETRY: the records could not be read in time.
enum status kafka_verdict_keep(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *undecided,
                               bool is_first, int *n_others, struct error *error) WARN_UNUSED;

// ---- kafka_settle.c ----

// Makes the next kafka_settle search for undecided records.
void kafka_settle_begin(struct kafka_transport *kafka);
// Waits until no ended transaction of ours is still open in a partition, and aborts those that stay open. The
// transaction's phase must be TRANSACTION_NONE or TRANSACTION_UNKNOWN. STATUS_RETRY: call again, after
// TRANSACTION_BROKEN with a new producer. May set watch.is_outdated.
enum status kafka_settle(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error) WARN_UNUSED;
void kafka_settle_finish(struct kafka_transport *kafka);
// CRC-32 of a committed offset and its metadata; one value for all partitions without an offset.
uint32_t kafka_saved_crc(const rd_kafka_topic_partition_t *saved);

// ---- kafka_transaction.c ----

enum status kafka_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs, bool *committed,
                         struct error *error);
// True if the job is in a transaction whose outcome is unknown.
bool kafka_transaction_has(const struct kafka_transport *kafka, const struct job *job);
// Continues a transaction in doubt. STATUS_OK: none is in doubt now.
// Whether a transaction whose outcome is not known has the job.
bool kafka_transaction_has(const struct kafka_transport *kafka, const struct job *job);
enum status kafka_transaction_resolve(struct kafka_transport *kafka, int64_t deadline_ms,
                                      struct error *error) WARN_UNUSED;
// The same, but does not wait for a throttle. If a broker throttles, replaces the producer; the next
// transaction may use the new one for offsets alone.
enum status kafka_transaction_hurry(struct kafka_transport *kafka, int64_t deadline_ms,
                                    struct error *error) WARN_UNUSED;
// Asks the coordinator, in a transaction that is aborted, whether another process has begun transactions with
// our id since this process began its own. STATUS_RESTART: another one has.
enum status kafka_transaction_check_id(struct kafka_transport *kafka, int64_t deadline_ms,
                                       struct error *error) WARN_UNUSED;
void kafka_transaction_finish(struct kafka_transport *kafka);

// ---- kafka_control.c ----

// Limit of each of two waits at start: for the transaction coordinator, which may first have to abort a
// predecessor's transaction, and for the control topic's leader.
enum { KAFKA_START_PATIENCE_MS = 30000 };

enum status kafka_control_open(struct kafka_control *control, const struct kafka_config *config,
                               const char *id, int wake_file, int patience_ms,
                               struct error *error) WARN_UNUSED;
// Reads a recreated control topic from its beginning. Earlier cancellations stay valid. After an error call
// it again.
enum status kafka_control_reopen(struct kafka_transport *kafka, int32_t n_partitions,
                                 struct error *error) WARN_UNUSED;
// Reads available records. At the start, until the topic has been read to its end, waits up to timeout_ms.
enum status kafka_control_poll(struct kafka_control *control, int timeout_ms,
                               const struct transport_events *events, struct error *error) WARN_UNUSED;
void kafka_control_close(struct kafka_control *control, int64_t deadline_ms);
