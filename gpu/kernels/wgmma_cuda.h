// mbarriers, bulk copies and wgmma (compute capability 9.0) for CUDA kernels (gpu/kernels/kernel.h). PTX ISA
// 8, target sm_90a. Compiled for another target, each function is a trap, so a kernel that uses them must
// only be launched on a device of compute capability 9.0.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define ASM_SM90A(...) asm volatile(__VA_ARGS__)
#else
#define ASM_SM90A(...) __trap()
#endif

__device__ __forceinline__ uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

// ---- mbarriers: words in shared memory ----

// Called by one thread. Other threads may use the barrier after that thread's barrier_init_fence() and a
// __syncthreads().
__device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t n_arrivals)
{
    ASM_SM90A("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(n_arrivals)
              : "memory");
}

__device__ __forceinline__ void barrier_init_fence()
{
    ASM_SM90A("fence.mbarrier_init.release.cluster;" ::: "memory");
    ASM_SM90A("fence.proxy.async.shared::cta;" ::: "memory");
}

// Counts one arrival, and makes the phase wait for n_bytes of bulk copies too.
__device__ __forceinline__ void barrier_expect_bytes(uint64_t *barrier, uint32_t n_bytes)
{
    ASM_SM90A("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
              "r"(n_bytes)
              : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    ASM_SM90A("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ bool barrier_try_wait(uint64_t *barrier, uint32_t parity)
{
    uint32_t complete = 1;
    ASM_SM90A("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
              "selp.u32 %0, 1, 0, p; }"
              : "=r"(complete)
              : "r"(shared_address(barrier)), "r"(parity)
              : "memory");
    return complete;
}

// Time in units of 2^32 ns, 4.3 s.
__device__ __forceinline__ uint32_t time_coarse()
{
    uint32_t high;
    asm volatile("mov.u32 %0, %globaltimer_hi;" : "=r"(high));
    return high;
}

enum { BARRIER_WAIT_MOST = 3 }; // units of time_coarse: 8.6 to 12.9 s

// Waits until the phase of this parity has completed. The first phase has parity 0. `parity` must be the
// parity of the current or the previous phase.
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    while (!barrier_try_wait(barrier, parity)) {
    }
}

// Like barrier_wait, with a timeout. About 10 s after `began`, the time_coarse at which the block began, the
// kernel traps and the launch fails with cudaErrorLaunchFailure. Without a timeout, a phase that never
// completes would occupy the device until a reset. Threads with wgmma in flight must not call it: they have
// too few registers.
__device__ __forceinline__ void barrier_wait_timed(uint64_t *barrier, uint32_t parity, const uint32_t *began)
{
    while (!barrier_try_wait(barrier, parity))
        if (time_coarse() - *began >= BARRIER_WAIT_MOST)
            __trap();
}

// Copies from device to shared memory and counts the bytes at the barrier. Called by one thread. Addresses
// and n_bytes are multiples of 16.
__device__ __forceinline__ void copy_bulk(void *shared, const void *global, uint32_t n_bytes,
                                          uint64_t *barrier)
{
    ASM_SM90A("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                  shared_address(shared)),
              "l"(__cvta_generic_to_global(global)), "r"(n_bytes), "r"(shared_address(barrier))
              : "memory");
}

// A thread whose ordinary stores to shared memory will be read by wgmma or bulk copies calls it between these
// stores and the next barrier.
__device__ __forceinline__ void shared_fence_async()
{
    ASM_SM90A("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- wgmma ----

// Descriptor of b, [n_rows][64] items of 16 bits, K-major, with the 128-byte swizzle: the 16-byte piece p of
// row r is stored at r * 128 + (p ^ r % 8) * 16. The tile is aligned to 1024 bytes. Fields: address / 16;
// leading offset 1 (unused); stride of 8 rows, 1024 / 16; swizzle mode 1. + 2 advances 16 items, + 64 8 rows.
__device__ __forceinline__ uint64_t wgmma_rows(const void *shared)
{
    return (uint64_t)((shared_address(shared) & 0x3FFFF) >> 4) | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

// Orders accesses to registers before later wgmma that use the same registers. Required before the first
// wgmma, and before each wgmma whose registers were accessed otherwise since the last one.
__device__ __forceinline__ void wgmma_fence()
{
    ASM_SM90A("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit()
{
    ASM_SM90A("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits for all but the last n committed groups.
template <int n_left> __device__ __forceinline__ void wgmma_wait()
{
    static_assert(n_left >= 0 && n_left < 8, "an immediate of wait_group");
    ASM_SM90A("wgmma.wait_group.sync.aligned %0;" ::"n"(n_left) : "memory");
}

// Keeps a value alive up to this point, so that the allocation of registers has no reason to use its register for another value
// while a wgmma in flight reads it; that is no guarantee, which is why gpu_counts checks the machine code.
__device__ __forceinline__ void register_hold(uint32_t &value)
{
    asm volatile("" : "+r"(value)::"memory");
}

// Keeps the compiler from moving accesses to d across this point. Called after the wait for d.
template <int n> __device__ __forceinline__ void wgmma_hold(float (&d)[n])
{
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

// d += a b over 16 items, by the 128 threads of a warpgroup: a 64 x 16 in registers, b's rows in shared
// memory (`rows` from wgmma_rows), d 64 x n_rows. Warp w of the group has rows 16 w .. 16 w + 15 of a and d.
// a[] is laid out as in mma_half; d[4 n .. 4 n + 3] as its d for columns 8 n .. 8 n + 7. Asynchronous: after
// the wait for its group d is valid, and b and the registers of a may change.
template <int n_rows, bool bfloat>
__device__ __forceinline__ void wgmma(float (&d)[n_rows / 2], const uint32_t a[4], uint64_t rows);

// Names of the instruction's operands: all of d, numbered from 0, then the four registers of a and the
// descriptor.
#define WGMMA_NAMES_4  "%0, %1, %2, %3"
#define WGMMA_NAMES_8  WGMMA_NAMES_4 ", %4, %5, %6, %7"
#define WGMMA_NAMES_16 WGMMA_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_32                                                                                       \
    WGMMA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_48                                                                                       \
    WGMMA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_64                                                                                       \
    WGMMA_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_80                                                                                       \
    WGMMA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_96                                                                                       \
    WGMMA_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_112                                                                                      \
    WGMMA_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "      \
                   "%110, %111"
#define WGMMA_NAMES_128                                                                                      \
    WGMMA_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "       \
                    "%125, %126, %127"

#define WGMMA_SUMS_4(i)   "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define WGMMA_SUMS_8(i)   WGMMA_SUMS_4(i), WGMMA_SUMS_4((i) + 4)
#define WGMMA_SUMS_16(i)  WGMMA_SUMS_8(i), WGMMA_SUMS_8((i) + 8)
#define WGMMA_SUMS_32(i)  WGMMA_SUMS_16(i), WGMMA_SUMS_16((i) + 16)
#define WGMMA_SUMS_48(i)  WGMMA_SUMS_32(i), WGMMA_SUMS_16((i) + 32)
#define WGMMA_SUMS_64(i)  WGMMA_SUMS_32(i), WGMMA_SUMS_32((i) + 32)
#define WGMMA_SUMS_96(i)  WGMMA_SUMS_64(i), WGMMA_SUMS_32((i) + 64)
#define WGMMA_SUMS_128(i) WGMMA_SUMS_64(i), WGMMA_SUMS_64((i) + 64)

// The instruction adds to d if its predicate is true. It neither negates nor transposes.
#define WGMMA_OF_TYPE(n_rows, n_sums, a0, a1, a2, a3, descriptor, bfloat, type)                              \
    template <>                                                                                              \
    __device__ __forceinline__ void wgmma<n_rows, bfloat>(float(&d)[n_sums], const uint32_t a[4],            \
                                                          uint64_t rows)                                     \
    {                                                                                                        \
        ASM_SM90A("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n" #n_rows           \
                  "k16.f32." type "." type " {" WGMMA_NAMES_##n_sums                                         \
                  "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #descriptor ", p, 1, 1, 0; }"             \
                  : WGMMA_SUMS_##n_sums(0)                                                                   \
                  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows));                                  \
    }

#define WGMMA_OF_ROWS(n_rows, n_sums, a0, a1, a2, a3, descriptor)                                            \
    WGMMA_OF_TYPE(n_rows, n_sums, a0, a1, a2, a3, descriptor, false, "f16")                                  \
    WGMMA_OF_TYPE(n_rows, n_sums, a0, a1, a2, a3, descriptor, true, "bf16")

WGMMA_OF_ROWS(8, 4, 4, 5, 6, 7, 8)
WGMMA_OF_ROWS(16, 8, 8, 9, 10, 11, 12)
WGMMA_OF_ROWS(32, 16, 16, 17, 18, 19, 20)
WGMMA_OF_ROWS(64, 32, 32, 33, 34, 35, 36)
WGMMA_OF_ROWS(96, 48, 48, 49, 50, 51, 52)
WGMMA_OF_ROWS(128, 64, 64, 65, 66, 67, 68)
WGMMA_OF_ROWS(192, 96, 96, 97, 98, 99, 100)
WGMMA_OF_ROWS(256, 128, 128, 129, 130, 131, 132)

// ---- registers of a warpgroup's threads ----

template <int n> __device__ __forceinline__ void registers_raise()
{
    static_assert(n % 8 == 0 && n >= 24 && n <= 256, "a count of setmaxnreg");
    ASM_SM90A("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

template <int n> __device__ __forceinline__ void registers_lower()
{
    static_assert(n % 8 == 0 && n >= 24 && n <= 256, "a count of setmaxnreg");
    ASM_SM90A("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}
