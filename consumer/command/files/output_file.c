#include "consumer/command/files/output_file.h"

#include "schemas/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES_TRIED_MAX = 100 };

static enum status fail_output(const struct output_file *output, const char *doing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s%s", output->name, doing, strerror(errno));
}

// Finds an unused name beside the target: use() creates the file, or fails with EEXIST.
static bool take_name(struct output_file *output, bool (*use)(const char *path, int *fd), int *fd)
{
    for (int i = 0; i < NAMES_TRIED_MAX; i++) {
        unsigned random;
        char *path;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random ||
            asprintf(&path, "%s.%08x.part", output->target, random) < 0)
            return false;
        if (use(path, fd)) {
            output->temporary = path;
            return true;
        }
        int code = errno;
        free(path);
        errno = code;
        if (code != EEXIST)
            return false;
    }
    return false;
}

static bool create_named(const char *path, int *fd)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd >= 0;
}

static void path_of_descriptor(int fd, char path[32])
{
    snprintf(path, 32, "/proc/self/fd/%d", fd);
}

static bool name_unnamed(const char *path, int *fd)
{
    char from[32];
    path_of_descriptor(*fd, from);
    return linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

// An unnamed file (O_TMPFILE), if the file system supports it and /proc is available to link it; else a file
// with a temporary name.
static int create_temporary(struct output_file *output)
{
    char *slash = strrchr(output->target, '/'), path[32];
    size_t length = slash == output->target ? 1 : (size_t)(slash - output->target);
    char *folder = strndup(output->target, length);
    if (!folder)
        return -1;
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    free(folder);
    if (fd >= 0) {
        path_of_descriptor(fd, path);
        if (access(path, F_OK) == 0)
            return fd;
        close(fd);
    }
    return take_name(output, create_named, &fd) ? fd : -1;
}

// The inode is compared because another process may have renamed the file between open() and flock().
static int open_part(struct output_file *output)
{
    if (asprintf(&output->temporary, "%s.part", output->target) < 0) {
        output->temporary = NULL;
        return -1;
    }
    for (;;) {
        struct stat opened, named;
        int fd = open(output->temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &opened) != 0) {
            int code = errno;
            close(fd);
            errno = code;
            return -1;
        }
        if (stat(output->temporary, &named) == 0 && named.st_ino == opened.st_ino &&
            named.st_dev == opened.st_dev)
            return fd;
        close(fd);
    }
}

static enum status open_regular(struct output_file *output, const char *target, const struct stat *existing,
                                struct error *error)
{
    if (existing && faccessat(AT_FDCWD, target, W_OK, AT_EACCESS) != 0)
        return fail_output(output, "", error);
    output->target = strdup(target);
    int fd = !output->target ? -1 : output->is_part ? open_part(output) : create_temporary(output);
    if (fd < 0 && errno == EWOULDBLOCK)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s.part: another process writes it",
                         output->name);
    if (fd < 0)
        return fail_output(output, "creating a file beside it: ", error);
    if (existing) {
        if (fchown(fd, existing->st_uid, existing->st_gid) != 0)
            errno = 0; // the file of another owner becomes ours
        if (fchmod(fd, existing->st_mode & 07777) != 0)
            errno = 0; // a file system without modes
    }
    output->file = fdopen(fd, "w");
    if (output->file)
        return STATUS_OK;
    close(fd);
    return fail_output(output, "", error);
}

static enum status open_stream(struct output_file *output, int fd, struct error *error)
{
    output->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (output->file)
        return STATUS_OK;
    fail_output(output, "", error);
    if (fd >= 0)
        close(fd);
    return error->status;
}

static enum status open_path(struct output_file *output, const char *path, struct error *error)
{
    struct file_place place;
    struct stat about;
    if (!file_follow(path, &place))
        return fail_output(output, "", error);
    if (place.descriptor >= 0)
        return open_stream(output, fcntl(place.descriptor, F_DUPFD_CLOEXEC, 3), error);
    if (stat(place.path, &about) != 0)
        return errno == ENOENT ? open_regular(output, place.path, NULL, error)
                               : fail_output(output, "", error);
    if (S_ISDIR(about.st_mode))
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected a file, got a folder", path);
    if (S_ISREG(about.st_mode))
        return open_regular(output, place.path, &about, error);
    // a FIFO: waits for its reader
    return open_stream(output, open(place.path, O_WRONLY | O_NOCTTY | O_CLOEXEC), error);
}

static enum status open_output(struct output_file *output, const char *path, bool is_part,
                               struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    *output = (struct output_file){.name = strdup(standard ? "standard output" : path), .is_part = is_part};
    if (!output->name)
        return error_memory(error, STATUS_REFUSE, "%s", path);
    enum status status = STATUS_OK;
    if (standard)
        output->file = stdout;
    else
        status = open_path(output, path, error);
    if (status != STATUS_OK)
        output_file_close(output);
    return status;
}

enum status output_file_open(struct output_file *output, const char *path, struct error *error)
{
    return open_output(output, path, false, error);
}

enum status output_file_open_part(struct output_file *output, const char *path, struct error *error)
{
    return open_output(output, path, true, error);
}

// A new name survives a power failure only after its folder is synchronized.
static void synchronize_folder(const char *path)
{
    char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        slash[slash == folder] = '\0';
        int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            fsync(fd); // best effort: some file systems refuse it
            close(fd);
        }
    }
    free(folder);
}

enum status output_file_complete(struct output_file *output, struct error *error)
{
    if (!output->file)
        return STATUS_OK;
    int fd = fileno(output->file);
    errno = 0;
    if (fflush(output->file) != 0 || (ferror(output->file) && (errno = errno ? errno : EIO)))
        return fail_output(output, "writing: ", error);
    if (!output->target)
        return STATUS_OK;
    if (fsync(fd) != 0)
        return fail_output(output, "writing: ", error);
    if (!output->temporary && !take_name(output, name_unnamed, &fd))
        return fail_output(output, "naming it: ", error);
    if (rename(output->temporary, output->target) != 0)
        return fail_output(output, "renaming: ", error);
    free(output->temporary);
    output->temporary = NULL;
    synchronize_folder(output->target);
    return STATUS_OK;
}

enum status output_file_print(const void *bytes, size_t n, struct error *error)
{
    if ((n == 0 || fwrite(bytes, 1, n, stdout) == n) && fflush(stdout) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "standard output: writing: %s", strerror(errno));
}

void output_file_close(struct output_file *output)
{
    if (output->file && output->file != stdout)
        fclose(output->file);
    if (output->temporary && !output->is_part)
        unlink(output->temporary);
    free(output->temporary);
    free(output->target);
    free(output->name);
    *output = (struct output_file){0};
}
