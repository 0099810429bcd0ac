// Emulates setmaxnreg (PTX ISA 8). At the begin of a block its threads have equal shares of the
// multiprocessor's registers. A warp can take registers that others released; a warp that requests more
// registers than are free waits.
#include "gpu/emulation/run.h"

#include <assert.h>

enum { MULTIPROCESSOR_REGISTERS = 65536, UNIT = 8, THREAD_REGISTERS_MAX = 255 };

static unsigned registers[EMULATE_THREADS_MAX];
static unsigned n_free;
static struct emulate_event given;

void emulate_registers_begin(unsigned n_threads)
{
    unsigned start = MULTIPROCESSOR_REGISTERS / n_threads / UNIT * UNIT;
    for (unsigned i = 0; i < n_threads; i++)
        registers[i] = start < THREAD_REGISTERS_MAX ? start : THREAD_REGISTERS_MAX;
    n_free = 0;
    given = (struct emulate_event){0};
}

void emulate_registers_print(const struct emulate_event *event)
{
    if (event == &given)
        emulate_report("registers: %u are free in the block\n", n_free);
}

void emulate_registers(unsigned n, bool raise)
{
    unsigned thread = emulate_block_now().thread;
    assert(emulate_block_now().n_threads % 128 == 0 &&
           "setmaxnreg in a block of other than whole warpgroups");
    (void)emulate_warp_exchange(&n, sizeof n);
    assert((raise ? n >= registers[thread] : n <= registers[thread]) &&
           "registers are raised to fewer or lowered to more");
    while (raise && n_free < n - registers[thread])
        emulate_wait_for(&given);
    n_free = n_free + registers[thread] - n;
    registers[thread] = n;
    if (!raise)
        given.generation++;
}
