// A call: one HTTP request and its reply. The connection's thread reads it (serve_http.c), a handler answers it.
// Thread: the connection's.
#pragma once

#include "consumer/serve/serve_state.h"
#include "schemas/value.h"

struct upload;
struct answer_stream;

enum {
    CALL_BODY_BYTES_MAX = JOB_RECORD_BYTES_MAX, // of JSON
    CALL_LIST_MAX = 100,                        // items of a page of batches; OpenAI's limit
    CALL_FILES_MAX = 10000,                     // of files
};

struct reply {
    int status;               // HTTP's
    const char *content_type; // a literal
    struct buffer body;
    struct { // sent instead of the body if `descriptor` is open
        int descriptor;
        uint64_t n_bytes;
    } file;
    struct answer_stream *stream; // sent instead of the body; owned
    bool may_retry;               // 503: says when
};

struct call {
    struct serve *serve;
    const char *method, *path;     // valid during the call
    char owner[SERVE_OWNER_BYTES]; // whose files it reads
    char id[SERVE_ID_BYTES];       // x-request-id
    struct {                       // NULL: not given
        const char *after, *limit, *order, *purpose;
    } query;
    int socket;            // the client's: readable with 0 bytes when it has gone
    struct buffer body;    // JSON
    struct upload *upload; // NULL: the body is no form
    struct reply reply;
};

// OpenAI's error object. `code` and `param` may be NULL. The type follows from the status.
void reply_error(struct reply *reply, int status, const char *code, const char *param, const char *format,
                 ...) PRINTF_LIKE(5, 6);
// A fault of the host: 503 if it may pass, else 500.
void reply_fault(struct reply *reply, const struct error *error);
// Reads the body as a JSON object. False: the reply says why.
bool call_read_object(struct call *call, struct arena *arena, struct value *object) WARN_UNUSED;
// A page of a list, from the query. False: the reply says why.
bool call_read_page(struct call *call, int limit_default, int limit_max,
                    struct served_page *page) WARN_UNUSED;

// Members of JSON objects: a key, and its value; 0 microseconds and empty texts are null.
void add_text(struct buffer *out, const char *key, struct text text);
void add_seconds(struct buffer *out, const char *key, int64_t at_us);

// A list: list_begin, then list_next before each item, list_end.
struct list_writer {
    struct buffer *out;
    char first[SERVE_ID_BYTES], last[SERVE_ID_BYTES];
    int n;
};
void list_begin(struct list_writer *list, struct buffer *out);
void list_next(struct list_writer *list, struct text id);
void list_end(struct list_writer *list, bool has_more);
