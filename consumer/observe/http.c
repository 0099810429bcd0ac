#include "consumer/observe/http.h"

#include "consumer/observe/http_address.h"
#include "schemas/base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define NO_HTTP      "plain HTTP is spoken here, not TLS\n"
#define NO_HTTP_SIZE "35"
_Static_assert(sizeof NO_HTTP - 1 == 35, "what NO_HTTP_SIZE says");

enum {
    PLACES =
        2 * HTTP_CONNECTIONS_MAX, // connections that were shut down remain until libmicrohttpd has noticed
    BEAT_MS = 500,                // interval of the scan for late connections
};

struct connection_place {
    struct MHD_Connection *connection; // NULL: free
    int64_t since_ms;                  // start of the wait for a request
    bool is_seen;                      // its first byte was checked
    bool is_shut;
};

struct http {
    struct connection_place places[PLACES];
    struct MHD_Daemon *daemon;
    http_handler *handler;
    void *context;
    int file;
    struct bound_address address;
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    int wake_fd; // eventfd: wakes the thread to end
    bool only_loopback;
};

// ---- connections ----

static int file_of(const struct connection_place *place)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(place->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static void shut_place(struct connection_place *place)
{
    shutdown(file_of(place), SHUT_RDWR); // libmicrohttpd reads the end and closes it
    place->is_shut = true;
}

// Answers clients that do not speak HTTP. libmicrohttpd waits for the end of a line, which TLS does not send,
// so a TLS client would wait until the timeout.
static void refuse_no_http(struct http *http)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                 "Content-Length: " NO_HTTP_SIZE "\r\nConnection: close\r\n\r\n" NO_HTTP;
    char bytes[HTTP_REQUEST_BYTES_MAX];
    for (int i = 0; i < PLACES; i++) {
        struct connection_place *place = &http->places[i];
        if (!place->connection || place->is_shut || place->is_seen ||
            recv(file_of(place), bytes, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
            continue;
        place->is_seen = true;
        if (isalpha((unsigned char)bytes[0]) || bytes[0] == '\r' || bytes[0] == '\n')
            continue;
        (void)!recv(file_of(place), bytes, sizeof bytes,
                    MSG_DONTWAIT); // unread bytes would reset the connection
        (void)!send(file_of(place), answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        shut_place(place);
    }
}

// The connection that has waited longest for a complete request; *n: number of open connections.
static struct connection_place *slowest_place(struct http *http, int *n)
{
    struct connection_place *found = NULL;
    *n = 0;
    for (int i = 0; i < PLACES; i++) {
        struct connection_place *place = &http->places[i];
        if (!place->connection || place->is_shut)
            continue;
        ++*n;
        if (!found || place->since_ms < found->since_ms)
            found = place;
    }
    return found;
}

static void note_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode what)
{
    struct http *http = context;
    struct connection_place *place = *socket_context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (place)
            *place = (struct connection_place){0};
        return;
    }
    int n;
    struct connection_place *slow = slowest_place(http, &n);
    if (n >= HTTP_CONNECTIONS_MAX)
        shut_place(slow);
    for (int i = 0; i < PLACES && !*socket_context; i++)
        if (!http->places[i].connection) {
            http->places[i] = (struct connection_place){.connection = connection, .since_ms = clock_ms()};
            *socket_context = &http->places[i];
        }
}

static void note_answer(void *context, struct MHD_Connection *connection, void **request_context,
                        enum MHD_RequestTerminationCode how)
{
    (void)context, (void)request_context, (void)how;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection_place *place = info ? info->socket_context : NULL;
    if (place)
        place->since_ms = clock_ms();
}

static void shut_late(struct http *http)
{
    for (int i = 0; i < PLACES; i++) {
        struct connection_place *place = &http->places[i];
        if (place->connection && !place->is_shut && clock_ms() - place->since_ms >= HTTP_REQUEST_S * 1000)
            shut_place(place);
    }
}

// ---- requests ----

static enum MHD_Result queue_answer(struct MHD_Connection *connection, struct http_answer *answer)
{
    bool failed = answer->body.failed;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(failed ? 0 : answer->body.size, failed ? "" : answer->body.data,
                                        MHD_RESPMEM_MUST_COPY);
    buffer_finish(&answer->body);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(
        response, "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    if (answer->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"sheaf\"");
    if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result =
        MHD_queue_response(connection, failed ? MHD_HTTP_INTERNAL_SERVER_ERROR : (unsigned)answer->status,
                           response);
    MHD_destroy_response(response);
    return result;
}

// libmicrohttpd calls this for the request's head, then for each part of its body. The first call answers, so
// no body is ever read. libmicrohttpd omits the answer's body if the method is HEAD.
static enum MHD_Result answer_request(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *upload_data,
                                      size_t *upload_data_size, void **connection_context)
{
    (void)version, (void)upload_data, (void)upload_data_size, (void)connection_context;
    const struct http *http = context;
    struct http_answer answer = {.status = MHD_HTTP_OK, .content_type = "text/plain; charset=utf-8"};
    if (http->only_loopback &&
        !http_host_is_local(&http->address,
                            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST))) {
        answer.status = MHD_HTTP_FORBIDDEN;
        buffer_add_string(&answer.body, "without --metrics-token, the loopback's names alone\n");
    } else if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0) {
        http->handler(http->context, url,
                      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION),
                      &answer);
    } else {
        answer.status = MHD_HTTP_METHOD_NOT_ALLOWED;
        buffer_add_string(&answer.body, "GET and HEAD alone\n");
    }
    return queue_answer(connection, &answer);
}

