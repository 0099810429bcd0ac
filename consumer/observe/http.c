#include "consumer/observe/http.h"

#include "schemas/base/clock.h"

#include <arpa/inet.h>
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
    char address[NI_MAXHOST + 16];
    pthread_t thread;
    bool has_thread;
    atomic_bool is_over;
    int wake_fd;           // eventfd: wakes the thread to end
    char name[NI_MAXHOST]; // the host of the address as it was given
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

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

// Whether the request's Host is a name of the loopback. A page of another site whose name was made to resolve
// to the loopback (DNS rebinding) sends its own name. Browsers always send a Host; without it (NULL) the
// client is not a browser.
static bool is_local_host(const struct http *http, const char *header)
{
    char host[NI_MAXHOST];
    struct sockaddr_storage address = {0};
    if (!header)
        return true;
    bool is_v6 = header[0] == '[';
    size_t size = strcspn(header + is_v6, is_v6 ? "]" : ":");
    if (size >= sizeof host)
        return false;
    memcpy(host, header + is_v6, size);
    host[size] = '\0';
    if (!is_v6 && (strcasecmp(host, "localhost") == 0 || strcasecmp(host, http->name) == 0))
        return true;
    void *bytes = is_v6 ? (void *)&((struct sockaddr_in6 *)&address)->sin6_addr
                        : (void *)&((struct sockaddr_in *)&address)->sin_addr;
    address.ss_family = is_v6 ? AF_INET6 : AF_INET;
    return inet_pton(address.ss_family, host, bytes) == 1 && is_loopback(&address);
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
    if (http->only_loopback && !is_local_host(http, MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                                                MHD_HTTP_HEADER_HOST))) {
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

// ---- the address ----

struct parts {
    char host[NI_MAXHOST], port[8];
};

static bool is_port(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 5 && atoi(text) <= 65535;
}

static bool split_address(const char *address, struct parts *parts)
{
    const char *colon = strrchr(address, ':');
    const char *port = colon ? colon + 1 : address;
    size_t size = colon ? (size_t)(colon - address) : 0;
    bool brackets = size >= 2 && address[0] == '[' && address[size - 1] == ']';
    if (!is_port(port) || (colon && size == 0) || size >= sizeof parts->host)
        return false;
    snprintf(parts->port, sizeof parts->port, "%s", port);
    if (!colon)
        strcpy(parts->host, "127.0.0.1");
    else
        snprintf(parts->host, sizeof parts->host, "%.*s", (int)size - 2 * brackets, address + brackets);
    return brackets || !strchr(parts->host, ':');
}

static enum status fail_start(struct error *error, const char *address, const char *why)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--metrics %s: %s", address, why);
}

static enum status bind_socket(struct http *http, const char *address, struct error *error)
{
    struct parts parts;
    if (!split_address(address, &parts))
        return fail_start(error, address, "expected HOST:PORT, [HOST]:PORT or a port");
    snprintf(http->name, sizeof http->name, "%s", parts.host);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found = NULL;
    int code = getaddrinfo(parts.host, parts.port, &hints, &found);
    if (code != 0)
        return fail_start(error, address, gai_strerror(code));
    http->file = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    bool bound = http->file >= 0 && setsockopt(http->file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                 bind(http->file, found->ai_addr, found->ai_addrlen) == 0 &&
                 listen(http->file, HTTP_CONNECTIONS_MAX) == 0;
    int bind_error = errno;
    freeaddrinfo(found);
    return bound ? STATUS_OK : fail_start(error, address, strerror(bind_error));
}

static enum status check_loopback(const struct http *http, const char *address, struct error *error)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    if (getsockname(http->file, (struct sockaddr *)&bound, &size) == 0 && is_loopback(&bound))
        return STATUS_OK;
    return fail_start(
        error, address,
        "other machines reach this address: give --metrics-token FILE, or a port alone for the loopback");
}

static void read_address(struct http *http)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    if (getsockname(http->file, (struct sockaddr *)&address, &size) == 0)
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(http->address, sizeof http->address, "%s%.1024s%s:%.10s", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "", port);
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
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "--metrics: out of memory");
    *h = (struct http){
        .handler = handler, .context = context, .file = -1, .wake_fd = -1, .only_loopback = only_loopback};
    enum status status = bind_socket(h, address, error);
    if (status == STATUS_OK && only_loopback)
        status = check_loopback(h, address, error);
    if (status == STATUS_OK) {
        read_address(h);
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
    return http->address;
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
