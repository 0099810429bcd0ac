// A worker's slot: a lasting identity for one of the worker processes that run beside a store. Kafka wants a
// name that a restarted worker bears again, and no other process at the same time: the new process takes over
// the dead one's partitions at once, and the dead one's half-done transaction is aborted before the new one
// begins.
//
// A slot is a file, DIRECTORY/GROUP.worker-NUMBER, held by a lock (flock) that ends with the process. Its
// content is an id, drawn once at random: slot 0 of two machines are two identities.
#pragma once

#include "schemas/error.h"

#include <stdint.h>

enum {
    SLOT_COUNT_MAX = 1024, // workers of one group beside one store
    SLOT_GROUP_BYTES_MAX = 128,
    SLOT_ID_BYTES = 16,
};

struct slot {
    int file; // holds the lock
    int number;
    char id[SLOT_ID_BYTES + 1]; // hexadecimal
};

// Takes the lowest free slot. A group's name may hold anything; bytes that do not suit a file name are
// written %XX.
enum status slot_open(struct slot *slot, const char *directory, const char *group,
                      struct error *error) WARN_UNUSED;
void slot_close(struct slot *slot); // a slot whose file is -1 is closed already
