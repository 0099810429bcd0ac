#include "consumer/serve/serve_http.h"

#include "consumer/serve/answer_stream.h"
#include "consumer/serve/serve_route.h"
#include "consumer/serve/upload.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEADER_BYTES_MAX = 32768, // of a connection's memory: the request's head and the response's
    FORM_BYTES = 65536,       // read at a time from a form
    EVENT_BYTES = 16384,      // sent at a time from a stream
    // So much of a refused body, or of a body beyond its limit, is read and dropped, so that the client reads
    // the refusal; then the connection is closed.
    DROPPED_BYTES_MAX = 64 << 20,
    // At the end: requests that were read completely are answered at once, as serve->is_closing is set; others
    // are given up.
    DRAIN_MS = 2000,
};

struct serve_http {
    struct serve *serve;
    struct MHD_Daemon *daemon;
};

// What belongs to a request from its first byte to its last.
struct exchange {
    struct call call;
    struct MHD_PostProcessor *form; // NULL: the body is no form
    bool is_refused;                // the reply is written: the body is read and dropped
    uint64_t n_dropped;             // bytes of it
};

// ---- requests ----

static const char *query_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result take_field(void *context, enum MHD_ValueKind kind, const char *key,
                                  const char *filename, const char *content_type,
                                  const char *transfer_encoding, const char *data, uint64_t offset,
                                  size_t size)
{
    (void)kind, (void)content_type, (void)transfer_encoding;
    struct exchange *exchange = context;
    upload_add(exchange->call.upload, key, filename, (struct text){data, size}, offset == 0);
    return MHD_YES;
}

// Whether the client may ask: its token, or on the loopback its Host and Origin.
static void check_client(struct exchange *exchange, struct MHD_Connection *connection)
{
    struct call *call = &exchange->call;
    const struct serve *serve = call->serve;
    if (serve_route_is_probe(call->path))
        return;
    exchange->is_refused = true;
    if (!serve_tokens_match(&serve->tokens, header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION),
                            call->owner))
        reply_error(
            &call->reply, 401, "invalid_api_key", NULL,
            "Incorrect API key provided: expected a token of the server's --token as a bearer token.");
    else if (serve->tokens.n == 0 &&
             (!http_host_is_local(&serve->address, header_of(connection, MHD_HTTP_HEADER_HOST)) ||
              !http_origin_is_local(&serve->address, header_of(connection, "Origin"))))
        reply_error(&call->reply, 403, "forbidden", NULL,
                    "Without --token only this machine's names are answered, and no pages of other sites.");
    else
        exchange->is_refused = false;
}

static void open_form(struct exchange *exchange, struct MHD_Connection *connection)
{
    struct call *call = &exchange->call;
    exchange->form = MHD_create_post_processor(connection, FORM_BYTES, take_field, exchange);
    if (exchange->form)
        call->upload = upload_create(call->serve);
    if (exchange->form && !call->upload) {
        exchange->is_refused = true;
        reply_error(&call->reply, 503, "out_of_memory", NULL, "reading the form: out of memory");
    }
}

static struct exchange *begin_exchange(struct serve *serve, struct MHD_Connection *connection,
                                       const char *path, const char *method)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    exchange->call =
        (struct call){.serve = serve,
                      .method = method,
                      .path = path,
                      .query = {query_of(connection, "after"), query_of(connection, "limit"),
                                query_of(connection, "order"), query_of(connection, "purpose")},
                      .socket = info ? info->connect_fd : -1,
                      .body = {.size_max = CALL_BODY_BYTES_MAX},
                      .reply = {.status = 200, .content_type = "application/json", .file.descriptor = -1}};
    if (!serve_new_id(exchange->call.id, "req_", 32))
        exchange->call.id[0] = '\0';
    check_client(exchange, connection);
    if (!exchange->is_refused && serve_route_is_upload(method, path))
        open_form(exchange, connection);
    return exchange;
}

static void refuse_form(struct upload *upload, const char *why)
{
    if (upload->fault.status == STATUS_OK)
        (void)error_set(&upload->fault, STATUS_REJECT, ERROR_INVALID_ENCODING, "the form %s", why);
}

// False: the connection is closed.
static bool take_body(struct exchange *exchange, const char *bytes, size_t size)
{
    struct call *call = &exchange->call;
    struct upload *upload = call->upload;
    if (!exchange->is_refused && !upload)
        buffer_add(&call->body, bytes, size);
    else if (!exchange->is_refused && MHD_post_process(exchange->form, bytes, size) != MHD_YES)
        refuse_form(upload, "can't be read");
    if (exchange->is_refused || call->body.failed || (upload && upload_is_refused(upload)))
        exchange->n_dropped += size;
    return exchange->n_dropped <= DROPPED_BYTES_MAX;
}

