// The kernel language on the CPU (gpu/kernels/kernel.h): a block's threads are fibers of one CPU thread
// (gpu/emulation/emulate.h); shared memory is filled with NaNs for every block. It is slow, but every load
// and store is visible to the address sanitizer.
#pragma once

#include "gpu/emulation/emulate.h"
#include "gpu/emulation/stream.h"

#include <assert.h>
#include <math.h>
#include <new>
#include <stdlib.h>
#include <string.h>
#include <tuple>

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__ __restrict
// Blocks run one after another, so one copy is enough. As on the device, an array initially holds what the
// previous block left in it.
#define __shared__ static
#define threadIdx  (emulate_fiber_now()->thread)
#define blockIdx   (emulate_fiber_now()->block)
#define blockDim   (emulate_fiber_now()->block_shape)
#define gridDim    (emulate_fiber_now()->grid_shape)

// Rounds results from double, so that they do not depend on the host's libm. The erfcf of glibc 2.36 and
// 2.41, for example, differ in the last bit; in double such differences vanish in the rounding.
static inline float rounded_exp(float x)
{
    return (float)exp((double)x);
}

static inline float rounded_exp2(float x)
{
    return (float)exp2((double)x);
}

static inline float rounded_erfc(float x)
{
    return (float)erfc((double)x);
}

static inline float rounded_tanh(float x)
{
    return (float)tanh((double)x);
}

#define expf  rounded_exp
#define exp2f rounded_exp2
#define erfcf rounded_erfc
#define tanhf rounded_tanh

// Aligned as in CUDA. A misaligned load would fault on a device; here the undefined-behavior sanitizer
// reports it.
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

#include "gpu/emulation/wgmma.h"

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

// ---- launches: work for the emulated stream, with a copy of the arguments ----

template <typename... P> struct emulated_launch {
    struct emulated_work work; // first member: the type that the stream knows
    struct launch_shape shape;
    void (*kernel)(P...);
    bool overlaps;
    std::tuple<P...> arguments;

    static void run_thread(void *context)
    {
        emulated_launch *self = (emulated_launch *)context;
        struct emulate_fiber *fiber = emulate_fiber_now();
        fiber->early = self->overlaps;
        std::apply(self->kernel, self->arguments);
        assert((!fiber->early || fiber->thread.x > 0) && "a block of launch_overlapped did not wait");
    }

    static void run_work(struct emulated_work *work)
    {
        emulated_launch *self = (emulated_launch *)work;
        if (!self->overlaps)
            emulate_launches_end();
        emulate_run({self->shape.blocks_x, self->shape.blocks_y, self->shape.blocks_z}, self->shape.n_threads,
                    self->shape.shared_bytes, run_thread, self);
    }
};

// Returns the reason for which CUDA would reject the launch on any device. NULL: the launch is valid.
static inline const char *emulated_launch_fault(const struct launch_shape &shape)
{
    if (shape.blocks_x == 0 || shape.blocks_y == 0 || shape.blocks_z == 0 || shape.n_threads == 0)
        return "an empty launch";
    if (shape.blocks_x > LAUNCH_BLOCKS_X_MAX || shape.blocks_y > LAUNCH_BLOCKS_YZ_MAX ||
        shape.blocks_z > LAUNCH_BLOCKS_YZ_MAX)
        return "a launch of too many blocks";
    return shape.n_threads > LAUNCH_THREADS_MAX ? "a launch of too many threads" : NULL;
}

template <typename K> struct launch_of;

