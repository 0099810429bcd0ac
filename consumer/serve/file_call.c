#include "consumer/serve/file_call.h"

#include "consumer/serve/serve_folder.h"
#include "consumer/serve/upload.h"
#include "schemas/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXPIRES_S_MIN = 3600, EXPIRES_S_MAX = 2592000 }; // OpenAI's limits

static void add_file(struct buffer *out, const struct served_file *file)
{
    buffer_add_byte(out, '{');
    add_text(out, "id", file->id);
    buffer_add_format(out, ",\"object\":\"file\",\"bytes\":%lld", (long long)file->n_bytes);
    add_seconds(out, "created_at", file->created_at_us);
    add_seconds(out, "expires_at", file->expires_at_us);
    buffer_add_byte(out, ',');
    add_text(out, "filename", file->filename);
    buffer_add_byte(out, ',');
    add_text(out, "purpose", file->purpose);
    buffer_add_string(out, ",\"status\":\"processed\",\"status_details\":null}");
}

static void write_file(void *context, const struct served_file *file)
{
    add_file(context, file);
}

static void refuse_unknown(struct reply *reply, struct text id)
{
    reply_error(reply, 404, "not_found", "id", "No such File object: %.*s", (int)id.size, id.data);
}

// ---- uploading ----

static bool is_purpose(const char *purpose)
{
    static const char *const purposes[] = {"batch",  "assistants", "fine-tune",
                                           "vision", "user_data",  "evals"};
    for (size_t i = 0; i < sizeof purposes / sizeof purposes[0]; i++)
        if (strcmp(purposes[i], purpose) == 0)
            return true;
    return false;
}

// *expires_s: 0: never. False: the reply says why.
static bool read_expiry(struct call *call, int64_t *expires_s)
{
    const struct upload *upload = call->upload;
    *expires_s = 0;
    if (!upload->anchor[0] && !upload->seconds[0])
        return true;
    char *end;
    long long seconds = strtoll(upload->seconds, &end, 10);
    if (strcmp(upload->anchor, "created_at") != 0) {
        reply_error(&call->reply, 400, "invalid_value", "expires_after[anchor]",
                    "expires_after[anchor]: expected created_at");
        return false;
    }
    if (end == upload->seconds || *end || seconds < EXPIRES_S_MIN || seconds > EXPIRES_S_MAX) {
        reply_error(&call->reply, 400, "invalid_value", "expires_after[seconds]",
                    "expires_after[seconds]: expected a number from %d to %d", EXPIRES_S_MIN, EXPIRES_S_MAX);
        return false;
    }
    *expires_s = seconds;
    return true;
}

static bool check_form(struct call *call)
{
    const struct upload *upload = call->upload;
    if (upload->fault.status == STATUS_REJECT)
        reply_error(&call->reply, 400, "invalid_body", NULL, "%s", upload->fault.text);
    else if (upload->fault.status != STATUS_OK)
        reply_fault(&call->reply, &upload->fault);
    else if (upload->is_too_large)
        reply_error(&call->reply, 413, "file_too_large", "file",
                    "The file has more than %llu bytes (--file-size).",
                    (unsigned long long)upload->n_bytes_max);
    else if (!upload->file.file)
        reply_error(&call->reply, 400, "missing_required_parameter", "file", "file: missing from the form");
    else if (!upload->purpose[0])
        reply_error(&call->reply, 400, "missing_required_parameter", "purpose",
                    "purpose: missing from the form");
    else if (!is_purpose(upload->purpose))
        reply_error(&call->reply, 400, "invalid_value", "purpose",
                    "purpose: expected batch, assistants, fine-tune, vision, user_data or evals, got %s",
                    upload->purpose);
    else
        return true;
    return false;
}

