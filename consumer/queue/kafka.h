// The Kafka transport. All state is in the consumer group's committed offsets, so it follows a partition to
// its next owner. Each commit is one short transaction with results, dead letters and offsets; the offset map
// (offset_map.h) is the offset's metadata. Broker 2.5 or newer (KIP-447).
#pragma once

#include "consumer/queue/transport.h"

enum {
    KAFKA_START_TIMEOUT_MS = 10000,  // limit for a broker's answer at start
    KAFKA_COMMIT_TIMEOUT_MS = 10000, // limit for one commit; then the caller retries
    KAFKA_CLOSE_TIMEOUT_MS = 10000,
    KAFKA_GRACE_MS = 2000,        // time for running jobs after a stop; then other workers compute them
    KAFKA_HEADERS_MAX = 1024,     // per record; further ones are dropped, which a dead letter reports
    KAFKA_PARTITIONS_MAX = 65536, // partitions of the jobs topic
};

// A librdkafka property, as `-X name=value` gives it. Values may be secrets and are never printed.
struct kafka_property {
    const char *name;
    const char *value;
};

// The group's rebalance protocol, the same for all its workers.
enum group_protocol {
    GROUP_PROTOCOL_EAGER,       // a rebalance revokes all partitions
    GROUP_PROTOCOL_COOPERATIVE, // a rebalance revokes only partitions that move; needs librdkafka 2.6.1
    GROUP_PROTOCOL_CONSUMER,    // KIP-848: the coordinator assigns; librdkafka 2.12, Kafka 4.0
};

struct kafka_topic_names {
    const char *jobs;
    const char *results;
    const char *dead;
    const char *control;  // control topic; NULL: no cancellation
    bool create;          // create missing topics; false: a missing topic is an error
    int32_t n_partitions; // partitions of created topics; 0: the broker's default. dead and control get one
};

struct kafka_group_config {
    const char *name;
    const char *member_name; // group.instance.id and transactional.id; NULL: the slot's id
    enum group_protocol protocol;
    bool is_dynamic; // else the worker's slot is a static member (KIP-345); both leave the group at close
    // The worker ends after this time without confirmed membership; 0: 3 * max.poll.interval.ms.
    int64_t membership_timeout_ms;
};

// Everything it points to must outlive the transport or client opened with it.
struct kafka_config {
    const char *brokers; // HOST:PORT[,HOST:PORT...]
    struct kafka_topic_names topics;
    struct kafka_group_config group;
    const char *directory;    // folder of the worker's slot (slot.h): the store's
    const char *worker;       // this worker's name, for the headers of results
    const char *pass_headers; // `also` of headers_pass (headers.h)
    const char *reply_topics; // topics that a job's header may name, separated by commas; NULL: such headers
                              // have no effect
    const struct kafka_property *properties; // for all clients, overriding our settings
    size_t n_properties;
    bool refuse_deleted;  // if records were deleted before they were read, end instead of warning
    bool skip_unreadable; // skip unreadable batches; else their partitions wait
    // Maximum bytes of a response and of a decompressed batch (receive.message.max.bytes); 0: librdkafka's
    // default.
    int64_t receive_bytes_max;
    bool accept_unknown_map; // treat an unknown or damaged offset map as empty: jobs may be answered twice
    int submission_ms;       // timeout of a submission's transaction; at least KAFKA_SUBMIT_TRANSACTION_MS
    // Limit of waiting at start for topics and for the transaction coordinator; 0: KAFKA_START_TIMEOUT_MS and
    // KAFKA_START_PATIENCE_MS.
    int start_timeout_ms;
    // Called several times a second while the transport opens. Returning true ends the opening early. NULL:
    // never.
    bool (*is_stopping)(void *context);
    void *stop_context;
    // Receives librdkafka's log lines; `level` is a syslog level. Thread: the caller of poll. NULL: lines are
    // dropped.
    void (*log)(void *context, int level, const char *line);
    void *log_context;
};

struct kafka_record_figures {
    int64_t n_skipped;    // redelivered records of finished or running jobs
    int64_t n_tombstones; // records without a value
    int64_t n_deleted;    // records deleted before they were read
    int64_t n_refused;    // records that the broker refused
    int64_t n_reply_lost; // results whose reply topic does not exist
    int64_t n_oversize;   // results and dead letters that exceed the topic's limit
};

// Totals since the transport was opened.
struct kafka_figures {
    int64_t n_commits; // transactions, including those with offsets only
    int64_t n_aborts;
    int64_t n_producers;         // producers replaced after a fatal error
    int64_t n_rejoins;           // consumers replaced after a fatal error
    int64_t n_rebalances;        // rebalances that assigned partitions
    int64_t n_pauses, n_resumes; // pauses and resumes of single partitions
    int64_t n_rewinds;           // rewinds of single partitions, to fetch records again
    struct kafka_record_figures records;
    int64_t n_gap_queries; // queries of log starts, each for all partitions with gaps
    int64_t n_dropped;     // finished jobs of revoked partitions
    int32_t map_bytes_max; // longest offset map of the last commit
    int64_t commit_us;     // time of the last commit
    int64_t throttled_ms;  // sum of the throttle times in all responses
    bool is_member;        // confirmed by the coordinator; may have no partitions
};

// Checks whether names and properties can be used, without asking a broker. STATUS_REFUSE with ERROR_USAGE.
enum status kafka_check_config(const struct kafka_config *config, struct error *error) WARN_UNUSED;
// Checks brokers, topics and the group's committed offset maps, and takes a slot. Joins the group at the
// first poll, after reading the whole control topic. STATUS_REFUSE: no broker answers, a topic is missing, a
// property is invalid, an offset map is foreign, or config->is_stopping.
enum status kafka_transport_open(struct transport **transport, const struct kafka_config *config,
                                 struct error *error) WARN_UNUSED;
// Returns the version of the loaded library, such as "2.0.2". It may differ from the version of the build.
const char *kafka_library_version(void);
// Finds a protocol by its name: "eager", "cooperative" or "consumer".
bool kafka_find_protocol(const char *name, enum group_protocol *protocol);
// The transport must be from kafka_transport_open.
const struct kafka_figures *kafka_transport_figures(const struct transport *transport);