template <typename... P> struct launch_of<void (*)(P...)> {
    static_assert((sizeof(P) + ... + 0) <= LAUNCH_ARGUMENT_BYTES_MAX, "arguments fit into constant memory");
    static_assert(sizeof...(P) <= LAUNCH_ARGUMENTS_MAX, "arguments fit into launch_arguments");

    template <typename... A>
    static struct emulated_work *make(void (*kernel)(P...), const struct kernel_entry *entry,
                                      const struct launch_shape &shape, A... arguments)
    {
        void *memory = malloc(sizeof(emulated_launch<P...>));
        if (memory)
            new (memory) emulated_launch<P...>{{emulated_launch<P...>::run_work, NULL, shape.shared_bytes,
                                                emulated_launch_fault(shape), entry->name},
                                               shape,
                                               kernel,
                                               entry->overlaps,
                                               std::tuple<P...>(static_cast<P>(arguments)...)};
        return (struct emulated_work *)memory;
    }
};

template <auto kernel, typename... A>
static inline void launch(const struct launch_shape &shape, void *stream, A... arguments)
{
    emulated_stream_submit(
        stream, launch_of<decltype(kernel)>::make(kernel, &kernel_of<kernel, false>::registered.entry, shape,
                                                  arguments...));
}

template <auto kernel, typename... A>
static inline void launch_overlapped(const struct launch_shape &shape, void *stream, A... arguments)
{
    emulated_stream_submit(
        stream, launch_of<decltype(kernel)>::make(kernel, &kernel_of<kernel, true>::registered.entry, shape,
                                                  arguments...));
}

static inline void launch_next() {}

static inline void launch_wait()
{
    emulate_fiber_now()->early = false;
}

static inline unsigned char *dynamic_shared()
{
    return emulate_fiber_now()->shared;
}

template <typename T> static inline T kept_value(T value)
{
    return value;
}

// ---- barriers and warp operations ----

static inline void __syncthreads()
{
    emulate_block_meet();
}

static inline void barrier_named(int id, int n_threads)
{
    emulate_barrier_named(id, n_threads);
}

static inline void __syncwarp()
{
    emulate_warp_meet();
}

template <typename T> static inline T emulated_from_lane(T value, int lane)
{
    static_assert(sizeof(T) <= EMULATE_EXCHANGE_BYTES, "a lane's part of an exchange is bounded");
    const unsigned char *all = (const unsigned char *)emulate_warp_exchange(&value, sizeof value);
    T result;
    memcpy(&result, all + (size_t)lane * EMULATE_EXCHANGE_BYTES, sizeof result);
    return result;
}

template <typename T> static inline T __shfl_sync(unsigned, T value, int lane)
{
    return emulated_from_lane(value, lane & 31);
}

template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask)
{
    return emulated_from_lane(value, (int)(threadIdx.x & 31) ^ mask);
}

template <typename T> static inline T __shfl_down_sync(unsigned, T value, int delta)
{
    int lane = (int)(threadIdx.x & 31);
    return emulated_from_lane(value, lane + delta < 32 ? lane + delta : lane);
}

static inline unsigned __ballot_sync(unsigned, int predicate)
{
    const unsigned char *all = (const unsigned char *)emulate_warp_exchange(&predicate, sizeof predicate);
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; lane++) {
        int other;
        memcpy(&other, all + (size_t)lane * EMULATE_EXCHANGE_BYTES, sizeof other);
        ballot |= (other != 0 ? 1u : 0u) << lane;
    }
    return ballot;
}

static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) == 0xFFFFFFFFu;
}

static inline unsigned __reduce_max_sync(unsigned, unsigned value)
{
    const unsigned char *all = (const unsigned char *)emulate_warp_exchange(&value, sizeof value);
    unsigned largest = 0;
    for (int lane = 0; lane < 32; lane++) {
        unsigned other;
        memcpy(&other, all + (size_t)lane * EMULATE_EXCHANGE_BYTES, sizeof other);
        largest = other > largest ? other : largest;
    }
    return largest;
}

// Fibers switch only at barriers and warp operations, so a plain update is atomic. The race detector sees a
// single access.
#define EMULATED_ATOMIC __attribute__((noinline, no_sanitize("thread")))

template <typename T> static EMULATED_ATOMIC T atomicAdd(T *address, T value)
{
    emulate_update(address, sizeof *address);
    T old = *address;
    *address = old + value;
    return old;
}