void file_call_create(struct call *call)
{
    struct upload *upload = call->upload;
    struct error error;
    int64_t expires_s;
    if (!upload) {
        reply_error(&call->reply, 400, "invalid_body", NULL,
                    "The body is no form: expected multipart/form-data with file and purpose");
        return;
    }
    if (!check_form(call) || !read_expiry(call, &expires_s))
        return;
    if (upload_complete(upload, &error) != STATUS_OK) {
        reply_fault(&call->reply, &error);
        return;
    }
    int64_t now_us = clock_wall_us();
    struct served_file file = {.id = text_from_string(upload->id),
                               .owner = text_from_string(call->owner),
                               .filename = text_from_string(upload->filename),
                               .purpose = text_from_string(upload->purpose),
                               .n_bytes = (int64_t)upload->n_bytes,
                               .created_at_us = now_us,
                               .expires_at_us = expires_s ? now_us + expires_s * 1000000 : 0};
    enum status status = store_file_add(serve_lock(call->serve), &file, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK) {
        unlink(upload->path);
        reply_fault(&call->reply, &error);
        return;
    }
    add_file(&call->reply.body, &file);
}

// ---- reading ----

static void list_file(void *context, const struct served_file *file)
{
    struct list_writer *list = context;
    list_next(list, file->id);
    add_file(list->out, file);
}

void file_call_list(struct call *call)
{
    struct served_page page;
    struct list_writer list;
    struct error error;
    bool found, has_more;
    if (!call_read_page(call, CALL_FILES_MAX, CALL_FILES_MAX, &page))
        return;
    list_begin(&list, &call->reply.body);
    enum status status = store_files_list(serve_lock(call->serve), text_from_string(call->owner),
                                          text_from_string(call->query.purpose), &page, list_file, &list,
                                          &found, &has_more, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!found)
        reply_error(&call->reply, 400, "invalid_value", "after", "after: no file has the id %s",
                    call->query.after);
    else
        list_end(&list, has_more);
}

// False: the reply says why.
static bool find_file(struct call *call, struct text id, served_file_receive *receive, void *context)
{
    struct error error;
    bool found = false;
    enum status status = store_file_find(serve_lock(call->serve), text_from_string(call->owner), id, receive,
                                         context, &found, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else if (!found)
        refuse_unknown(&call->reply, id);
    return status == STATUS_OK && found;
}

void file_call_get(struct call *call, struct text id)
{
    (void)find_file(call, id, write_file, &call->reply.body);
}

static void ignore_file(void *context, const struct served_file *file)
{
    (void)context, (void)file;
}

void file_call_content(struct call *call, struct text id)
{
    char path[PATH_MAX];
    struct stat about;
    if (!find_file(call, id, ignore_file, NULL))
        return;
    int fd = serve_folder_path(call->serve, id, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        reply_error(&call->reply, 500, "file_error", NULL, "%.*s: its content can't be read: %s",
                    (int)id.size, id.data, strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    call->reply.content_type = "application/octet-stream";
    call->reply.file.descriptor = fd;
    call->reply.file.n_bytes = (uint64_t)about.st_size;
}

void file_call_remove(struct call *call, struct text id)
{
    struct error error;
    enum file_removal removal;
    char path[PATH_MAX];
    enum status status =
        store_file_remove(serve_lock(call->serve), text_from_string(call->owner), id, &removal, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK) {
        reply_fault(&call->reply, &error);
    } else if (removal == FILE_UNKNOWN) {
        refuse_unknown(&call->reply, id);
    } else if (removal == FILE_IN_USE) {
        reply_error(&call->reply, 409, "file_in_use", "id",
                    "File %.*s is the input of a batch that has not ended: cancel the batch first",
                    (int)id.size, id.data);
    } else {
        if (serve_folder_path(call->serve, id, path))
            unlink(path);
        struct buffer *out = &call->reply.body;
        buffer_add_byte(out, '{');
        add_text(out, "id", id);
        buffer_add_string(out, ",\"object\":\"file\",\"deleted\":true}");
    }
}
