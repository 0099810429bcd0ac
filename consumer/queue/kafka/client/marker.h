// The progress marker of a submission over Kafka: a record of the control topic, written in the same
// transaction as the jobs that it counts. The next submission of the dataset continues after these lines, and
// collect knows the number of answers. The topic is compacted: the newest record of a key is valid, and a
// tombstone (empty value) deletes the marker. The topic has other records, too (cancel.h).
//
//   key    ["submit", JOBS_TOPIC, DATASET]
//   value  {"topic", "dataset", "lines", "jobs", "fingerprint", "complete", "created", "partition", "offset"}
//
// A search of the jobs topic finds the datasets on it that have no marker. Its outcome is another record of
// the control topic (versions without the search take it for an invalid marker):
//
//   key    ["submit", JOBS_TOPIC]
//   value  {"topic", "start", "unmarked": [DATASET, ...]}
#pragma once

#include "schemas/base/arena.h"
#include "schemas/base/error.h"
#include "schemas/base/text.h"
#include "schemas/value.h"

#include <stdbool.h>
#include <stdint.h>

// Limits of a key or value, and of a topic's name (the brokers' limit).
enum { MARKER_BYTES_MAX = 16384, MARKER_TOPIC_BYTES_MAX = 249 };

struct marker {
    struct text topic; // topic of the jobs
    struct text dataset;
    int64_t n_lines; // lines of the input, as in struct input_position
    int64_t n_jobs;
    uint64_t fingerprint; // hash of these lines; below 2^63
    bool complete;        // the input ended there
    int64_t created_s;    // creation time of the jobs, seconds since 1970 UTC
    int32_t partition;    // place of one of the last jobs, with `offset`; -1: none
    int64_t offset;
    bool is_withdrawn; // a tombstone; only topic and dataset are set
};

// Datasets on the jobs topic that had no marker when it was searched. Other producers or versions without
// markers wrote them, or their markers were lost with the control topic. All other datasets on the topic had
// a marker then, and later submissions write one.
struct marker_search {
    struct text topic;
    int64_t start; // kafka_topic_start of the control topic: while it is the same, no marker was lost
    const struct value *unmarked; // [n_unmarked] strings
    size_t n_unmarked;
};

// Limit of the value. A longer list is not written; then each new dataset is searched for.
enum { MARKER_SEARCH_BYTES_MAX = 1 << 18 };

// True if the record is a marker or a search, not another kind of record of the control topic.
bool marker_is_key(struct text key);
void marker_encode(const struct marker *marker, struct buffer *key, struct buffer *value);
// `unmarked` has the strings of the list in JSON, separated by commas.
void marker_search_encode(struct text topic, int64_t start, struct text unmarked, struct buffer *key,
                          struct buffer *value);
// STATUS_REJECT: not a search.
enum status marker_search_decode(struct text key, struct text value, struct arena *arena,
                                 struct marker_search *search, struct error *error) WARN_UNUSED;
// STATUS_REJECT: not a marker. Texts are copied to the arena.
enum status marker_decode(struct text key, struct text value, struct arena *arena, struct marker *marker,
                          struct error *error) WARN_UNUSED;