template <typename T> static EMULATED_ATOMIC T atomicMax(T *address, T value)
{
    emulate_update(address, sizeof *address);
    T old = *address;
    *address = old > value ? old : value;
    return old;
}

template <typename T> static EMULATED_ATOMIC T atomicCAS(T *address, T expected, T value)
{
    emulate_update(address, sizeof *address);
    T old = *address;
    if (old == expected)
        *address = value;
    return old;
}

// Does nothing, because blocks run one after another.
static inline void __threadfence() {}

// Not instrumented, because earlier atomic operations order this load and the race detector does not model
// them. volatile keeps the compiler from moving the load to the instrumented caller.
static EMULATED_ATOMIC float load_published(const float *address)
{
    return *(const volatile float *)address;
}

static EMULATED_ATOMIC float2 load_published_2(const float2 *address)
{
    const volatile float *items = (const volatile float *)address;
    return {items[0], items[1]};
}

static EMULATED_ATOMIC float4 load_published_4(const float4 *address)
{
    const volatile float *items = (const volatile float *)address;
    return {items[0], items[1], items[2], items[3]};
}

// ---- arithmetic ----

static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

static inline int __clz(int bits)
{
    return bits ? __builtin_clz((unsigned)bits) : 32;
}

static inline uint32_t __float_as_uint(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline float __uint_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline float half_float(uint32_t bits) // converts the lower 16 bits
{
    return emulate_half_float((uint16_t)bits);
}

static inline uint32_t half2_make(float low, float high)
{
    return (uint32_t)emulate_half((double)low) | (uint32_t)emulate_half((double)high) << 16;
}

static inline uint32_t bfloat2_make(float low, float high)
{
    return (uint32_t)emulate_bfloat(low) | (uint32_t)emulate_bfloat(high) << 16;
}

// In double the product of two binary16 plus a third one has at most a rounding error in the last place.
// Rounding twice could matter only if the exact sum is within 2^-53 of a midpoint between two binary16.
static inline uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t result = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        double product = (double)half_float(a >> shift) * (double)half_float(b >> shift);
        result |= (uint32_t)emulate_half(product + (double)half_float(c >> shift)) << shift;
    }
    return result;
}

static inline uint32_t half2_add(uint32_t a, uint32_t b)
{
    return half2_fma(a, 0x3C003C00u, b);
}

static inline uint32_t half2_multiply(uint32_t a, uint32_t b)
{
    return half2_fma(a, b, 0x80008000u); // -0 preserves the sign of a zero product
}

static inline uint32_t half2_low(uint32_t pair)
{
    return (pair & 0xFFFFu) | pair << 16;
}

static inline uint32_t half2_high(uint32_t pair)
{
    return pair >> 16 | (pair & 0xFFFF0000u);
}

static inline uint32_t bytes_pick(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++)
        result |= (uint32_t)(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
    return result;
}

static inline uint32_t bits_merge(uint32_t word, uint32_t mask, uint32_t base)
{
    return (word & mask) | base;
}

static inline float exp2_fast(float x)
{
    float power = exp2f(x);
    return power < 0x1p-126f ? 0.0f : power;
}

// Asynchronous copies are performed at the wait, so that a missing wait is detected.

static inline void copy_async_16(void *shared, const void *global, bool valid)
{
    emulate_copy(shared, global, valid);
}

static inline void copy_async_commit()
{
    emulate_copies_commit();
}

template <int n_left> static inline void copy_async_wait()
{
    emulate_copies_wait(n_left);
}

static inline uint4 load_streaming(const void *address)
{
    emulate_check_aligned(address, 16);
    return *(const uint4 *)address;
}

static inline void prefetch_line(const void *) {}

// gpu/kernels/kernel_cuda.h describes the layouts, gpu/emulation/mma.c the sums.

static inline void mma_half(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulate_mma(d, a, b, false);
}

static inline void mma_bfloat(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    emulate_mma(d, a, b, true);
}
