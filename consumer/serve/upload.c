#include "consumer/serve/upload.h"

#include "consumer/serve/serve_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct upload *upload_create(const struct serve *serve)
{
    struct upload *upload = calloc(1, sizeof *upload);
    if (!upload)
        return NULL;
    upload->n_bytes_max = serve->config.file_bytes_max;
    if (!serve_new_id(upload->id, "file-", 24) ||
        !serve_folder_path(serve, text_from_string(upload->id), upload->path)) {
        free(upload);
        return NULL;
    }
    return upload;
}

static void add_field(char field[UPLOAD_FIELD_BYTES], struct text bytes)
{
    size_t length = strlen(field), room = UPLOAD_FIELD_BYTES - 1 - length;
    size_t size = bytes.size < room ? bytes.size : room;
    memcpy(field + length, bytes.data, size);
    field[length + size] = '\0';
}

bool upload_is_refused(const struct upload *upload)
{
    return upload->is_too_large || upload->fault.status != STATUS_OK;
}

static void add_bytes(struct upload *upload, const char *filename, struct text bytes, bool is_first)
{
    if (is_first && upload->file.file && upload->fault.status == STATUS_OK)
        (void)error_set(&upload->fault, STATUS_REJECT, ERROR_INVALID_FIELD, "file: given twice in the form");
    if (is_first && !upload->file.file) {
        snprintf(upload->filename, sizeof upload->filename, "%s", filename && *filename ? filename : "file");
        utf8_make_printable(upload->filename);
        (void)!output_file_open(&upload->file, upload->path, &upload->fault);
    }
    upload->n_bytes += bytes.size;
    upload->is_too_large = upload->is_too_large || upload->n_bytes > upload->n_bytes_max;
    if (upload_is_refused(upload) || !upload->file.file)
        return;
    if (fwrite(bytes.data, 1, bytes.size, upload->file.file) != bytes.size)
        (void)error_set(&upload->fault, errno == ENOSPC ? STATUS_RETRY : STATUS_REFUSE, ERROR_FILE,
                        "writing the file: %s", strerror(errno));
}

void upload_add(struct upload *upload, const char *field, const char *filename, struct text bytes,
                bool is_first)
{
    if (strcmp(field, "file") == 0)
        add_bytes(upload, filename, bytes, is_first);
    else if (strcmp(field, "purpose") == 0)
        add_field(upload->purpose, bytes);
    else if (strcmp(field, "expires_after[anchor]") == 0)
        add_field(upload->anchor, bytes);
    else if (strcmp(field, "expires_after[seconds]") == 0)
        add_field(upload->seconds, bytes);
}

enum status upload_complete(struct upload *upload, struct error *error)
{
    return output_file_complete(&upload->file, error);
}

void upload_destroy(struct upload *upload)
{
    if (!upload)
        return;
    if (upload->file.file)
        output_file_close(&upload->file);
    free(upload);
}