// The last field is complete only now.
static void close_form(struct exchange *exchange)
{
    if (exchange->form && MHD_destroy_post_processor(exchange->form) != MHD_YES && !exchange->is_refused)
        refuse_form(exchange->call.upload, "ends before its last boundary");
    exchange->form = NULL;
}

// ---- replies ----

static ssize_t read_events(void *context, uint64_t position, char *bytes, size_t n_max)
{
    (void)position;
    size_t n = answer_stream_read(context, bytes, n_max);
    return n ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void end_events(void *context)
{
    answer_stream_destroy(context);
}

// The response owns the stream or the file from here on.
static struct MHD_Response *create_response(struct reply *reply)
{
    if (reply->stream) {
        struct answer_stream *stream = reply->stream;
        reply->stream = NULL;
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BYTES, read_events, stream,
                                                 end_events);
    }
    if (reply->file.descriptor >= 0) {
        int descriptor = reply->file.descriptor;
        reply->file.descriptor = -1;
        return MHD_create_response_from_fd64(reply->file.n_bytes, descriptor);
    }
    if (reply->body.failed) {
        reply->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        reply->body.size = 0;
    }
    return MHD_create_response_from_buffer(reply->body.size, reply->body.size ? reply->body.data : "",
                                           MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result queue_reply(struct exchange *exchange, struct MHD_Connection *connection)
{
    struct reply *reply = &exchange->call.reply;
    struct MHD_Response *response = create_response(reply);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "x-request-id", exchange->call.id);
    if (reply->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"sheaf\"");
    if (reply->may_retry)
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return result;
}

// libmicrohttpd calls this for the request's head, then for each part of its body, then for its end.
static enum MHD_Result handle_request(void *context, struct MHD_Connection *connection, const char *path,
                                      const char *method, const char *version, const char *bytes,
                                      size_t *n_bytes, void **request)
{
    (void)version;
    struct serve_http *http = context;
    struct exchange *exchange = *request;
    if (!exchange) {
        *request = begin_exchange(http->serve, connection, path, method);
        if (*request)
            serve_count_call(http->serve, 1);
        return *request ? MHD_YES : MHD_NO;
    }
    if (*n_bytes) {
        bool goes_on = take_body(exchange, bytes, *n_bytes);
        *n_bytes = 0;
        return goes_on ? MHD_YES : MHD_NO;
    }
    close_form(exchange);
    if (!exchange->is_refused)
        serve_route_answer(&exchange->call);
    return queue_reply(exchange, connection);
}

static void end_exchange(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode how)
{
    (void)context, (void)connection, (void)how;
    struct exchange *exchange = *request;
    *request = NULL;
    if (!exchange)
        return;
    serve_count_call(exchange->call.serve, -1);
    if (exchange->form)
        MHD_destroy_post_processor(exchange->form);
    upload_destroy(exchange->call.upload);
    buffer_finish(&exchange->call.body);
    buffer_finish(&exchange->call.reply.body);
    if (exchange->call.reply.file.descriptor >= 0)
        close(exchange->call.reply.file.descriptor);
    answer_stream_destroy(exchange->call.reply.stream);
    free(exchange);
}

// ---- start and stop ----

enum status serve_http_open(struct serve_http **http, struct serve *serve, int file, struct error *error)
{
    struct serve_http *h = calloc(1, sizeof *h);
    if (h) {
        h->serve = serve;
        h->daemon = MHD_start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC, 0,
            NULL, NULL, handle_request, h, MHD_OPTION_LISTEN_SOCKET, file, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)SERVE_CONNECTIONS_MAX, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, h,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
            (unsigned)SERVE_IDLE_S, MHD_OPTION_THREAD_STACK_SIZE, (size_t)SERVE_STACK_BYTES, MHD_OPTION_END);
    }
    if (!h || !h->daemon) {
        free(h);
        close(file);
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--listen %s: the server could not be started",
                         serve->config.address);
    }
    *http = h;
    return STATUS_OK;
}

void serve_http_close(struct serve_http *http)
{
    if (!http)
        return;
    int file = MHD_quiesce_daemon(http->daemon); // no new connections
    serve_wait_for_calls(http->serve, DRAIN_MS);
    MHD_stop_daemon(http->daemon); // closes the connections, waits for their threads
    if (file >= 0)
        close(file);
    free(http);
}
