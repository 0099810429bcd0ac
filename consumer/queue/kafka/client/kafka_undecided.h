// Undecided records: neither committed nor aborted. They belong to open transactions, or to transactions that
// a coordinator reports as complete although it wrote no end marker to the partition (KAFKA-20734). The next
// end marker of the same producer id in that partition, commit or abort, decides those records as well.
// Internal to consumer/queue/kafka/. Thread: the handles' own.
#pragma once

#include "consumer/queue/kafka/client/kafka_handle.h"

// Lists all partitions of the topics (a NULL topic is skipped) with their log ends: the offset after the last
// record written. `reader` must have isolation.level=read_uncommitted, which the roles of transactional
// producers set. The caller owns the list. NULL: no answer in time (STATUS_RETRY), or access was denied
// (STATUS_REFUSE).
rd_kafka_topic_partition_list_t *kafka_undecided_find(struct kafka_handle *reader, const char *const *topics,
                                                      size_t n_topics, int timeout_ms, struct error *error);
// Removes the partitions from the list in which all records below the listed offset are decided. `first` (may
// be NULL) receives the remaining partitions with the offsets of their first undecided records; the caller
// owns it. `reader` must have isolation.level=read_committed. STATUS_RETRY: no answer in time, the list is
// unchanged.
enum status kafka_undecided_look(struct kafka_handle *reader, rd_kafka_topic_partition_list_t *list,
                                 rd_kafka_topic_partition_list_t **first, int timeout_ms,
                                 struct error *error) WARN_UNUSED;
// Passes the records of the listed partitions to `receive`, decided or not: from the offset in `from`, the
// first undecided record, up to the offset in `list`. `from` has the same partitions in the same order. Stops
// after timeout_ms. STATUS_RETRY: in that time some partition delivered neither a record nor its end.
enum status kafka_undecided_scan(const struct kafka_config *config,
                                 const rd_kafka_topic_partition_list_t *from,
                                 const rd_kafka_topic_partition_list_t *list, int timeout_ms,
                                 void (*receive)(void *context, int index, const struct record *record),
                                 void *context, struct error *error) WARN_UNUSED;
// Sends a record to each listed partition in the producer's open transaction, which the caller must abort:
// its abort marker is then written to all these partitions, and readers of committed records never see the
// record. Waits up to timeout_ms for acknowledgements.
void kafka_undecided_mark(struct kafka_handle *producer, const rd_kafka_topic_partition_list_t *list,
                          int timeout_ms);
// "topic T partition 3 and 2 more".
void kafka_undecided_name(const rd_kafka_topic_partition_list_t *list, char *text, size_t size);
