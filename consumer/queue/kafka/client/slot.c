#include "consumer/queue/kafka/client/slot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(SLOT_COUNT_MAX <= 1024, ".worker-1023 is the longest suffix of a number");

#define WORKER_SUFFIX_LONGEST ".worker-1023"
#define MEMBER_SUFFIX         ".member-"

static bool suits_file_name(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '-' || byte == '_';
}

// suffix_bytes: length of the longest suffix that will be appended.
static enum status write_group(const char *group, size_t suffix_bytes, char out[3 * SLOT_GROUP_BYTES_MAX + 1],
                               struct error *error)
{
    char *end = out;
    if (strlen(group) > SLOT_GROUP_BYTES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "the group's name is longer than %d bytes",
                         SLOT_GROUP_BYTES_MAX);
    for (const char *at = group; *at; at++)
        if (*at < ' ' || *at > '~') // librdkafka sends no offsets of such a group in a transaction
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "--group: expected printable ASCII, got byte 0x%02X", (unsigned char)*at);
    for (const char *at = group; *at; at++)
        end += suits_file_name(*at) ? sprintf(end, "%c", *at) : sprintf(end, "%%%02X", (unsigned char)*at);
    *end = '\0';
    size_t size = (size_t)(end - out), size_max = NAME_MAX - suffix_bytes;
    if (size > size_max)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "the group's name is too long for the name of its lock file: letters, digits, '-' and "
            "'_' count 1, other bytes 3: expected at most %zu, got %zu",
            size_max, size);
    return STATUS_OK;
}

static bool id_valid(const char *id, ssize_t size)
{
    return size == SLOT_ID_BYTES && strspn(id, "0123456789abcdef") == SLOT_ID_BYTES;
}

// A new file, or one whose first write was cut short by a crash: no worker has used the id yet, or it is lost
// and its open transaction times out at the broker.
static bool write_new_id(struct slot *slot)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return false;
    snprintf(slot->id, sizeof slot->id, "%016llx", (unsigned long long)random);
    return ftruncate(slot->file, 0) == 0 && pwrite(slot->file, slot->id, SLOT_ID_BYTES, 0) == SLOT_ID_BYTES &&
           fsync(slot->file) == 0;
}

static bool read_id(struct slot *slot)
{
    char id[SLOT_ID_BYTES + 1] = {0};
    if (!id_valid(id, pread(slot->file, id, SLOT_ID_BYTES, 0)))
        return write_new_id(slot);
    memcpy(slot->id, id, sizeof id);
    return true;
}

// ---- the second line ----

enum { LINE_BYTES_MAX = 2 * 21 + SLOT_MEMBER_BYTES_MAX + 4 };

static bool format_line(const struct slot *slot, const char *member, char line[LINE_BYTES_MAX + 1])
{
    struct stat information;
    if (slot->file < 0 || fstat(slot->file, &information) != 0)
        return false;
    snprintf(line, LINE_BYTES_MAX + 1, "\n%llu %llu %s\n", (unsigned long long)information.st_dev,
             (unsigned long long)information.st_ino, member);
    return true;
}

static void read_member(struct slot *slot)
{
    char line[LINE_BYTES_MAX + 1] = {0}, prefix[LINE_BYTES_MAX + 1];
    slot->member[0] = '\0';
    ssize_t size = pread(slot->file, line, LINE_BYTES_MAX, SLOT_ID_BYTES);
    if (size <= 0 || line[size - 1] != '\n' || !format_line(slot, "", prefix))
        return;
    size_t prefix_bytes = strlen(prefix) - 1;
    if (strncmp(line, prefix, prefix_bytes) != 0)
        return;
    line[size - 1] = '\0';
    snprintf(slot->member, sizeof slot->member, "%.*s", SLOT_MEMBER_BYTES_MAX, line + prefix_bytes);
}

void slot_note_member(struct slot *slot, const char *member)
{
    char line[LINE_BYTES_MAX + 1];
    assert(strlen(member) <= SLOT_MEMBER_BYTES_MAX);
    if (strcmp(slot->member, member) == 0)
        return;
    snprintf(slot->member, sizeof slot->member, "%s", member);
    if (format_line(slot, member, line) && ftruncate(slot->file, SLOT_ID_BYTES) == 0)
        (void)!pwrite(slot->file, line, strlen(line), SLOT_ID_BYTES);
}

