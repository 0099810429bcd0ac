// sheaf backup: copies a store, also while workers use it.
#include "consumer/command/commands.h"
#include "consumer/command/files/named_store.h"
#include "consumer/observe/log.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status fail(const char *path, const char *doing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s: %s", path, doing, strerror(errno));
}

// Creates an empty file that only its owner may read, as the store is.
static enum status create_part(const char *path, struct error *error)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail(path, "opening", error);
    close(fd);
    return STATUS_OK;
}

// Gives the copy its name. A copy that another process made meanwhile is kept.
static enum status name_copy(const char *part, const char *path, struct error *error)
{
    if (link(part, path) != 0)
        return fail(path, "naming the copy", error);
    return unlink(part) == 0 ? STATUS_OK : fail(part, "removing", error);
}

static void mention_files(const char *store)
{
    char folder[PATH_MAX];
    struct stat about;
    int length = snprintf(folder, sizeof folder, "%s-files", store);
    if (length > 0 && (size_t)length < sizeof folder && stat(folder, &about) == 0)
        log_write(LOG_WARNING, "%s: the files of sheaf serve are in this folder: copy it too", folder);
}

enum status command_backup(const struct settings *settings, struct error *error)
{
    const char *path = settings->line.positionals[0];
    char part[PATH_MAX];
    int length = snprintf(part, sizeof part, "%s.part", path);
    if (length < 0 || (size_t)length >= sizeof part)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: the path is too long", path);
    if (access(path, F_OK) == 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: there is such a file already: a backup overwrites none", path);
    struct store *store = NULL;
    enum status status = named_store_open_to_read(&store, settings, error);
    if (status == STATUS_OK)
        status = create_part(part, error);
    if (status == STATUS_OK) {
        status = store_copy(store, part, error);
        if (status == STATUS_OK)
            status = name_copy(part, path, error);
        if (status != STATUS_OK)
            unlink(part);
    }
    if (status == STATUS_OK) {
        struct stat about = {0};
        (void)stat(path, &about);
        log_write(LOG_INFO, "%s: a copy of %s, %lld bytes", path, named_store_path(settings),
                  (long long)about.st_size);
        mention_files(named_store_path(settings));
    }
    store_close(store);
    return status;
}
