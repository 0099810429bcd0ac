#include "gpu/tile_file.h"

#include "schemas/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const tile_names[WGMMA_TILE_COUNT] = {"by-rows", "64x32",  "256x32",  "64x64",  "256x64",
                                                         "256x96",  "64x128", "128x128", "192x128"};

const char *tile_name(enum wgmma_tile tile)
{
    return tile_names[tile];
}

void tile_choice_print(struct buffer *out, const struct tile_choice *choice)
{
    buffer_add_format(out, "%s %" PRId32 " x %" PRId32 " %s, up to %" PRId32 " rows: %s%s, %.1f us",
                      tensor_traits(choice->type)->name, choice->n_inputs, choice->n_outputs,
                      choice->gated ? "gated" : "plain", choice->n_rows, tile_name(choice->tiling.tile),
                      choice->tiling.divided ? " divided" : "", choice->us);
}

void tile_file_device(char text[TILE_FILE_DEVICE_BYTES], const struct device_facts *facts)
{
    snprintf(text, TILE_FILE_DEVICE_BYTES,
             "%s, compute capability %d.%d, %d multiprocessors, driver for CUDA %d.%d", facts->name,
             facts->capability_major, facts->capability_minor, facts->n_multiprocessors,
             facts->driver_version / 1000, facts->driver_version % 1000 / 10);
}

static void print_header(struct buffer *out, const struct device_facts *facts)
{
    char device[TILE_FILE_DEVICE_BYTES];
    tile_file_device(device, facts);
    buffer_add_format(out, "sheaf tiles %d\ndevice %s\n", TILE_FILE_VERSION, device);
}

// The line before the next newline; *rest begins after it.
static struct text take_line(struct text *rest)
{
    const char *end = memchr(rest->data, '\n', rest->size);
    struct text line = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
    size_t taken = line.size + (end != NULL);
    *rest = (struct text){rest->data + taken, rest->size - taken};
    return line;
}

static bool find_type(const char *name, enum tensor_type *type)
{
    for (uint32_t i = 0; i < TENSOR_TYPE_COUNT; i++)
        if (tensor_traits(i)->name && strcmp(tensor_traits(i)->name, name) == 0) {
            *type = i;
            return true;
        }
    return false;
}

static bool find_tile(const char *name, enum wgmma_tile *tile)
{
    for (enum wgmma_tile i = WGMMA_BY_ROWS + 1; i < WGMMA_TILE_COUNT; i++)
        if (strcmp(tile_names[i], name) == 0) {
            *tile = i;
            return true;
        }
    return false;
}

// A choice is valid if it prints as the line that it was read from.
static bool parse_choice(struct text line, struct tile_choice *choice)
{
    char copy[160], type[16], epilogue[8], tile[16];
    *choice = (struct tile_choice){0};
    if (line.size >= sizeof copy)
        return false;
    memcpy(copy, line.data, line.size);
    copy[line.size] = '\0';
    if (sscanf(copy, "%15s %" SCNd32 " x %" SCNd32 " %7[a-z], up to %" SCNd32 " rows: %15[0-9x]", type,
               &choice->n_inputs, &choice->n_outputs, epilogue, &choice->n_rows, tile) != 6 ||
        !find_type(type, &choice->type) || !find_tile(tile, &choice->tiling.tile))
        return false;
    choice->gated = strcmp(epilogue, "gated") == 0;
    choice->tiling.divided = strstr(copy, " divided,") != NULL;
    choice->us = strtod(strrchr(copy, ',') + 1, NULL);
    struct buffer printed = {0};
    tile_choice_print(&printed, choice);
    bool same =
        !printed.failed && printed.size == line.size && memcmp(printed.data, line.data, line.size) == 0;
    buffer_finish(&printed);
    return same && choice->n_inputs > 0 && choice->n_outputs > 0 && choice->us >= 0.0 &&
           choice->us < INFINITY && choice->n_rows > 0 && choice->n_rows == tile_rows(choice->n_rows);
}