// ---- opening ----

enum status slot_open(struct slot *slot, const char *directory, const char *group, struct error *error)
{
    char name[3 * SLOT_GROUP_BYTES_MAX + 1], path[PATH_MAX];
    slot->file = -1;
    enum status status = write_group(group, strlen(WORKER_SUFFIX_LONGEST), name, error);
    if (status != STATUS_OK)
        return status;
    for (slot->number = 0; slot->number < SLOT_COUNT_MAX; slot->number++) {
        int length = snprintf(path, sizeof path, "%s/%s.worker-%d", directory, name, slot->number);
        if ((size_t)length >= sizeof path)
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "the path of %s is too long", directory);
        slot->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (slot->file < 0)
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
        if (flock(slot->file, LOCK_EX | LOCK_NB) == 0) {
            if (read_id(slot)) {
                read_member(slot);
                return STATUS_OK;
            }
            error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
            slot_close(slot);
            return STATUS_REFUSE;
        }
        int lock_error = errno;
        slot_close(slot);
        if (lock_error != EWOULDBLOCK)
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: cannot lock: %s", path,
                             strerror(lock_error));
    }
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "all %d worker slots of group %s in %s are taken",
                     SLOT_COUNT_MAX, group, directory);
}

static bool name_valid(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && size <= SLOT_NAME_BYTES_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == size;
}

static enum status refuse_name(const char *name, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--member-name: expected 1 to %d letters, digits, '.', '_' and '-', got \"%s\"",
                     SLOT_NAME_BYTES_MAX, name);
}

enum status slot_check(const char *group, const char *name, struct error *error)
{
    char group_name[3 * SLOT_GROUP_BYTES_MAX + 1];
    if (name && !name_valid(name))
        return refuse_name(name, error);
    size_t suffix_bytes = name ? strlen(MEMBER_SUFFIX) + strlen(name) : strlen(WORKER_SUFFIX_LONGEST);
    return write_group(group, suffix_bytes, group_name, error);
}

enum status slot_open_named(struct slot *slot, const char *directory, const char *group, const char *name,
                            struct error *error)
{
    char group_name[3 * SLOT_GROUP_BYTES_MAX + 1], path[PATH_MAX];
    slot->file = -1;
    if (!name_valid(name))
        return refuse_name(name, error);
    enum status status = write_group(group, strlen(MEMBER_SUFFIX) + strlen(name), group_name, error);
    if (status != STATUS_OK)
        return status;
    int length = snprintf(path, sizeof path, "%s/%s" MEMBER_SUFFIX "%s", directory, group_name, name);
    if ((size_t)length >= sizeof path)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "the path of %s is too long", directory);
    slot->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (slot->file < 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
    snprintf(slot->id, sizeof slot->id, "%s", name);
    if (flock(slot->file, LOCK_EX | LOCK_NB) == 0) {
        read_member(slot);
        return STATUS_OK;
    }
    int lock_error = errno;
    slot_close(slot);
    if (lock_error == EWOULDBLOCK)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--member-name %s: another worker of group %s has this name (%s)", name, group,
                         path);
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: cannot lock: %s", path, strerror(lock_error));
}

enum status slot_open_without_file(struct slot *slot, const char *name, struct error *error)
{
    uint64_t random;
    slot->file = -1;
    slot->member[0] = '\0';
    if (name && !name_valid(name))
        return refuse_name(name, error);
    if (!name && getrandom(&random, sizeof random, 0) != sizeof random)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "getrandom: %s", strerror(errno));
    if (name)
        snprintf(slot->id, sizeof slot->id, "%s", name);
    else
        snprintf(slot->id, sizeof slot->id, "%016llx", (unsigned long long)random);
    return STATUS_OK;
}

void slot_close(struct slot *slot)
{
    if (slot->file >= 0)
        close(slot->file);
    slot->file = -1;
}
