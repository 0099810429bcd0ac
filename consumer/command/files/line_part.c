#include "consumer/command/files/line_part.h"

#include "consumer/command/files/own_output.h"
#include "schemas/base/hash.h"

#include <errno.h>
#include <string.h>

enum status line_part_open(struct line_part *part, const char *path, bool plain_text,
                           const struct input_text *text, struct error *error)
{
    enum status status = output_part_open(&part->output, path, error);
    return status == STATUS_OK ? embed_input_open(&part->input, plain_text, text, error) : status;
}

enum status line_part_take_up(struct line_part *part, const char *made_by, struct error *error)
{
    enum status status = output_part_take_up(&part->output, made_by, error);
    part->done.n_failed = part->output.state.n_failed;
    return status;
}

static enum status refuse_lines(const struct line_part *part, struct error *error)
{
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s was written from other input: its first %lld lines differ from standard input; give the "
        "same lines (more may follow), or remove it to start over",
        part->output.file.temporary, (long long)part->output.state.n_lines);
}

enum status line_part_next(struct line_part *part, struct text *line, struct error *error)
{
    const struct output_part_state *before = &part->output.state;
    for (;;) {
        enum status status = embed_input_next(&part->input, line, error);
        bool is_skipped = part->done.n_lines < before->n_lines;
        if (status == STATUS_OK && !line->data && is_skipped)
            return refuse_lines(part, error);
        if (status != STATUS_OK || !line->data)
            return status;
        part->done.n_lines++;
        part->done.input = hash_bytes(line->data, line->size, part->done.input);
        if (!is_skipped)
            return STATUS_OK;
        if (part->done.n_lines == before->n_lines && part->done.input != before->input)
            return refuse_lines(part, error);
    }
}

enum status line_part_keep(struct line_part *part, const struct buffer *out, struct error *error)
{
    FILE *file = part->output.file.file;
    if (fwrite(out->data, 1, out->size, file) != out->size || fflush(file) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "writing the results: %s", strerror(errno));
    return output_part_keep(&part->output, &part->done, error);
}

enum status line_part_complete(struct line_part *part, const char *results, bool may_overwrite,
                               struct error *error)
{
    // a refusal keeps the part: with --overwrite nothing is computed again
    enum status status = own_output_check_lines(&part->output.file, results, may_overwrite, error);
    return status == STATUS_OK ? output_part_complete(&part->output, error) : status;
}

void line_part_close(struct line_part *part)
{
    embed_input_close(&part->input);
    output_part_close(&part->output);
}
