// Interface between the files of the emulation. Each layer calls only those above it in this list; emulate.c
// passes callbacks to them.
//
//   order.h                                        clocks
//   threads.c                                      the threads of the running block
//   barriers.c, copies.c, registers.c, wgmma.c     what threads issue and wait for
//   emulate.c                                      the run of all blocks
//
// Thread: one at a time, as gpu/emulation/emulate.h.
#pragma once

#include "gpu/emulation/emulate.h"

enum { EMULATE_WARP = 32 };

// Threads wait for an event. When the event happens, its generation is incremented.
struct emulate_event {
    unsigned n_arrived, generation;
};

// The program of all threads of a block, and the callbacks of its scheduler.
struct emulate_program {
    void (*thread)(void *context);
    void *context;
    void (*thread_ends)(unsigned thread);
    void (*none_can_run)(void); // increments the generation of an awaited event, or does not return
};

// Begins a launch. Its blocks run one after another; one launch at a time.
void emulate_threads_begin(const struct emulate_program *program, unsigned n_threads);
void emulate_threads_end(void);
// Runs all threads of a block to their ends.
void emulate_threads_run(struct emulate_shape grid, struct emulate_shape block, unsigned char *shared,
                         size_t shared_bytes);
const struct emulate_event *emulate_awaited(unsigned thread);                   // NULL: the thread has ended
void emulate_threads_print(unsigned thread, const struct emulate_event *event); // that it waits for
void emulate_fail_deadlock(void) __attribute__((noreturn));
// Runs other threads until the event's next generation.
void emulate_wait_for(const struct emulate_event *event);
// Does emulate_warp_exchange. is_last: this lane may compute for all; the other lanes wait until it waits
// again or ends.
const void *emulate_warp_gather(const void *mine, size_t size, bool *is_last);
// Appends a line to the report of a deadlock.
void emulate_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
void emulate_watch_access(const void *memory, size_t size, enum emulate_access access);
bool emulate_is_watched(void);

// An asynchronous access, made by an actor of its own (gpu/emulation/order.h). Its order is determined when
// it is issued.
struct emulate_asynchronous {
    unsigned actor;
    uint32_t time, n_barriers; // n_barriers: passed by the thread when it issued the access
    const struct emulate_clock *clock;
    bool early; // issued before the thread's launch_wait
};

void emulate_watch_asynchronous(const struct emulate_asynchronous *by, const void *memory, size_t size,
                                enum emulate_access access);

struct emulate_block {
    unsigned thread; // the running thread
    unsigned n_threads, n_barriers;
    unsigned char *shared; // dynamic shared memory
    size_t shared_bytes;
    bool reverse;
};

struct emulate_block emulate_block_now(void);
bool emulate_is_reverse(void);

// gpu/emulation/barriers.c
void emulate_barriers_begin(void); // at the begin of a block
void emulate_barriers_end(void);   // when all threads of a block have ended
// Performs a bulk copy for which the threads at this event wait. False: none was issued.
bool emulate_barriers_deliver(const struct emulate_event *event);
void emulate_barriers_print(const struct emulate_event *event); // prints nothing for other events

// gpu/emulation/copies.c
void emulate_copies_begin(unsigned n_threads); // at the begin of a block
void emulate_copies_thread_ends(unsigned thread);
void emulate_copies_end(unsigned n_threads); // at the end of a launch

// gpu/emulation/registers.c
void emulate_registers_begin(unsigned n_threads); // at the begin of a block
void emulate_registers_print(const struct emulate_event *event);

// gpu/emulation/wgmma.c
void emulate_wgmma_begin(void);
void emulate_wgmma_thread_ends(unsigned thread);
// Performs the wgmma for which the threads at this event wait. False: the event is not a wgmma's, or not all
// threads have issued it.
bool emulate_wgmma_perform(const struct emulate_event *event);
void emulate_wgmma_print(const struct emulate_event *event);
