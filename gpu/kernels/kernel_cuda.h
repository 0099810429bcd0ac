// The kernel language for CUDA (gpu/kernels/kernel.h). Instructions: PTX ISA 8
// (docs.nvidia.com/cuda/parallel-thread-execution), compute capability 8.0 and up.
#pragma once

#include "gpu/kernels/wgmma_cuda.h"

#include <cuda_runtime.h>
#include <tuple>

template <typename K> struct launch_of;

template <typename... P> struct launch_of<void (*)(P...)> {
    static_assert((sizeof(P) + ... + 0) <= LAUNCH_ARGUMENT_BYTES_MAX, "arguments fit into constant memory");
    static_assert(sizeof...(P) <= LAUNCH_ARGUMENTS_MAX, "arguments fit into launch_arguments");

    template <typename... A>
    static void enqueue(const struct kernel_entry *kernel, const struct launch_shape &shape, void *stream,
                        A... arguments)
    {
        std::tuple<P...> converted(static_cast<P>(arguments)...);
        struct launch_arguments packed = {};
        std::apply(
            [&packed](auto &...values) {
                ((packed.values[packed.n] = (void *)&values, packed.sizes[packed.n++] = sizeof values), ...);
            },
            converted);
        device_launch(stream, kernel, &shape, &packed);
    }
};

// Enqueues the kernel (gpu/kernels/launch.h).
template <auto kernel, typename... A>
static inline void launch(const struct launch_shape &shape, void *stream, A... arguments)
{
    launch_of<decltype(kernel)>::enqueue(&kernel_of<kernel, false>::registered.entry, shape, stream,
                                         arguments...);
}

template <auto kernel, typename... A>
static inline void launch_overlapped(const struct launch_shape &shape, void *stream, A... arguments)
{
    launch_of<decltype(kernel)>::enqueue(&kernel_of<kernel, true>::registered.entry, shape, stream,
                                         arguments...);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void launch_next()
{
    asm volatile("griddepcontrol.launch_dependents;");
}

__device__ __forceinline__ void launch_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
#else
__device__ __forceinline__ void launch_next() {}

__device__ __forceinline__ void launch_wait() {}
#endif

// Dynamic shared memory, aligned to 128 bytes.
__device__ __forceinline__ unsigned char *dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char memory[];
    return memory;
}

// Waits at barrier `id` (1 to 15) until n_threads of the block have called it: whole warps, all lanes.
__device__ __forceinline__ void barrier_named(int id, int n_threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

// Returns the value, or an address in device memory, and makes the compiler keep it in a register. Otherwise
// the compiler would recompute addresses at each use.
__device__ __forceinline__ int32_t kept_value(int32_t value)
{
    asm volatile("" : "+r"(value));
    return value;
}

template <typename T> __device__ __forceinline__ T *kept_value(T *address)
{
    asm volatile("" : "+l"(address));
    __builtin_assume(__isGlobal(address));
    return address;
}

// Pairs of binary16 or bfloat16 in one word; the first is in the lower half. All operations round to nearest
// even.

__device__ __forceinline__ uint32_t half2_make(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ uint32_t bfloat2_make(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ float half_float(uint32_t bits) // converts the lower 16 bits
{
    float value;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(bits));
    return value;
}

__device__ __forceinline__ uint32_t half2_add(uint32_t a, uint32_t b)
{
    uint32_t sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

__device__ __forceinline__ uint32_t half2_multiply(uint32_t a, uint32_t b)
{
    uint32_t product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

__device__ __forceinline__ uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

__device__ __forceinline__ uint32_t half2_low(uint32_t pair) // the lower half, duplicated
{
    return __byte_perm(pair, 0, 0x1010);
}

__device__ __forceinline__ uint32_t half2_high(uint32_t pair)
{
    return __byte_perm(pair, 0, 0x3232);
}

// Selects four bytes: each of the four nibbles of `selector` selects byte 0..3 of a, or 4..7 of b.
__device__ __forceinline__ uint32_t bytes_pick(uint32_t a, uint32_t b, uint32_t selector)
{
    return __byte_perm(a, b, selector);
}

// Computes (word & mask) | base in one instruction. With two constant operands the compiler would use two
// instructions, so the asm requires registers.
__device__ __forceinline__ uint32_t bits_merge(uint32_t word, uint32_t mask, uint32_t base)
{
    uint32_t merged;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(merged) : "r"(word), "r"(mask), "r"(base));
    return merged;
}

// 2^x, within 2 units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_fast(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Asynchronous copy of 16 bytes from device to shared memory; writes zeros and reads nothing if not `valid`.
// copy_async_wait<n>() waits for all but the last n committed groups of this thread.
__device__ __forceinline__ void copy_async_16(void *shared, const void *global, bool valid)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    int n_bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(n_bytes)
                 : "memory");
}

__device__ __forceinline__ void copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int n_left> __device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(n_left) : "memory");
}

// Loads 16 bytes that the launch does not write and reads only once.
__device__ __forceinline__ uint4 load_streaming(const void *address)
{
    uint4 words;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
        : "l"(address));
    return words;
}

// Loads what another block of the launch stored before it counted its arrival. The other block stores, passes
// a barrier, then one thread calls __threadfence and an atomic operation. This block does the same operations
// in reverse order.
__device__ __forceinline__ float load_published(const float *address)
{
    return __ldcg(address);
}

__device__ __forceinline__ float2 load_published_2(const float2 *address)
{
    return __ldcg(address);
}

__device__ __forceinline__ float4 load_published_4(const float4 *address)
{
    return __ldcg(address);
}

// Prefetches the cache line of an address in device memory, for a later load by this multiprocessor.
__device__ __forceinline__ void prefetch_line(const void *address)
{
    asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

// d += a b over 16 items k: a 16 x 16, b 16 x 8, d 16 x 8 float32. With g = lane / 4, t = lane % 4 a lane
// holds
//   a[0] row g, k 2t..2t+1     a[1] row g + 8, the same
//   a[2] row g, k 2t+8..2t+9   a[3] row g + 8, the same
//   b[0] k 2t..2t+1, column g  b[1] k 2t+8..2t+9
//   d[0..1] row g, columns 2t, 2t+1    d[2..3] row g + 8
// (PTX ISA, mma.m16n8k16.)
__device__ __forceinline__ void mma_half(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, "
        "%5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_bfloat(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, "
        "%5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
