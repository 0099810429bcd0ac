#include "schemas/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status file_read(const char *path, size_t size_max, struct buffer *content, struct error *error)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
    content->size_max = size_max;
    char bytes[65536];
    for (size_t n; !content->failed && (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        buffer_add(content, bytes, n);
    bool failed = ferror(file);
    int code = errno;
    fclose(file);
    if (failed)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", path, strerror(code));
    if (content->failed && !content->is_full)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "%s: no memory to read it", path);
    if (content->failed)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: larger than %zu bytes", path,
                         size_max);
    return STATUS_OK;
}

// STATUS_REFUSE: a line is not UTF-8.
static enum status check_text(const char *path, struct text text, struct error *error)
{
    size_t number = 1;
    if (utf8_valid(text.data, text.size))
        return STATUS_OK;
    for (size_t at = 0, size; at < text.size; at += size + 1, number++) {
        const char *feed = memchr(text.data + at, '\n', text.size - at);
        size = feed ? (size_t)(feed - text.data) - at : text.size - at;
        if (!utf8_valid(text.data + at, size))
            break;
    }
    bool is_wide =
        text.size >= 2 && (memcmp(text.data, "\xFF\xFE", 2) == 0 || memcmp(text.data, "\xFE\xFF", 2) == 0);
    return error_set(error, STATUS_REFUSE, ERROR_INVALID_ENCODING, "%s: line %zu: expected text in UTF-8%s",
                     path, number, is_wide ? ", got UTF-16" : "");
}

enum status file_read_text(const char *path, size_t size_max, struct buffer *content, struct error *error)
{
    enum status status = file_read(path, size_max, content, error);
    if (status == STATUS_OK)
        status = check_text(path, (struct text){content->data, content->size}, error);
    if (status == STATUS_OK && content->size >= 3 && memcmp(content->data, "\xEF\xBB\xBF", 3) == 0) {
        content->size -= 3;
        memmove(content->data, content->data + 3, content->size + 1); // with the NUL after the text
    }
    return status;
}

// ---- links ----

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0' && strlen(text) < 10;
}

// True if `folder` is /proc/PID/fd or /proc/PID/task/THREAD/fd of this process.
static bool is_own_descriptors(const char *folder)
{
    long pid, thread;
    int end = 0;
    if (sscanf(folder, "/proc/%ld/fd%n", &pid, &end) != 1 || end == 0 || folder[end])
        if (end = 0,
            sscanf(folder, "/proc/%ld/task/%ld/fd%n", &pid, &thread, &end) != 2 || end == 0 || folder[end])
            return false;
    return pid == (long)getpid();
}

// Writes the folder's real path, a slash and the last component to `out`. False: errno says why.
static bool resolve_component(const char *path, char out[PATH_MAX], char folder[PATH_MAX], const char **name)
{
    char parent[PATH_MAX];
    size_t length = strlen(path);
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (length == 0 || length >= sizeof parent || !**name) {
        errno = length == 0 ? ENOENT : length >= sizeof parent ? ENAMETOOLONG : EISDIR;
        return false;
    }
    size_t parent_length = slash ? (size_t)(slash - path) : 0;
    snprintf(parent, sizeof parent, "%.*s", (int)parent_length, path);
    if (!realpath(!slash ? "." : parent_length ? parent : "/", folder))
        return false;
    int written = snprintf(out, PATH_MAX, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, *name);
    errno = ENAMETOOLONG;
    return written > 0 && written < PATH_MAX;
}

bool file_follow(const char *path, struct file_place *place)
{
    char current[PATH_MAX], target[PATH_MAX], folder[PATH_MAX];
    const char *name;
    place->descriptor = -1;
    if (strlen(path) >= sizeof current) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(current, path);
    for (int i = 0; i < FILE_LINKS_MAX; i++) {
        if (!resolve_component(current, place->path, folder, &name))
            return false;
        if (is_number(name) && is_own_descriptors(folder)) {
            place->descriptor = atoi(name);
            return true;
        }
        ssize_t length = readlink(place->path, target, sizeof target - 1);
        if (length < 0)
            return errno == EINVAL || errno == ENOENT; // not a link, or the file does not exist yet
        target[length] = '\0';
        int written = target[0] == '/' ? snprintf(current, sizeof current, "%s", target)
                                       : snprintf(current, sizeof current, "%s/%s", folder, target);
        if (written < 0 || (size_t)written >= sizeof current) {
            errno = ENAMETOOLONG;
            return false;
        }
    }
    errno = ELOOP;
    return false;
}

int file_own_descriptor(const char *path)
{
    struct file_place place;
    return file_follow(path, &place) ? place.descriptor : -1;
}

bool file_is_stream(const char *path)
{
    struct file_place place;
    struct stat about;
    if (strcmp(path, "-") == 0)
        return true;
    return file_follow(path, &place) &&
           (place.descriptor >= 0 ||
            (stat(place.path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)));
}

// ---- one file under two names ----

struct identity {
    bool is_file; // a regular file or a file that does not exist yet; others are not compared
    dev_t device;
    ino_t inode;
    char path[PATH_MAX]; // path of a file that does not exist yet
};

