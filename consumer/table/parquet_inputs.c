#include "consumer/table/parquet_inputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const char pattern[] = "*.parquet", ending[] = ".parquet";

static bool ends_in(const char *text, const char *end)
{
    size_t size = strlen(text), n = strlen(end);
    return size >= n && strcasecmp(text + size - n, end) == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

// Whether the path is "*.parquet", alone or after a folder and a slash. *n_folder: the length before it.
static bool is_pattern(const char *path, size_t *n_folder)
{
    size_t size = strlen(path), n = sizeof pattern - 1;
    *n_folder = size < n ? 0 : size - n;
    return strcmp(path + *n_folder, pattern) == 0 && (*n_folder == 0 || path[*n_folder - 1] == '/');
}

bool parquet_inputs_is_folder(const char *path)
{
    size_t n_folder;
    return is_folder(path) || is_pattern(path, &n_folder);
}

static enum status refuse_memory(const char *path, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: reading", path);
}

// ---- names ----

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Names of hidden files, as of unfinished ones, are left out.
static bool is_wanted(const char *name)
{
    return name[0] != '.' && name[0] != '_' && ends_in(name, ending);
}

static enum status add_names(struct parquet_inputs *inputs, DIR *folder, const char *path, const char **names,
                             size_t *n, struct error *error)
{
    const struct dirent *entry;
    struct buffer name = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && (entry = readdir(folder)) != NULL) {
        if (!is_wanted(entry->d_name))
            continue;
        buffer_clear(&name);
        buffer_add_format(&name, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry->d_name);
        if (*n == PARQUET_INPUTS_MAX)
            status = error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: more than %d Parquet files",
                               path, PARQUET_INPUTS_MAX);
        else if (name.failed || !(names[*n] = arena_copy(&inputs->arena, name.data, name.size)))
            status = refuse_memory(path, error);
        *n += status == STATUS_OK;
    }
    buffer_finish(&name);
    return status;
}

static bool has_parquet(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool is_found = false;
    while (folder && !is_found && (entry = readdir(folder)) != NULL)
        is_found = is_wanted(entry->d_name);
    if (folder)
        closedir(folder);
    return is_found;
}

// Whether an inner folder may have rows of the table: a partition (NAME=VALUE), or Parquet files.
static bool is_part(const char *path, const char *name)
{
    return name[0] != '.' && name[0] != '_' && is_folder(path) && (strchr(name, '=') || has_parquet(path));
}

// ---- tables with a transaction log ----

static bool has_ending(const char *path, const char *end)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool is_found = false;
    while (folder && !is_found && (entry = readdir(folder)) != NULL)
        is_found = ends_in(entry->d_name, end);
    if (folder)
        closedir(folder);
    return is_found;
}

// The folder's kind of table; NULL: no table with a log. path: without a trailing slash.
static const char *kind_of_table(const char *path, struct buffer *name)
{
    static const struct {
        const char *log, *kind, *ending; // ending: of some file in the log's folder; NULL: any
    } logs[] = {{"_delta_log", "a Delta", NULL},
                {".hoodie", "a Hudi", NULL},
                {"metadata", "an Iceberg", ".metadata.json"}};
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        buffer_clear(name);
        buffer_add_format(name, "%s/%s", path, logs[i].log);
        if (!name->failed && is_folder(name->data) &&
            (!logs[i].ending || has_ending(name->data, logs[i].ending)))
            return logs[i].kind;
    }
    return NULL;
}

// Refuses a folder that is a Delta, Hudi or Iceberg table, or a partition of one: deleted rows would be read.
// shown: the path in the error.
static enum status check_log(const char *folder, const char *shown, struct error *error)
{
    struct buffer name = {0};
    char *path = realpath(*folder ? folder : ".", NULL); // NULL: opening it says why
    const char *kind = NULL;
    while (path && *path && !(kind = kind_of_table(path, &name)))
        *strrchr(path, '/') = '\0'; // its parent
    bool failed = name.failed;
    free(path);
    buffer_finish(&name);
    if (failed)
        return refuse_memory(shown, error);
    return kind ? error_set(error, STATUS_REFUSE, ERROR_FILE,
                            "%s: %s table, whose log says which files count: export it as Parquet", shown,
                            kind)
                : STATUS_OK;
}

