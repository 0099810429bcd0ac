#include "tests/unit/store/faulty_sqlite.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static struct {
    enum fault_kind kind;
    bool armed, lasting, paused, met;
    int n_benign; // SQLite can do without the allocations made now
    long left;    // accesses until the one that fails
} faults;

void faults_arm(enum fault_kind kind, long n, bool lasting)
{
    faults.kind = kind;
    faults.armed = true;
    faults.lasting = lasting;
    faults.met = false;
    faults.left = n;
}

void faults_disarm(void)
{
    faults.armed = false;
}

void faults_pause(bool paused)
{
    faults.paused = paused;
}

bool faults_met(void)
{
    return faults.met;
}

static bool fails(enum fault_kind kind)
{
    if (!faults.armed || faults.paused || faults.kind != kind || faults.n_benign > 0)
        return false;
    faults.left--;
    bool now = faults.lasting ? faults.left <= 0 : faults.left == 0;
    faults.met |= now;
    return now;
}

// ---- memory ----

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
char *__wrap_strndup(const char *text, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return fails(FAULT_MEMORY) ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails(FAULT_MEMORY) ? NULL : __real_strndup(text, size);
}

static void begin_benign(void)
{
    faults.n_benign++;
}

static void end_benign(void)
{
    faults.n_benign--;
}

static sqlite3_mem_methods memory; // SQLite's own

static void *memory_malloc(int size)
{
    return fails(FAULT_MEMORY) ? NULL : memory.xMalloc(size);
}

static void *memory_realloc(void *bytes, int size)
{
    return fails(FAULT_MEMORY) ? NULL : memory.xRealloc(bytes, size);
}

// ---- files ----

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; // behind this struct
};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct faulty_file *)file)->real;
}

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *bytes, int n, sqlite3_int64 offset)
{
    return fails(FAULT_IO) ? SQLITE_IOERR_READ
                           : real_of(file)->pMethods->xRead(real_of(file), bytes, n, offset);
}

static int file_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 offset)
{
    if (!fails(FAULT_IO))
        return real_of(file)->pMethods->xWrite(real_of(file), bytes, n, offset);
    (void)real_of(file)->pMethods->xWrite(real_of(file), bytes, n / 2, offset);
    return SQLITE_IOERR_WRITE;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return fails(FAULT_IO) ? SQLITE_IOERR_TRUNCATE : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    (void)file, (void)flags; // these tests end no machine
    return fails(FAULT_IO) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return fails(FAULT_IO) ? SQLITE_IOERR_FSTAT : real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int lock)
{
    return fails(FAULT_IO) ? SQLITE_IOERR_LOCK : real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int file_unlock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *locked)
{
    return fails(FAULT_IO) ? SQLITE_IOERR_CHECKRESERVEDLOCK
                           : real_of(file)->pMethods->xCheckReservedLock(real_of(file), locked);
}

static int file_control(sqlite3_file *file, int what, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, argument);
}

static int file_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **mapped)
{
    if (fails(FAULT_INDEX))
        return SQLITE_CANTOPEN;
    return fails(FAULT_IO) ? SQLITE_IOERR_SHMSIZE
                           : real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, mapped);
}

static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return !(flags & SQLITE_SHM_UNLOCK) && fails(FAULT_IO)
               ? SQLITE_IOERR_SHMLOCK
               : real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int unlink)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), unlink);
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 2, // without xFetch: nothing is mapped but the log's index
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_device,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs vfs;

static int vfs_open(sqlite3_vfs *unused, const char *name, sqlite3_file *file, int flags, int *flags_out)
{
    struct faulty_file *opened = (struct faulty_file *)file;
    opened->base.pMethods = NULL; // not to be closed
    opened->real = (sqlite3_file *)(opened + 1);
    if (fails(FAULT_IO))
        return SQLITE_CANTOPEN;
    int code = real_vfs->xOpen(real_vfs, name, opened->real, flags, flags_out);
    if (code == SQLITE_OK)
        opened->base.pMethods = &file_methods;
    return code;
}

static int vfs_delete(sqlite3_vfs *unused, const char *name, int sync)
{
    return fails(FAULT_IO) ? SQLITE_IOERR_DELETE : real_vfs->xDelete(real_vfs, name, sync);
}

static int vfs_access(sqlite3_vfs *unused, const char *name, int flags, int *result)
{
    return fails(FAULT_IO) ? SQLITE_IOERR_ACCESS : real_vfs->xAccess(real_vfs, name, flags, result);
}

static struct {
    int64_t slept_us;
    void (*call)(void *context);
    void *context;
} sleeps;

int64_t faults_slept_us(void)
{
    return sleeps.slept_us;
}

void faults_at_sleep(void (*call)(void *context), void *context)
{
    sleeps.call = call;
    sleeps.context = context;
}

static int vfs_sleep(sqlite3_vfs *unused, int us)
{
    void (*call)(void *context) = sleeps.call;
    sleeps.slept_us += us;
    sleeps.call = NULL;
    if (call)
        call(sleeps.context);
    return us;
}

void faults_install(void)
{
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory);
    sqlite3_mem_methods failing = memory;
    failing.xMalloc = memory_malloc;
    failing.xRealloc = memory_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0); // each allocation counts
    sqlite3_test_control(SQLITE_TESTCTRL_BENIGN_MALLOC_HOOKS, begin_benign, end_benign);
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "faulty";
    vfs.szOsFile = (int)sizeof(struct faulty_file) + real_vfs->szOsFile;
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    vfs.xAccess = vfs_access;
    vfs.xSleep = vfs_sleep;
    sqlite3_vfs_register(&vfs, 1);
}
