#include "engine/file/mapped_file.h"

#include "schemas/base/hash.h"
#include "schemas/base/memory_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum status mapped_file_open(struct mapped_file *file, const char *path, struct error *error)
{
    *file = (struct mapped_file){0};
    // O_NONBLOCK keeps a FIFO from blocking the open.
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s", strerror(errno));
    struct stat information;
    void *data = MAP_FAILED;
    enum status status = STATUS_OK;
    if (fstat(descriptor, &information) != 0)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s", strerror(errno));
    else if (!S_ISREG(information.st_mode))
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "not a regular file");
    else if (information.st_size == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "the file is empty");
    else if ((uint64_t)information.st_size > SIZE_MAX)
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "larger than the address space");
    else if ((data = mmap(NULL, (size_t)information.st_size, PROT_READ, MAP_SHARED, descriptor, 0)) ==
             MAP_FAILED)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "mmap: %s", strerror(errno));
    if (status != STATUS_OK) {
        close(descriptor);
        return status;
    }
    *file = (struct mapped_file){data, (size_t)information.st_size, descriptor, information.st_mtim};
    return STATUS_OK;
}

void mapped_file_close(struct mapped_file *file)
{
    if (!file->data)
        return;
    munmap((void *)file->data, file->size);
    close(file->descriptor);
    *file = (struct mapped_file){0};
}

enum status mapped_file_check(const struct mapped_file *file, const char *path, struct error *error)
{
    struct stat now;
    if (!file->data)
        return STATUS_OK;
    if (fstat(file->descriptor, &now) != 0)
        return error_set(error, STATUS_RESTART, ERROR_MODEL_FILE, "%s: %s", path, strerror(errno));
    if ((uint64_t)now.st_size != file->size)
        return error_set(error, STATUS_RESTART, ERROR_MODEL_FILE,
                         "%s changed while it was in use: expected %zu bytes, got %lld", path, file->size,
                         (long long)now.st_size);
    if (now.st_mtim.tv_sec != file->modified.tv_sec || now.st_mtim.tv_nsec != file->modified.tv_nsec)
        return error_set(error, STATUS_RESTART, ERROR_MODEL_FILE,
                         "%s changed while it was in use: it was written to", path);
    return STATUS_OK;
}

const unsigned char *mapped_file_read(const struct mapped_file *file, const void *data, size_t size,
                                      unsigned char *buffer)
{
    const unsigned char *bytes = data;
    // Compared as numbers, because the pointers may be into different objects.
    if (!file || !file->data || !buffer || (uintptr_t)bytes < (uintptr_t)file->data)
        return bytes;
    size_t offset = (uintptr_t)bytes - (uintptr_t)file->data;
    if (offset > file->size || size > file->size - offset)
        return bytes;
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(file->descriptor, buffer + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) // an error, or the file was truncated: reading the mapping raises SIGBUS
            return bytes;
        done += (size_t)n;
    }
    return buffer;
}

// ---- hash ----

enum {
    CHUNK_BYTES = 1 << 20,
    CHUNKS_EACH = 64, // number of chunks between two checks of the interrupt
};

struct hashing {
    const struct mapped_file *file;
    int first;              // number of the first chunk of this group
    unsigned char *buffers; // CHUNK_BYTES per thread; NULL: the mapping is read
    // Sums of chunk hashes, per thread. Each hash is seeded with the number of its chunk, so the order does
    // not matter.
    uint64_t sums[POOL_THREADS_MAX];
};

static void hash_chunk(void *context, int index, int thread)
{
    struct hashing *hashing = context;
    size_t chunk = (size_t)hashing->first + (size_t)index, start = chunk * CHUNK_BYTES;
    size_t left = hashing->file->size - start, size = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    unsigned char *buffer = hashing->buffers ? hashing->buffers + (size_t)thread * CHUNK_BYTES : NULL;
    const unsigned char *bytes = mapped_file_read(hashing->file, hashing->file->data + start, size, buffer);
    hashing->sums[thread] += hash_bytes(bytes, size, chunk);
}

static void hash_chunks(struct hashing *hashing, int n, struct pool *pool)
{
    if (pool)
        pool_run(pool, n, hash_chunk, hashing);
    for (int i = 0; !pool && i < n; i++)
        hash_chunk(hashing, i, 0);
}

uint64_t mapped_file_hash(const struct mapped_file *file, uint64_t seed, struct pool *pool,
                          const struct interrupt *interrupt)
{
    struct hashing hashing = {.file = file};
    size_t n_threads = pool ? (size_t)pool_n_threads(pool) : 1;
    uint64_t n_chunks = (file->size + CHUNK_BYTES - 1) / CHUNK_BYTES;
    int n = n_chunks < INT32_MAX ? (int)n_chunks : INT32_MAX; // 2 PiB
    size_t buffer_bytes = n_threads * CHUNK_BYTES; // huge pages: faults of small ones would dominate
    hashing.buffers = memory_map(buffer_bytes);
    bool interrupted = false;
    for (int left = n; left > 0 && !interrupted; left -= CHUNKS_EACH) {
        interrupted = interrupt_requested(interrupt);
        hashing.first = n - left;
        if (!interrupted)
            hash_chunks(&hashing, left < CHUNKS_EACH ? left : CHUNKS_EACH, pool);
    }
    memory_unmap(hashing.buffers, buffer_bytes);
    if (interrupted)
        return 0;
    uint64_t whole[] = {0, file->size};
    for (int i = 0; i < POOL_THREADS_MAX; i++)
        whole[0] += hashing.sums[i];
    return hash_bytes(whole, sizeof whole, seed);
}
