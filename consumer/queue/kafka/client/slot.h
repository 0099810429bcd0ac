// A worker's slot: a persistent identity for one of the worker processes that share a store, used as static
// member (KIP-345) and transactional id. A restarted worker has the same identity, and no two processes hold
// it at a time: it takes over the partitions of the dead process at once and fences its open transaction.
//
// A slot is a file, DIRECTORY/GROUP.worker-NUMBER, held by a lock (flock) that ends with the process. The
// file has two lines:
//
//   ID                      drawn once at random, so slot 0 of two machines are two identities
//   DEVICE INODE MEMBER
//
// MEMBER is the member id that the group's coordinator gave the slot's last process, or a word (below).
// DEVICE and INODE are the file's own: in a copied file they differ, and the second line is ignored.
#pragma once

#include "schemas/base/error.h"

#include <stdint.h>

enum {
    SLOT_COUNT_MAX = 1024, // workers of one group per store
    SLOT_GROUP_BYTES_MAX = 128,
    SLOT_ID_BYTES = 16,
    SLOT_NAME_BYTES_MAX = 64, // bytes of a member's name
    SLOT_MEMBER_BYTES_MAX = 383,
};

// In place of a member id:
#define SLOT_MEMBER_JOINING "joining" // the process was joining: a member of its name may be this process
#define SLOT_MEMBER_FENCED  "fenced"  // another process took the name

struct slot {
    int file; // holds the lock; -1: none
    int number;
    char id[SLOT_NAME_BYTES_MAX + 1];       // hexadecimal, or the name of the member
    char member[SLOT_MEMBER_BYTES_MAX + 1]; // as above; "": unknown
};

// Whether a slot can have these names (`name` may be NULL), without a file: STATUS_REFUSE with ERROR_USAGE.
enum status slot_check(const char *group, const char *name, struct error *error) WARN_UNUSED;
// Takes the lowest free slot. Bytes of the group's name that are not valid in a file name are written %XX.
// STATUS_REFUSE with ERROR_USAGE: the resulting file name is too long.
enum status slot_open(struct slot *slot, const char *directory, const char *group,
                      struct error *error) WARN_UNUSED;
// The slot of a given name (letters, digits, '.', '_' and '-'), for pods without a persistent folder: the
// file DIRECTORY/GROUP.member-NAME has no id. STATUS_REFUSE with ERROR_USAGE: the name is invalid or in
// use by another process.
enum status slot_open_named(struct slot *slot, const char *directory, const char *group, const char *name,
                            struct error *error) WARN_UNUSED;
// Creates a slot without a file, if no file can be created: `name` or, if NULL, a random id that is not
// reused.
enum status slot_open_without_file(struct slot *slot, const char *name, struct error *error) WARN_UNUSED;
// Records the member id, or a word. A file that cannot be written keeps its content.
void slot_note_member(struct slot *slot, const char *member);
void slot_close(struct slot *slot); // file -1: closed already
