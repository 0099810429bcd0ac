// SQLite on files and memory that fail: a VFS over the default one, SQLite's allocator, and with
// -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup the allocations of the code
// under test. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
    FAULT_IO,     // reading, writing (half of the bytes are written), locking, opening, ..
    FAULT_MEMORY, // allocations, but for the ones that SQLite can do without
    FAULT_KINDS,
    FAULT_INDEX = FAULT_KINDS // the index of a store's log can't be made
};

void faults_install(void); // before SQLite is used

// The n-th access from now on fails; with `lasting` also all later ones.
void faults_arm(enum fault_kind kind, long n, bool lasting);
void faults_disarm(void);
void faults_pause(bool paused); // accesses are not counted meanwhile; pauses don't nest
bool faults_met(void);          // since faults_arm

// SQLite sleeps where another connection has a lock: no time passes here. How long it asked for, and a
// function that is called once, at the next sleep (NULL: none).
int64_t faults_slept_us(void);
void faults_at_sleep(void (*call)(void *context), void *context);
