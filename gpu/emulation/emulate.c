#include "gpu/emulation/emulate.h"

#include "engine/file/dequantize.h"
#include "gpu/emulation/order.h"
#include "gpu/emulation/run.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Performs one asynchronous operation that a thread waits for, copies first. Fails if there is none: a
// deadlock.
static void perform_asynchronous(void)
{
    unsigned n_threads = emulate_block_now().n_threads;
    for (unsigned i = 0; i < n_threads; i++)
        if (emulate_barriers_deliver(emulate_awaited(i)))
            return;
    for (unsigned i = 0; i < n_threads; i++)
        if (emulate_wgmma_perform(emulate_awaited(i)))
            return;
    const struct emulate_event *printed = NULL;
    for (unsigned i = 0; i < n_threads; i++) {
        const struct emulate_event *event = emulate_awaited(i);
        if (!event || event == printed)
            continue;
        printed = event;
        emulate_threads_print(i, event);
        emulate_barriers_print(event);
        emulate_wgmma_print(event);
        emulate_registers_print(event);
    }
    emulate_fail_deadlock();
}

static void end_thread(unsigned thread)
{
    emulate_copies_thread_ends(thread);
    emulate_wgmma_thread_ends(thread);
}

static void run_block(unsigned n_threads, struct emulate_shape grid, struct emulate_shape block,
                      unsigned char *shared, size_t shared_bytes)
{
    emulate_order_begin(n_threads, emulate_is_watched());
    emulate_barriers_begin();
    emulate_copies_begin(n_threads);
    emulate_wgmma_begin();
    emulate_registers_begin(n_threads);
    emulate_threads_run(grid, block, shared, shared_bytes);
    emulate_barriers_end();
}

void emulate_run(struct emulate_shape grid, unsigned n_threads, size_t shared_bytes,
                 void (*thread)(void *context), void *context)
{
    assert(shared_bytes <= EMULATE_SHARED_BYTES_MAX);
    emulate_threads_begin(&(struct emulate_program){.thread = thread,
                                                    .context = context,
                                                    .thread_ends = end_thread,
                                                    .none_can_run = perform_asynchronous},
                          n_threads);
    // The array ends where the allocation ends, so that the address sanitizer detects an overrun of one byte.
    // It starts at a multiple of 128 bytes.
    unsigned char *memory = malloc(shared_bytes + 127);
    assert(memory);
    unsigned char *shared = memory + (-(uintptr_t)memory & 127);
    unsigned n_blocks = grid.x * grid.y * grid.z;
    for (unsigned i = 0; i < n_blocks; i++) {
        unsigned block = emulate_is_reverse() ? n_blocks - 1 - i : i;
        memset(memory, 0xFF, shared_bytes + 127);
        run_block(n_threads, grid,
                  (struct emulate_shape){block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y},
                  shared, shared_bytes);
    }
    free(memory);
    emulate_copies_end(n_threads);
    emulate_threads_end();
}

void emulate_check_aligned(const void *address, size_t bytes)
{
    assert((uintptr_t)address % bytes == 0 && "a vector load is not aligned");
}

float emulate_half_float(uint16_t half)
{
    return half_to_float(half);
}

uint16_t emulate_half(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = bits >> 48 & 0x8000;
    double magnitude = fabs(value);
    if (isnan(value))
        return 0x7FFF;
    if (magnitude >= 65520) // halfway from the largest to 2^16, a tie that rounds to infinity
        return sign | 0x7C00;
    if (magnitude < 0x1p-14) // subnormal: rounded to a multiple of 2^-24, the unit in the last place of 2^28
        return (uint16_t)(sign | (uint32_t)((magnitude + 0x1p28 - 0x1p28) * 0x1p24));
    // Rounds to the upper 10 bits of the fraction, ties to even. A carry into the exponent gives the correct
    // result.
    bits &= INT64_MAX;
    bits += (UINT64_C(1) << 41) - 1 + (bits >> 42 & 1);
    return (uint16_t)(sign | (uint32_t)((bits >> 42) - ((1023 - 15) << 10)));
}

uint16_t emulate_bfloat(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (isnan(value))
        return 0x7FFF;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
