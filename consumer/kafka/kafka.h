// Kafka as a transport: the state of the work lives in the group's committed offsets and follows a partition
// to whichever worker owns it next. One short transaction a commit holds results, dead letters and offsets,
// the offset map (offset_map.h) being the offset's metadata. Broker 2.5 or newer.
#pragma once

#include "consumer/transport.h"

enum {
    KAFKA_START_TIMEOUT_MS = 10000,  // for a broker to answer at start
    KAFKA_COMMIT_TIMEOUT_MS = 10000, // for one commit; then it is to be called again
    KAFKA_CLOSE_TIMEOUT_MS = 10000,
    KAFKA_HEADERS_MAX = 1024,     // of one record; those beyond are left out, which a dead letter tells
    KAFKA_PARTITIONS_MAX = 65536, // of the jobs topic
};

// A librdkafka property, as `-X name=value` gives it. Values may be secrets: they are never put into a text.
struct kafka_property {
    const char *name;
    const char *value;
};

// How the group shares its partitions. All of its workers have the same one.
enum group_protocol {
    GROUP_PROTOCOL_EAGER,       // a rebalance revokes all partitions
    GROUP_PROTOCOL_COOPERATIVE, // a rebalance revokes those that move; librdkafka 2.6.1
    GROUP_PROTOCOL_CONSUMER,    // KIP-848: the coordinator assigns; librdkafka 2.12, Kafka 4.0
};

// What it points to must live as long as what was opened with it.
struct kafka_config {
    const char *brokers; // HOST:PORT[,HOST:PORT...]
    const char *jobs;    // topics
    const char *results;
    const char *dead;
    const char *control; // NULL: no cancelling
    const char *group;
    const char *directory;                   // where the worker's slot (slot.h) stands: beside the store
    const char *member_name;                 // NULL: the slot's; the group's member and the transaction are called so
    const char *worker;                      // this worker's name, in the results' headers
    const struct kafka_property *properties; // for all clients, over our own settings
    size_t n_properties;
    bool create_topics;      // those that are missing; else a missing topic is an error
    int32_t n_partitions;    // of topics created here; 0: the broker's default. dead and control get one
    enum group_protocol protocol;
    bool dynamic_membership; // leave the group at close; else the worker's slot is a static member (KIP-345)
    bool refuse_deleted;     // end when records were deleted before the group had read them, instead of a warning
    bool accept_unknown_map; // an unknown or damaged offset map counts as empty: jobs may be answered twice
    int start_timeout_ms;    // 0: KAFKA_START_TIMEOUT_MS
    int64_t membership_timeout_ms; // without a confirmed place in the group the worker ends; 0: 3 * max.poll.interval.ms
    // librdkafka's own log lines; `level` is syslog's. Thread: the caller of poll. NULL: dropped.
    void (*log)(void *context, int level, const char *line);
    void *log_context;
};

// Totals since the transport was opened.
struct kafka_figures {
    int64_t n_commits; // transactions, those that only moved offsets too
    int64_t n_aborts;
    int64_t n_producers;         // that took over from one that could not go on
    int64_t n_rejoins;           // consumers, likewise
    int64_t n_rebalances;        // partitions assigned
    int64_t n_pauses, n_resumes; // of partitions, each one counted
    int64_t n_rewinds;           // partitions that were made to fetch again
    int64_t n_skipped;           // records delivered again that were done, or are running
    int64_t n_tombstones;        // records without a value
    int64_t n_deleted;           // records that were deleted before they were read
    int64_t n_dropped;           // finished jobs that were no longer ours to publish
    int64_t n_refused;           // records, by the broker
    int64_t n_oversize;          // results and dead letters the topic did not take whole
    int32_t map_bytes_max;       // longest offset map of the last commit
    int64_t commit_us;           // time of the last commit
    bool is_member;              // of the group, as its coordinator confirmed; perhaps without partitions
};

// Checks brokers, topics and what the group committed, and takes a slot; joins the group at the first poll,
// after the control topic was read whole. STATUS_REFUSE: no broker answers, a topic is missing, a property is
// wrong, an offset map is not ours.
enum status kafka_transport_open(struct transport **transport, const struct kafka_config *config,
                                 struct error *error) WARN_UNUSED;
// "2.0.2": of the library that is loaded, which may be another one than that of the build.
const char *kafka_library_version(void);
// "eager", "cooperative" or "consumer".
bool kafka_find_protocol(const char *name, enum group_protocol *protocol);
// Of a transport that kafka_transport_open made.
const struct kafka_figures *kafka_transport_figures(const struct transport *transport);
