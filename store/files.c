#include "store/files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const suffixes[STORE_FILES] = {"", "-wal", "-shm"};

// Returns false if the file cannot be found; errno says why.
static bool identify_file(const struct store *store, int file, struct file_identity *identity)
{
    char path[PATH_MAX];
    struct stat about;
    int length = snprintf(path, sizeof path, "%s%s", store->database.path, suffixes[file]);
    errno = ENAMETOOLONG;
    if (length < 0 || (size_t)length >= sizeof path || stat(path, &about) != 0)
        return false;
    *identity = (struct file_identity){about.st_dev, about.st_ino};
    return true;
}

void files_note(struct store *store)
{
    for (int i = 0; i < STORE_FILES; i++)
        if (!identify_file(store, i, &store->files[i]))
            store->files[i] = (struct file_identity){0};
}

// Skips files that files_note did not find.
enum status store_check_files(struct store *store, struct error *error)
{
    for (int i = 0; i < STORE_FILES; i++) {
        struct file_identity now;
        if (store->files[i].inode == 0)
            continue;
        bool found = identify_file(store, i, &now);
        if (!found && errno != ENOENT && errno != ENOTDIR)
            continue; // at the moment the folder cannot be searched; the open files are still valid
        if (!found || now.device != store->files[i].device || now.inode != store->files[i].inode)
            return error_set(error, STATUS_REFUSE, ERROR_STORE,
                             "%s%s was %s while it was in use: what is written now is lost,"
                             " and its unfinished jobs have to be submitted again",
                             store->database.path, suffixes[i], found ? "replaced" : "deleted");
    }
    return STATUS_OK;
}
