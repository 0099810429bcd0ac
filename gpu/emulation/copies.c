// Asynchronous copies of threads (PTX ISA 8, cp.async), performed when the thread waits for their group.
#include "gpu/emulation/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct asynchronous_copy {
    void *to;
    const void *from; // NULL: zeros
    int group;
};

// Outstanding copies of each thread.
static struct outstanding {
    struct asynchronous_copy *copies; // copies not performed yet, in order of issue
    int n_copies, n_copies_room, n_groups;
} threads[EMULATE_THREADS_MAX];

void emulate_copies_begin(unsigned n_threads)
{
    for (unsigned i = 0; i < n_threads; i++)
        threads[i].n_groups = 0;
}

void emulate_copies_thread_ends(unsigned thread)
{
    assert(threads[thread].n_copies == 0 && "a thread ended before its copies arrived");
}

void emulate_copies_end(unsigned n_threads)
{
    for (unsigned i = 0; i < n_threads; i++) {
        free(threads[i].copies);
        threads[i].copies = NULL;
        threads[i].n_copies_room = 0;
    }
}

void emulate_copy(void *shared, const void *global, bool valid)
{
    struct outstanding *thread = &threads[emulate_block_now().thread];
    assert(((uintptr_t)shared | (valid ? (uintptr_t)global : 0)) % 16 == 0 &&
           thread->n_copies < EMULATE_COPIES_MAX);
    if (thread->n_copies == thread->n_copies_room) {
        thread->n_copies_room = 2 * thread->n_copies_room + 16;
        thread->copies = realloc(thread->copies, (size_t)thread->n_copies_room * sizeof *thread->copies);
        assert(thread->copies);
    }
    thread->copies[thread->n_copies++] =
        (struct asynchronous_copy){shared, valid ? global : NULL, thread->n_groups};
    emulate_watch_access(shared, 16, EMULATE_STORES);
    if (valid && emulate_fiber_now()->early)
        emulate_watch_access(global, 16, EMULATE_LOADS);
}

void emulate_copies_commit(void)
{
    threads[emulate_block_now().thread].n_groups++;
}

void emulate_copies_wait(int n_left)
{
    struct outstanding *thread = &threads[emulate_block_now().thread];
    int n = 0;
    for (; n < thread->n_copies && thread->copies[n].group < thread->n_groups - n_left; n++) {
        static const unsigned char zeros[16];
        emulate_watch_access(thread->copies[n].to, 16, EMULATE_STORES);
        if (thread->copies[n].from)
            emulate_watch_access(thread->copies[n].from, 16, EMULATE_LOADS);
        memcpy(thread->copies[n].to, thread->copies[n].from ? thread->copies[n].from : zeros, 16);
    }
    if (n > 0)
        memmove(thread->copies, thread->copies + n, (size_t)(thread->n_copies - n) * sizeof *thread->copies);
    thread->n_copies -= n;
}