static void identify_file(const struct file_use *use, struct identity *identity)
{
    struct file_place place;
    struct stat about;
    *identity = (struct identity){0};
    bool standard = strcmp(use->path, "-") == 0;
    bool leads = !standard && file_follow(use->path, &place);
    int descriptor = standard ? (use->is_written ? STDOUT_FILENO : STDIN_FILENO)
                     : leads  ? place.descriptor
                              : -1;
    if (descriptor >= 0 ? fstat(descriptor, &about) == 0 : leads && stat(place.path, &about) == 0) {
        identity->is_file = S_ISREG(about.st_mode);
        identity->device = about.st_dev;
        identity->inode = about.st_ino;
    } else if (leads && descriptor < 0 && errno == ENOENT) {
        identity->is_file = true;
        strcpy(identity->path, place.path);
    }
}

static bool is_same(const struct file_use *a, const struct file_use *b)
{
    struct identity one, other;
    if (strcmp(a->path, "-") == 0 && strcmp(b->path, "-") == 0 && a->is_written && b->is_written)
        return true;
    identify_file(a, &one);
    identify_file(b, &other);
    return one.is_file && other.is_file && one.device == other.device && one.inode == other.inode &&
           strcmp(one.path, other.path) == 0;
}

// Finds the store's side file that `use` names. SQLite derives the names of its files from the resolved path,
// store/workers.c from the given path.
static const char *side_file_in_use(const struct file_use *store, const struct file_use *use)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal", "-workers"};
    struct file_place place;
    const char *const bases[] = {store->path, file_follow(store->path, &place) ? place.path : store->path};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < sizeof suffixes / sizeof suffixes[0]; j++) {
            char path[PATH_MAX];
            int length = snprintf(path, sizeof path, "%s%s", bases[i], suffixes[j]);
            struct file_use side = {.path = path, .is_written = true};
            if (length > 0 && (size_t)length < sizeof path && is_same(&side, use))
                return suffixes[j];
        }
    return NULL;
}

// True if one of the folder's files, which may be a link, is `use`.
static bool has_file(const char *folder, const struct file_use *use)
{
    DIR *entries = opendir(folder);
    bool is_found = false;
    for (struct dirent *entry; entries && !is_found && (entry = readdir(entries));) {
        char path[PATH_MAX];
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        is_found =
            length > 0 && (size_t)length < sizeof path && is_same(&(struct file_use){.path = path}, use);
    }
    if (entries)
        closedir(entries);
    return is_found;
}

static bool is_inside(const char *folder, const struct file_use *use)
{
    char real[PATH_MAX];
    struct file_place place;
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode) || !realpath(folder, real))
        return false;
    size_t n = strlen(real);
    const char *dot = strrchr(use->path, '.');
    bool can_be_read = !use->is_store && !(dot && strcmp(dot, ".gguf") == 0);
    return has_file(real, use) || (can_be_read && file_follow(use->path, &place) && place.descriptor < 0 &&
                                   strncmp(place.path, real, n) == 0 && place.path[n] == '/');
}

static bool is_split_part(const char *model, const struct file_use *use)
{
    enum { SUFFIX_BYTES = sizeof "-00001-of-00003.gguf" - 1 };
    unsigned number, count;
    int end = 0;
    size_t length = strlen(model), stem = length - SUFFIX_BYTES;
    if (length <= SUFFIX_BYTES || length >= PATH_MAX ||
        sscanf(model + stem, "-%5u-of-%5u.gguf%n", &number, &count, &end) != 2 || end != SUFFIX_BYTES)
        return false;
    for (number = 1; number <= count; number++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s-%05u-of-%05u.gguf", (int)stem, model, number, count);
        if (is_same(&(struct file_use){.path = path}, use))
            return true;
    }
    return false;
}

static enum status check_model(const struct file_use *model, const struct file_use *use, struct error *error)
{
    if (is_inside(model->path, use))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s is in %s's folder: %s", use->name,
                         model->name, use->path);
    if (is_split_part(model->path, use))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s is a part of %s: %s", use->name, model->name,
                         use->path);
    return STATUS_OK;
}

static enum status check_pair(const struct file_use *one, const struct file_use *other, struct error *error)
{
    if (!one->is_written && !other->is_written)
        return STATUS_OK;
    if (is_same(one, other))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s and %s are one file: %s", one->name,
                         other->name, other->path);
    if (one->is_model)
        return check_model(one, other, error);
    const struct file_use *store = one->is_store ? one : other, *use = one->is_store ? other : one;
    const char *suffix = store->is_store ? side_file_in_use(store, use) : NULL;
    if (suffix)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s and %s's %s file are one file: %s", use->name,
                         store->name, suffix, use->path);
    return STATUS_OK;
}

enum status file_check_uses(const struct file_use *uses, size_t n, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i && status == STATUS_OK; j++)
            if (uses[i].path && uses[j].path)
                status = check_pair(&uses[j], &uses[i], error);
    return status;
}

// ---- temporary files ----

const char *file_temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

int file_open_temporary(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    char path[PATH_MAX]; // for a file system without O_TMPFILE
    int length = snprintf(path, sizeof path, "%s/sheaf-XXXXXX", folder);
    errno = ENAMETOOLONG;
    fd = length > 0 && (size_t)length < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd >= 0)
        unlink(path);
    return fd;
}
