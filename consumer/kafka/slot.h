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
    SLOT_NAME_BYTES_MAX = 64, // of a member's name
};

struct slot {
    int file; // holds the lock; -1: none
    int number;
    char id[SLOT_NAME_BYTES_MAX + 1]; // hexadecimal, or the member's name
};

// Takes the lowest free slot. A group's name may hold anything; bytes that do not suit a file name are
// written %XX.
enum status slot_open(struct slot *slot, const char *directory, const char *group,
                      struct error *error) WARN_UNUSED;
// The slot of a given name (letters, digits, '.', '_' and '-'), as a pod has one whose folder does not outlive it: the file
// DIRECTORY/GROUP.member-NAME is only its lock. STATUS_REFUSE with ERROR_USAGE: another process here has the name, or it is none.
enum status slot_open_named(struct slot *slot, const char *directory, const char *group, const char *name,
                            struct error *error) WARN_UNUSED;
// A slot without a file, where none can be made: `name`, or an id drawn at random (NULL), which nobody will have again.
enum status slot_open_without_file(struct slot *slot, const char *name, struct error *error) WARN_UNUSED;
void slot_close(struct slot *slot); // a slot whose file is -1 is closed already
