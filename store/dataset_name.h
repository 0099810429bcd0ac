// Names of Kafka's datasets in a store. Two job topics, or a topic and the embedded queue, may have datasets
// with the same name, whose rows would share their keys. The first one in the store has the name, the other
// is called NAME@TOPIC. Within a transaction.
#pragma once

#include "schemas/arena.h"
#include "store/database.h"

struct dataset_name;

// Names looked up within the transaction. Zeroed: none.
struct dataset_names {
    struct arena arena;
    struct dataset_name *first;
};

// *name lives until dataset_names_finish; `dataset` and `topic` must too. Without a topic it is `dataset`.
enum status dataset_name_of(struct store *store, struct dataset_names *names, struct text dataset,
                            struct text topic, struct text *name, struct error *error) WARN_UNUSED;
void dataset_names_finish(struct dataset_names *names);

// Whether the embedded queue may take jobs of the dataset. STATUS_REFUSE: its rows are a topic's.
enum status dataset_name_check_queue(struct store *store, struct text dataset,
                                     struct error *error) WARN_UNUSED;

// Where the answers of lines that a changed file no longer has wait for equal requests (store_replace_begin):
// rows of `jobs` without a row of `datasets`, under a name longer than a dataset may have. Not terminated.
enum { BEFORE_NAME_BYTES = JOB_DATASET_BYTES_MAX + 8 };
struct text dataset_name_before(struct text dataset, char name[BEFORE_NAME_BYTES]);
