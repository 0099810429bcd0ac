#include "consumer/serve/serve_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ORPHAN_S = 3600 };

#define SERVER_PREFIX "server-"

bool serve_folder_path(const struct serve *serve, struct text id, char path[PATH_MAX])
{
    if (id.size == 0 || id.size >= SERVE_ID_BYTES || memchr(id.data, '/', id.size) || id.data[0] == '.')
        return false;
    int length = snprintf(path, PATH_MAX, "%s/%.*s", serve->folder, (int)id.size, id.data);
    return length > 0 && length < PATH_MAX;
}

static enum status fail_folder(const char *path, enum error_code code, struct error *error)
{
    return error_set(error, STATUS_REFUSE, code, "%s: the folder of files: %s", path, strerror(errno));
}

enum status serve_folder_open(struct serve *serve, struct error *error)
{
    char id[SERVE_ID_BYTES], path[PATH_MAX], unlocked[PATH_MAX + 4];
    if (asprintf(&serve->folder, "%s-files", serve->config.store_path) < 0) {
        serve->folder = NULL;
        return error_memory(error, STATUS_REFUSE, "sheaf serve");
    }
    if (mkdir(serve->folder, 0700) != 0 && errno != EEXIST)
        return fail_folder(serve->folder, ERROR_FILE, error);
    if (!serve_new_id(id, SERVER_PREFIX, sizeof serve->name - 1))
        return fail_folder(serve->folder, ERROR_FILE, error);
    memcpy(serve->name, id + strlen(SERVER_PREFIX), sizeof serve->name);
    errno = ENAMETOOLONG;
    if (!serve_folder_path(serve, text_from_string(id), path))
        return fail_folder(serve->folder, ERROR_FILE, error);
    snprintf(unlocked, sizeof unlocked, "%s/.%s", serve->folder, id); // not seen by other servers
    serve->lock_file = open(unlocked, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (serve->lock_file < 0 || flock(serve->lock_file, LOCK_EX | LOCK_NB) != 0 ||
        rename(unlocked, path) != 0)
        return fail_folder(path, ERROR_FILE, error);
    return STATUS_OK;
}

void serve_folder_close(struct serve *serve)
{
    char name[SERVE_ID_BYTES], path[PATH_MAX];
    snprintf(name, sizeof name, SERVER_PREFIX "%s", serve->name);
    if (serve->lock_file >= 0) {
        if (serve_folder_path(serve, text_from_string(name), path))
            unlink(path);
        close(serve->lock_file);
    }
    free(serve->folder);
    serve->folder = NULL;
}

static bool is_orphan(const char *path, const char *name, struct store *store)
{
    struct stat about;
    struct error ignored;
    bool exists = true;
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode) || time(NULL) - about.st_mtime < ORPHAN_S)
        return false;
    return store_file_exists(store, text_from_string(name), &exists, &ignored) == STATUS_OK && !exists;
}

void serve_folder_sweep(const struct serve *serve, struct store *store)
{
    DIR *folder = opendir(serve->folder);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[PATH_MAX];
        if (strncmp(entry->d_name, "file-", 5) == 0 &&
            serve_folder_path(serve, text_from_string(entry->d_name), path) &&
            is_orphan(path, entry->d_name, store))
            unlink(path);
    }
    closedir(folder);
}

// The lock of a living server can't be had: it locks its file before the file has this name.
static bool is_dead(const char *path, int *fd)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0;
}

void serve_folder_find_dead(const struct serve *serve, bool (*receive)(void *context, const char *name),
                            void *context)
{
    DIR *folder = opendir(serve->folder);
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[PATH_MAX];
        int fd = -1;
        if (strncmp(entry->d_name, SERVER_PREFIX, strlen(SERVER_PREFIX)) != 0 ||
            !serve_folder_path(serve, text_from_string(entry->d_name), path))
            continue;
        if (is_dead(path, &fd) && receive(context, entry->d_name + strlen(SERVER_PREFIX)))
            unlink(path);
        if (fd >= 0)
            close(fd);
    }
    closedir(folder);
}
