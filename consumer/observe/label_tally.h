// Counts the labels of answers while a worker runs, for the --metrics page: answers to choices, and properties of
// JSON answers whose schema enumerates their values (enum, boolean). Jobs with the same choices, or the same
// schema, are counted together. A zeroed struct counts nothing until `is_counted` is set. Thread: main.
#pragma once

#include "schemas/job.h"

enum {
    TALLY_GROUPS_MAX = 12,  // further ones are not counted
    TALLY_LABELS_MAX = 24,  // of a group; one with more has no counts
    TALLY_LABEL_BYTES = 64, // longer labels are cut
    TALLY_NAME_BYTES = 96,
    TALLY_SCHEMAS_MAX = 64, // whose properties are known
};

struct label_tally {
    bool is_counted;
    int n_groups, n_schemas;
    uint64_t schemas[TALLY_SCHEMAS_MAX]; // [n_schemas] hashes
    struct label_group {
        uint64_t key;                // hash of the choices, or of the schema
        char name[TALLY_NAME_BYTES]; // the property's; of choices: all of them
        bool is_property, is_dropped;
        int n_labels;
        int64_t n;
        struct {
            char text[TALLY_LABEL_BYTES];
            int64_t n;
        } labels[TALLY_LABELS_MAX];
    } groups[TALLY_GROUPS_MAX];
};

void label_tally_add(struct label_tally *tally, const struct job *job);
