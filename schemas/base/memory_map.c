#include "schemas/base/memory_map.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned char *round_up(unsigned char *address, size_t unit)
{
    return address + (unit - (uintptr_t)address % unit) % unit;
}

// Aligns large mappings to huge pages, because the kernel uses huge pages only for whole ones.
void *memory_map(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t extra = size >= MEMORY_MAP_HUGE_BYTES ? MEMORY_MAP_HUGE_BYTES : 0;
    if (size > SIZE_MAX / 2)
        return NULL;
    unsigned char *mapped =
        mmap(NULL, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    if (extra == 0)
        return mapped;
    unsigned char *memory = round_up(mapped, MEMORY_MAP_HUGE_BYTES);
    unsigned char *end = round_up(memory + size, page), *mapped_end = round_up(mapped + size + extra, page);
    if (memory > mapped)
        munmap(mapped, (size_t)(memory - mapped));
    if (mapped_end > end)
        munmap(end, (size_t)(mapped_end - end));
    madvise(memory, size, MADV_HUGEPAGE); // a hint, which may fail
    return memory;
}

void memory_unmap(void *memory, size_t size)
{
    if (memory)
        munmap(memory, size);
}