static enum status fail_start(struct error *error, const char *address, const char *why)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--metrics %s: %s", address, why);
}

// ---- the thread ----

// libmicrohttpd reads a part of the available bytes per turn; the rest causes no event, so MHD_get_timeout
// says when to call it again.
static int wait_ms(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    return MHD_get_timeout(http->daemon, &timeout_ms) == MHD_YES && timeout_ms < BEAT_MS ? (int)timeout_ms
                                                                                         : BEAT_MS;
}

static void *serve_requests(void *context)
{
    struct http *http = context;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {{http->wake_fd, POLLIN, 0}, {info ? info->epoll_fd : -1, POLLIN, 0}};
    while (!atomic_load(&http->is_over)) {
        poll(fds, 2, wait_ms(http));
        shut_late(http);
        refuse_no_http(http);
        MHD_run(http->daemon);
    }
    return NULL;
}

static enum status start_thread(struct http *http, const char *address, struct error *error)
{
    http->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    http->has_thread = http->wake_fd >= 0 && pthread_create(&http->thread, NULL, serve_requests, http) == 0;
    if (!http->has_thread)
        return fail_start(error, address, "no thread could be started");
    pthread_setname_np(http->thread, "sheaf-http");
    return STATUS_OK;
}

// ---- start and stop ----

enum status http_open(struct http **http, const char *address, bool only_loopback, http_handler *handler,
                      void *context, struct error *error)
{
    struct http *h = calloc(1, sizeof *h);
    if (!h)
        return error_memory(error, STATUS_REFUSE, "--metrics");
    *h = (struct http){
        .handler = handler, .context = context, .file = -1, .wake_fd = -1, .only_loopback = only_loopback};
    enum status status =
        http_address_bind(&h->address, "--metrics", address, HTTP_CONNECTIONS_MAX, &h->file, error);
    if (status == STATUS_OK && only_loopback && !h->address.is_loopback)
        status = fail_start(
            error, address,
            "other machines reach this address: give --metrics-token FILE, or a port alone for the loopback");
    if (status == STATUS_OK) {
        h->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer_request, h,
                                     MHD_OPTION_LISTEN_SOCKET, h->file, MHD_OPTION_CONNECTION_LIMIT,
                                     (unsigned)PLACES, MHD_OPTION_NOTIFY_CONNECTION, note_connection, h,
                                     MHD_OPTION_NOTIFY_COMPLETED, note_answer, h,
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_BYTES_MAX,
                                     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S, MHD_OPTION_END);
        if (!h->daemon)
            status = fail_start(error, address, "the server could not be started");
    }
    if (status == STATUS_OK)
        status = start_thread(h, address, error);
    if (status != STATUS_OK) {
        http_close(h);
        return status;
    }
    *http = h;
    return STATUS_OK;
}

const char *http_address(const struct http *http)
{
    return http->address.text;
}

void http_close(struct http *http)
{
    if (!http)
        return;
    if (http->has_thread) {
        static const uint64_t one = 1;
        atomic_store(&http->is_over, true);
        (void)!write(http->wake_fd, &one, sizeof one);
        pthread_join(http->thread, NULL);
    }
    if (http->daemon)
        MHD_stop_daemon(http->daemon); // closes the socket
    else if (http->file >= 0)
        close(http->file);
    if (http->wake_fd >= 0)
        close(http->wake_fd);
    free(http);
}
