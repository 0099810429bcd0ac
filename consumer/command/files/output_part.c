#include "consumer/command/files/output_part.h"

#include "schemas/base/file.h"
#include "schemas/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE_BYTES_MAX = 4096 };

static enum status fail_part(const struct output_part *part, const char *doing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s%s", part->file.temporary, doing,
                     strerror(errno));
}

static enum status refuse_foreign(const struct output_part *part, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s is not what an interrupted command left, by %s: remove or rename it",
                     part->file.temporary, part->state_path);
}

enum status output_part_open(struct output_part *part, const char *path, struct error *error)
{
    *part = (struct output_part){0};
    enum status status = output_file_open_part(&part->file, path, error);
    if (status != STATUS_OK || !part->file.target)
        return status;
    if (asprintf(&part->state_path, "%s.state", part->file.temporary) >= 0)
        return STATUS_OK;
    part->state_path = NULL;
    return error_memory(error, STATUS_REFUSE, "%s", path);
}

// ---- the state ----

static bool read_count(const struct value *object, const char *name, int64_t *count)
{
    const struct value *member = value_get(object, name);
    return member && value_whole_number(member, count) && *count >= 0;
}

// False: the object is not a valid state.
static bool decode_state(const struct value *object, struct output_part_state *state, struct text *made_by)
{
    const struct value *made = value_get(object, "made_by"), *input = value_get(object, "input");
    if (!made || made->kind != VALUE_STRING || !input || input->kind != VALUE_STRING ||
        input->text.size != 16)
        return false;
    char digits[17] = "", *end;
    memcpy(digits, input->text.data, 16);
    state->input = strtoull(digits, &end, 16);
    *made_by = made->text;
    return *end == '\0' && read_count(object, "n_lines", &state->n_lines) &&
           read_count(object, "n_failed", &state->n_failed) && read_count(object, "n_bytes", &state->n_bytes);
}

static enum status read_state(struct output_part *part, struct error *error)
{
    struct buffer content = {0};
    struct arena arena = {0};
    struct value object;
    struct text made_by = {0};
    struct error no_json;
    enum status status = file_read(part->state_path, STATE_BYTES_MAX, &content, error);
    if (status == STATUS_OK &&
        (json_decode((struct text){content.data, content.size}, &arena, &object, &no_json) != STATUS_OK ||
         !decode_state(&object, &part->state, &made_by)))
        status = refuse_foreign(part, error);
    if (status == STATUS_OK && !text_equals_string(made_by, part->made_by))
        status = error_set(
            error, STATUS_REFUSE, ERROR_FILE,
            "%s was written with other options (by %.*s; this is %s): the same command continues it, or "
            "remove it to begin again",
            part->file.temporary, (int)made_by.size, made_by.data, part->made_by);
    arena_finish(&arena);
    buffer_finish(&content);
    return status;
}

static enum status write_file(const char *path, const struct buffer *content, struct error *error)
{
    FILE *file = fopen(path, "we");
    bool is_written = file && fwrite(content->data, 1, content->size, file) == content->size &&
                      fflush(file) == 0 && fsync(fileno(file)) == 0;
    int code = errno;
    if (file && fclose(file) != 0 && is_written) {
        is_written = false;
        code = errno;
    }
    return is_written ? STATUS_OK
                      : error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", path, strerror(code));
}

// Replaces the state file in one step: the old or the new one exists at any time.
static enum status write_state(struct output_part *part, struct error *error)
{
    char *new_path;
    if (asprintf(&new_path, "%s.new", part->state_path) < 0)
        return error_memory(error, STATUS_REFUSE, "%s", part->state_path);
    struct buffer content = {0};
    buffer_add_string(&content, "{\"made_by\":");
    json_encode_string(text_from_string(part->made_by), &content);
    buffer_add_format(&content,
                      ",\"n_lines\":%" PRId64 ",\"n_failed\":%" PRId64 ",\"n_bytes\":%" PRId64
                      ",\"input\":\"%016" PRIx64 "\"}\n",
                      part->state.n_lines, part->state.n_failed, part->state.n_bytes, part->state.input);
    enum status status = content.failed ? error_memory(error, STATUS_REFUSE, "%s", part->state_path)
                                        : write_file(new_path, &content, error);
    if (status == STATUS_OK && rename(new_path, part->state_path) != 0)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: renaming: %s", new_path, strerror(errno));
    if (status != STATUS_OK)
        unlink(new_path);
    buffer_finish(&content);
    free(new_path);
    return status;
}

// ---- the part ----

// The state is written before the first line, so a part without a state is not ours.
enum status output_part_take_up(struct output_part *part, const char *made_by, struct error *error)
{
    struct stat about;
    part->made_by = made_by;
    if (!part->state_path)
        return STATUS_OK;
    int fd = fileno(part->file.file);
    if (fstat(fd, &about) != 0)
        return fail_part(part, "", error);
    enum status status = STATUS_OK;
    if (about.st_size > 0)
        status = access(part->state_path, F_OK) == 0 ? read_state(part, error) : refuse_foreign(part, error);
    if (status == STATUS_OK && about.st_size < part->state.n_bytes)
        status = refuse_foreign(part, error);
    if (status != STATUS_OK)
        return status;
    if (ftruncate(fd, part->state.n_bytes) != 0 ||
        fseeko(part->file.file, part->state.n_bytes, SEEK_SET) != 0)
        return fail_part(part, "", error);
    return write_state(part, error);
}

enum status output_part_keep(struct output_part *part, const struct output_part_state *state,
                             struct error *error)
{
    if (!part->state_path)
        return STATUS_OK;
    part->state = *state;
    part->state.n_bytes = ftello(part->file.file);
    if (fflush(part->file.file) != 0 || fdatasync(fileno(part->file.file)) != 0)
        return fail_part(part, "writing: ", error);
    return write_state(part, error);
}

enum status output_part_complete(struct output_part *part, struct error *error)
{
    enum status status = output_file_complete(&part->file, error);
    if (status == STATUS_OK && part->state_path)
        unlink(part->state_path); // a state without a part is ignored
    return status;
}

void output_part_close(struct output_part *part)
{
    struct stat about;
    if (part->state_path && part->file.temporary && fstat(fileno(part->file.file), &about) == 0 &&
        about.st_size == 0) {
        unlink(part->file.temporary);
        unlink(part->state_path);
    }
    output_file_close(&part->file);
    free(part->state_path);
    *part = (struct output_part){0};
}
