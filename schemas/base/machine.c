// Reads /proc, /sys and the affinity mask. Control groups: kernel documentation, admin-guide/cgroup-v2.rst
// (cpu.max, memory.max, memory.current) and cgroup-v1 (cpu.cfs_quota_us, memory.limit_in_bytes). Any ancestor
// group may have a limit, so the lowest limit counts.
#include "schemas/base/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LINE_BYTES = 4096, CPUS_MAX = 8192 };

static bool read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fgets(line, (int)size, file) != NULL;
    fclose(file);
    return ok;
}

// Returns the lowest-numbered processor in the mask that is on the same core as `cpu`. The kernel's list
// looks like "0,64" or "0-1".
static int first_sibling(int cpu, const cpu_set_t *mask, size_t mask_size)
{
    char path[128], line[LINE_BYTES];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (!read_line(path, line, sizeof line))
        return cpu;
    for (char *at = line; *at >= '0' && *at <= '9';) {
        long first = strtol(at, &at, 10), last = first;
        if (*at == '-')
            last = strtol(at + 1, &at, 10);
        for (long sibling = first; sibling <= last && sibling < cpu; sibling++)
            if (CPU_ISSET_S((size_t)sibling, mask_size, mask))
                return (int)sibling;
        if (*at == ',')
            at++;
    }
    return cpu;
}

static int n_cores_in_affinity(void)
{
    cpu_set_t *mask = CPU_ALLOC(CPUS_MAX);
    size_t mask_size = CPU_ALLOC_SIZE(CPUS_MAX);
    int n_cores = 0;
    if (mask && sched_getaffinity(0, mask_size, mask) == 0) {
        for (int cpu = 0; cpu < CPUS_MAX; cpu++)
            n_cores +=
                CPU_ISSET_S((size_t)cpu, mask_size, mask) && first_sibling(cpu, mask, mask_size) == cpu;
    } else {
        n_cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    }
    CPU_FREE(mask);
    return n_cores > 0 ? n_cores : 1;
}

// Finds the directory of this process's control group in the hierarchy of `controller`; "" means version 2.
static bool group_directory(const char *controller, char *directory, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return false;
    char line[LINE_BYTES];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) { // "4:cpu,cpuacct:/path"
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        if (*controller == '\0') {
            found = names[1] == '\0';
        } else {
            char *rest = names + 1;
            for (char *name; !found && (name = strsep(&rest, ",")) != NULL;)
                found = strcmp(name, controller) == 0;
        }
        if (found) {
            const char *slash = *controller ? "/" : "";
            int length = snprintf(directory, size, "/sys/fs/cgroup%s%s%s", slash, controller, path);
            found = length > 0 && (size_t)length < size;
        }
    }
    fclose(file);
    return found;
}

static bool read_number(const char *directory, const char *name, double *number)
{
    char path[PATH_BYTES + 64], line[LINE_BYTES];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (!read_line(path, line, sizeof line))
        return false;
    char *end;
    *number = strtod(line, &end);
    return end != line; // "max": no limit
}

static bool read_cpu_max(const char *directory, double *cores) // "200000 100000"
{
    char path[PATH_BYTES + 64], line[LINE_BYTES];
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    double quota_us, period_us;
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf %lf", &quota_us, &period_us) != 2 ||
        period_us <= 0)
        return false;
    *cores = quota_us / period_us;
    return true;
}

static bool read_cfs_quota(const char *directory, double *cores)
{
    double quota_us, period_us;
    if (!read_number(directory, "cpu.cfs_quota_us", &quota_us) || quota_us <= 0 ||
        !read_number(directory, "cpu.cfs_period_us", &period_us) || period_us <= 0)
        return false;
    *cores = quota_us / period_us;
    return true;
}

static bool read_memory_left(const char *directory, double *bytes)
{
    double limit_bytes, used_bytes;
    if (!read_number(directory, "memory.max", &limit_bytes) ||
        !read_number(directory, "memory.current", &used_bytes))
        return false;
    *bytes = limit_bytes > used_bytes ? limit_bytes - used_bytes : 1;
    return true;
}

static bool read_memory_left_v1(const char *directory, double *bytes)
{
    double limit_bytes, used_bytes;
    if (!read_number(directory, "memory.limit_in_bytes", &limit_bytes) ||
        !read_number(directory, "memory.usage_in_bytes", &used_bytes))
        return false;
    *bytes = limit_bytes > used_bytes ? limit_bytes - used_bytes : 1;
    return true;
}

// Computes the minimum of `read` over the process's group and its ancestors. False: no limit is set.
static bool group_least(const char *controller, bool (*read)(const char *directory, double *value),
                        double *least)
{
    char directory[PATH_BYTES];
    if (!group_directory(controller, directory, sizeof directory))
        return false;
    bool found = false;
    size_t root_size = strlen("/sys/fs/cgroup");
    for (;;) {
        double value;
        if (read(directory, &value) && (!found || value < *least)) {
            *least = value;
            found = true;
        }
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < root_size)
            return found;
        *slash = '\0';
    }
}

int machine_n_cores(void)
{
    int n_cores = n_cores_in_affinity();
    double quota;
    if (group_least("", read_cpu_max, &quota) && quota < n_cores)
        n_cores = (int)(quota + 0.999);
    if (group_least("cpu", read_cfs_quota, &quota) && quota < n_cores)
        n_cores = (int)(quota + 0.999);
    return n_cores > 0 ? n_cores : 1;
}

static uint64_t system_available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file)
        return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    char line[LINE_BYTES];
    uint64_t kilobytes = 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1)
            break;
    fclose(file);
    return kilobytes << 10;
}

// Computes the rest of the address space limit (ulimit -v), which also counts memory that is reserved but
// unused.
static bool address_space_left(double *bytes)
{
    struct rlimit limit;
    char line[LINE_BYTES];
    uint64_t n_pages;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        !read_line("/proc/self/statm", line, sizeof line) || sscanf(line, "%" SCNu64, &n_pages) != 1)
        return false;
    double used_bytes = (double)n_pages * (double)sysconf(_SC_PAGESIZE);
    *bytes = (double)limit.rlim_cur > used_bytes ? (double)limit.rlim_cur - used_bytes : 1;
    return true;
}

uint64_t machine_available_bytes(void)
{
    uint64_t available_bytes = system_available_bytes();
    double left_bytes;
    if (group_least("", read_memory_left, &left_bytes) && left_bytes < (double)available_bytes)
        available_bytes = (uint64_t)left_bytes;
    if (group_least("memory", read_memory_left_v1, &left_bytes) && left_bytes < (double)available_bytes)
        available_bytes = (uint64_t)left_bytes;
    if (address_space_left(&left_bytes) && left_bytes < (double)available_bytes)
        available_bytes = (uint64_t)left_bytes;
    return available_bytes;
}
