// Names of datasets from Kafka in a store. Two job topics, or a topic and the embedded queue, may have
// datasets with the same name, whose rows would share their keys. The first dataset in the store has the
// name, the other is called NAME@TOPIC. Called within a transaction.
#pragma once

#include "schemas/base/arena.h"
#include "store/database.h"

struct dataset_name;

// Cache of the names looked up in the current transaction. A zeroed struct is empty.
struct dataset_names {
    struct arena arena;
    struct dataset_name *first;
};

// Finds the name that the dataset has in the store. *name is valid until dataset_names_finish; `dataset` and
// `topic` must be valid until then. Without a topic, *name is `dataset`.
enum status dataset_name_of(struct store *store, struct dataset_names *names, struct text dataset,
                            struct text topic, struct text *name, struct error *error) WARN_UNUSED;
void dataset_names_finish(struct dataset_names *names);

// Checks whether the embedded queue may accept jobs of the dataset. STATUS_REFUSE: its rows are from a topic.
enum status dataset_name_check_queue(struct store *store, struct text dataset,
                                     struct error *error) WARN_UNUSED;

// Dataset name of answers that are put aside (store_replace_begin): a changed file no longer has their lines,
// but equal requests may use the answers. Their jobs have rows in `jobs`, but the name has none in
// `datasets`. It is longer than the name of a dataset may be, and not NUL-terminated.
enum { BEFORE_NAME_BYTES = JOB_DATASET_BYTES_MAX + 8 };
struct text dataset_name_before(struct text dataset, char name[BEFORE_NAME_BYTES]);