static enum status parse_choices(struct tile_choices *choices, const char *path, struct text rest,
                                 struct error *error)
{
    for (int number = 3; rest.size > 0; number++) {
        struct text line = take_line(&rest);
        struct tile_choice choice;
        if (!parse_choice(line, &choice))
            return error_set(error, STATUS_REFUSE, ERROR_FILE,
                             "%s, line %d: expected TYPE INPUTS x OUTPUTS plain|gated, up to ROWS rows: TILE "
                             "[divided], TIME us, got \"%.*s\"",
                             path, number, (int)(line.size < 160 ? line.size : 160), line.data);
        if (!tile_choices_set(choices, &choice))
            return error_memory(error, STATUS_REFUSE, "%s", path);
    }
    return STATUS_OK;
}

static enum status parse_file(struct tile_choices *choices, const char *path, struct text content,
                              const struct device_facts *facts, enum tile_file_state *state,
                              struct error *error)
{
    static const char magic[] = "sheaf tiles ";
    struct buffer expected = {0};
    print_header(&expected, facts);
    if (expected.failed)
        return error_memory(error, STATUS_REFUSE, "%s", path);
    struct text header = {expected.data, expected.size}, wanted = take_line(&header), rest = content;
    struct text version = take_line(&rest);
    enum status status = STATUS_OK;
    if (version.size < strlen(magic) || memcmp(version.data, magic, strlen(magic)) != 0) {
        status = error_set(error, STATUS_REFUSE, ERROR_FILE,
                           "%s: expected a file of tiles, whose first line is \"%.*s\"", path,
                           (int)wanted.size, wanted.data);
    } else if (!text_equal(version, wanted)) {
        *state = TILE_FILE_OTHER_VERSION;
    } else if (!text_equal(take_line(&rest), take_line(&header))) {
        *state = TILE_FILE_OTHER_DEVICE;
    } else {
        *state = TILE_FILE_READ;
        status = parse_choices(choices, path, rest, error);
    }
    buffer_finish(&expected);
    return status;
}

enum status tile_file_read(struct tile_choices *choices, const char *path, const struct device_facts *facts,
                           enum tile_file_state *state, struct error *error)
{
    struct buffer content = {0};
    *state = TILE_FILE_ABSENT;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return STATUS_OK;
    enum status status = file_read(path, TILE_FILE_BYTES_MAX, &content, error);
    if (status == STATUS_OK)
        status = parse_file(choices, path, (struct text){content.data, content.size}, facts, state, error);
    buffer_finish(&content);
    return status;
}

// Writes a file and gives it the name PATH.
static enum status write_named(FILE *file, const char *own_path, const char *path,
                               const struct buffer *content, struct error *error)
{
    const char *doing = "writing";
    bool written = file && fwrite(content->data, 1, content->size, file) == content->size &&
                   fflush(file) == 0 && fchmod(fileno(file), 0644) == 0 && fsync(fileno(file)) == 0;
    int code = errno;
    if (file && fclose(file) != 0 && written) {
        written = false;
        code = errno;
    }
    if (written && rename(own_path, path) != 0) {
        written = false;
        code = errno;
        doing = "renaming";
    }
    return written ? STATUS_OK
                   : error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s: %s", path, doing, strerror(code));
}

enum status tile_file_write(const struct tile_choices *choices, const char *path,
                            const struct device_facts *facts, struct error *error)
{
    struct buffer content = {0}, name = {0};
    print_header(&content, facts);
    for (int32_t i = 0; i < choices->n; i++) {
        tile_choice_print(&content, &choices->items[i]);
        buffer_add_byte(&content, '\n');
    }
    buffer_add_format(&name, "%s.XXXXXX", path);
    enum status status = STATUS_OK;
    if (content.failed || name.failed) {
        status = error_memory(error, STATUS_REFUSE, "%s", path);
    } else {
        int descriptor = mkostemp(name.data, O_CLOEXEC);
        FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
        status = write_named(file, name.data, path, &content, error);
        if (descriptor >= 0 && !file)
            close(descriptor);
        if (descriptor >= 0 && status != STATUS_OK)
            unlink(name.data);
    }
    buffer_finish(&name);
    buffer_finish(&content);
    return status;
}
