// Shared by kernel sources and the device layer: the shape of a launch, and the list of all kernels. Every
// launch<kernel> in the program registers its kernel before main (gpu/kernels/kernel.h). For C and C++; no
// CUDA header.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct launch_shape {
    unsigned blocks_x, blocks_y, blocks_z, n_threads; // none is 0: CUDA rejects an empty launch
    size_t shared_bytes;                              // size of dynamic_shared()
};

// CUDA's limits for every compute capability from 8.0 on (CUDA programming guide, technical specifications).
enum {
    LAUNCH_BLOCKS_X_MAX = 0x7FFFFFFF,
    LAUNCH_BLOCKS_YZ_MAX = 65535,
    LAUNCH_THREADS_MAX = 1024,
    LAUNCH_ARGUMENT_BYTES_MAX = 4096,
    LAUNCH_ARGUMENTS_MAX = 16,
};

struct kernel_entry {
    const void *function; // host address, for cudaLaunchKernel
    char name[112];       // with its template arguments, for messages and profiles
    bool overlaps;        // launched by launch_overlapped (gpu/kernels/kernel.h)
    struct kernel_entry *next;
};

// The arguments of one launch, each with its size. They are read before the call returns.
struct launch_arguments {
    int n;
    void *values[LAUNCH_ARGUMENTS_MAX];
    size_t sizes[LAUNCH_ARGUMENTS_MAX];
};

#ifdef __cplusplus
extern "C" {
#endif

// `description`: __PRETTY_FUNCTION__ of a function template over the kernel; the kernel's name is parsed from
// it.
void kernel_register(struct kernel_entry *entry, const void *function, const char *description);
const struct kernel_entry *kernel_list(void); // the last registered kernel, or NULL

// CUDA: enqueues the kernel, or adds it to the graph under capture. `stream` is device_stream's. A failure is
// latched with the kernel's name.
void device_launch(void *stream, const struct kernel_entry *kernel, const struct launch_shape *shape,
                   const struct launch_arguments *arguments);

#ifdef __cplusplus
}
#endif