// The same for each of several files, as from a shell's pattern. A single named file is read.
static enum status check_log_of_file(const char *path, struct error *error)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    enum status status = folder ? check_log(folder, path, error) : refuse_memory(path, error);
    free(folder);
    return status;
}

// ---- a folder ----

// Refuses a data set with subfolders, which would be read incompletely.
static enum status check_folders(const char *path, struct error *error)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    struct buffer name = {0};
    enum status status = STATUS_OK;
    while (folder && status == STATUS_OK && (entry = readdir(folder)) != NULL) {
        buffer_clear(&name);
        buffer_add_format(&name, "%s/%s", path, entry->d_name);
        if (name.failed)
            status = refuse_memory(path, error);
        else if (is_part(name.data, entry->d_name))
            status =
                error_set(error, STATUS_REFUSE, ERROR_FILE,
                          "%s: the folder %s in it is not read: name the folders or files one by one, or "
                          "'%s%s*.parquet' without it",
                          path, entry->d_name, path, path[strlen(path) - 1] == '/' ? "" : "/");
    }
    if (folder)
        closedir(folder);
    buffer_finish(&name);
    return status;
}

static enum status list_folder(struct parquet_inputs *inputs, const char *path, const char **names, size_t *n,
                               struct error *error)
{
    DIR *folder = opendir(path);
    size_t n_before = *n;
    if (!folder)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
    enum status status = add_names(inputs, folder, path, names, n, error);
    closedir(folder);
    if (status == STATUS_OK && *n == n_before)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: expected a file, or a folder with files *.parquet", path);
    qsort(names + n_before, *n - n_before, sizeof *names, compare_names);
    return status;
}

// ---- opening ----

static enum status find_names(struct parquet_inputs *inputs, const char *path, const char **names, size_t *n,
                              bool is_alone, struct error *error)
{
    size_t n_folder;
    bool is_all = is_pattern(path, &n_folder);
    const char *folder = !is_all ? path : n_folder ? arena_copy(&inputs->arena, path, n_folder) : "./";
    if (!folder)
        return refuse_memory(path, error);
    if (is_all || is_folder(path)) {
        enum status status = check_log(folder, path, error);
        if (status == STATUS_OK && !is_all)
            status = check_folders(path, error);
        return status == STATUS_OK ? list_folder(inputs, folder, names, n, error) : status;
    }
    enum status status = is_alone ? STATUS_OK : check_log_of_file(path, error);
    if (status != STATUS_OK)
        return status;
    if (*n == PARQUET_INPUTS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "more than %d Parquet files",
                         PARQUET_INPUTS_MAX);
    names[(*n)++] = path;
    return STATUS_OK;
}

enum status parquet_inputs_open(struct parquet_inputs *inputs, const char *const *paths, size_t n_paths,
                                struct error *error)
{
    const char **names = calloc(PARQUET_INPUTS_MAX, sizeof *names), *path = paths[0];
    size_t n = 0;
    *inputs = (struct parquet_inputs){0};
    enum status status = names ? STATUS_OK : refuse_memory(path, error);
    for (size_t i = 0; status == STATUS_OK && i < n_paths; i++)
        status = find_names(inputs, paths[i], names, &n, n_paths == 1, error);
    if (status == STATUS_OK) {
        inputs->items = arena_allocate_array(&inputs->arena, n, sizeof *inputs->items);
        inputs->sources = arena_allocate_array(&inputs->arena, n, sizeof *inputs->sources);
        status = inputs->items && inputs->sources ? STATUS_OK : refuse_memory(path, error);
    }
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        status = input_source_open_bytes(&inputs->sources[i], names[i], error);
        if (status != STATUS_OK)
            break;
        inputs->items[inputs->n++] = (struct parquet_input){inputs->sources[i].fd, inputs->sources[i].name};
    }
    free(names);
    if (status != STATUS_OK)
        parquet_inputs_close(inputs);
    return status;
}

void parquet_inputs_close(struct parquet_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++)
        input_source_close(&inputs->sources[i]);
    arena_finish(&inputs->arena);
    *inputs = (struct parquet_inputs){0};
}
