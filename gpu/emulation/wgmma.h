// mbarriers, bulk copies and wgmma (compute capability 9.0) for kernels on the CPU. gpu/kernels/wgmma_cuda.h
// has the contracts of the functions.
#pragma once

#include "gpu/emulation/emulate.h"

static inline uint32_t shared_address(const void *shared) // the last bits of the address
{
    return (uint32_t)(uintptr_t)shared;
}

static inline void barrier_init(uint64_t *barrier, uint32_t n_arrivals)
{
    emulate_barrier_init(barrier, n_arrivals);
}

static inline void barrier_init_fence()
{
    emulate_barrier_init_fence();
}

static inline void barrier_expect_bytes(uint64_t *barrier, uint32_t n_bytes)
{
    emulate_barrier_expect(barrier, n_bytes);
}

static inline void barrier_arrive(uint64_t *barrier)
{
    emulate_barrier_arrive(barrier);
}

static inline uint32_t time_coarse()
{
    return 0;
}

static inline void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    emulate_barrier_wait(barrier, parity);
}

// Needs no timeout, because the emulation detects a deadlock at once.
static inline void barrier_wait_timed(uint64_t *barrier, uint32_t parity, const uint32_t *)
{
    emulate_barrier_wait(barrier, parity);
}

static inline void copy_bulk(void *shared, const void *global, uint32_t n_bytes, uint64_t *barrier)
{
    emulate_copy_bulk(shared, global, n_bytes, barrier);
}

static inline void shared_fence_async()
{
    emulate_shared_fence_async();
}

static inline uint64_t wgmma_rows(const void *shared)
{
    return emulate_wgmma_rows(shared);
}

static inline void wgmma_fence()
{
    emulate_wgmma_fence();
}

static inline void wgmma_commit()
{
    emulate_wgmma_commit();
}

template <int n_left> static inline void wgmma_wait()
{
    static_assert(n_left >= 0 && n_left < 8, "an immediate of wait_group");
    emulate_wgmma_wait(n_left);
}

template <int n> static inline void wgmma_hold(float (&)[n]) {}

template <int n_rows, bool bfloat>
static inline void wgmma(float (&d)[n_rows / 2], const uint32_t a[4], uint64_t rows)
{
    static_assert(n_rows == 8 || n_rows == 16 || n_rows == 32 || n_rows == 64 || n_rows == 96 ||
                      n_rows == 128 || n_rows == 192 || n_rows == 256,
                  "as on the device");
    emulate_wgmma(d, a, rows, n_rows, bfloat);
}

template <int n> static inline void registers_raise()
{
    static_assert(n % 8 == 0 && n >= 24 && n <= 256, "a count of setmaxnreg");
    emulate_registers(n, true);
}

template <int n> static inline void registers_lower()
{
    static_assert(n % 8 == 0 && n >= 24 && n <= 256, "a count of setmaxnreg");
    emulate_registers(n, false);
}

static inline void register_hold(uint32_t &) {}
