// The time that one request to the HTTP server may take. The linker redirects clock_ms to this file, where
// time passes only when a test says so.
#include "consumer/observe/http.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT_MS = HTTP_REQUEST_S * 1000, PATIENCE_MS = 10000 }; // less than HTTP_IDLE_S

static _Atomic int64_t now_ms = 1000000;
static struct http *http;

int64_t __wrap_clock_ms(void)
{
    return atomic_load(&now_ms);
}

static void pass_ms(int64_t ms)
{
    atomic_fetch_add(&now_ms, ms);
}

static void say_ok(void *context, const char *path, const char *authorization, struct http_answer *answer)
{
    buffer_add_string(&answer->body, "ok\n");
}

static int open_server(void **state)
{
    struct error error;
    return http_open(&http, "0", true, say_ok, NULL, &error) != STATUS_OK;
}

static int close_server(void **state)
{
    http_close(http);
    return 0;
}

static int connect_to_server(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(http_address(http), ':') + 1))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void send_text(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

// Bytes received; 0, or -1 where it left some unread: the server closed the connection.
static ssize_t receive_bytes(int fd, char *bytes, size_t size)
{
    struct pollfd file = {fd, POLLIN, 0};
    if (poll(&file, 1, PATIENCE_MS) != 1)
        fail_msg("neither an answer nor an end");
    return read(fd, bytes, size);
}

static void assert_answered(int fd)
{
    char answer[4096];
    size_t n = 0;
    do {
        ssize_t n_read = receive_bytes(fd, answer + n, sizeof answer - 1 - n);
        if (n_read <= 0)
            fail_msg("no whole answer: %.*s", (int)n, answer);
        n += (size_t)n_read;
        answer[n] = '\0';
    } while (!strstr(answer, "\r\n\r\nok\n"));
    assert_non_null(strstr(answer, " 200 "));
}

// Connections are accepted in their order, so those made before are known to the server after this.
static void ask_on_another_connection(void)
{
    for (int i = 0; i < 3; i++) { // turns of the server's loop
        int fd = connect_to_server();
        send_text(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_answered(fd);
        close(fd);
    }
}

TEST(a_request_that_trickles_is_closed_at_the_limit)
{
    enum { STEPS = 10 };
    char byte;
    int fd = connect_to_server();
    send_text(fd, "GET /");
    ask_on_another_connection();
    for (int i = 0; i < STEPS; i++) { // no byte gives it more time
        pass_ms(LIMIT_MS / STEPS);
        if (i < STEPS - 1)
            send_text(fd, "a");
    }
    assert_true(receive_bytes(fd, &byte, 1) <= 0);
    close(fd);
    ask_on_another_connection();
}

TEST(a_request_that_trickles_within_the_limit_is_answered)
{
    int fd = connect_to_server();
    send_text(fd, "GET / HTTP/1.1\r\n");
    ask_on_another_connection();
    pass_ms(LIMIT_MS - 1);
    ask_on_another_connection();
    send_text(fd, "Host: localhost\r\n\r\n");
    assert_answered(fd);
    close(fd);
}

static void check_refusal(const char *request, size_t size, const char *status)
{
    char answer[4096] = "";
    int fd = connect_to_server();
    (void)!send(fd, request, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    assert_true(receive_bytes(fd, answer, sizeof answer - 1) > 0);
    if (!strstr(answer, status))
        fail_msg("expected %s in: %s", status, answer);
    close(fd);
    ask_on_another_connection();
}

TEST(what_is_too_large_or_no_http_is_refused_at_once)
{
    enum { SIZE = 100000 };
    static char request[SIZE + 64];
    static const char head[] = "GET / HTTP/1.1\r\nHost: localhost\r\nx: ";
    for (int with_end = 0; with_end < 2; with_end++) {
        memset(request, 'a', SIZE);
        memcpy(request, "GET /", strlen("GET /"));
        strcpy(request + SIZE, with_end ? " HTTP/1.1\r\nHost: localhost\r\n\r\n" : "");
        check_refusal(request, strlen(request), " 414 ");
        memcpy(request, head, sizeof head - 1);
        strcpy(request + SIZE, with_end ? "\r\n\r\n" : "");
        check_refusal(request, strlen(request), " 431 ");
    }
    check_refusal("\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03\xaa\xaa", 13, " 400 ");
    check_refusal("\x00\xff\x00\xff", 4, " 400 ");
}

TEST(a_request_may_begin_with_an_empty_line_and_be_long)
{
    static char request[HTTP_REQUEST_BYTES_MAX];
    int fd = connect_to_server();
    memset(request, 'a', 12000);
    memcpy(request, "\r\nGET /", 7);
    strcpy(request + 12000, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    send_text(fd, request);
    assert_answered(fd);
    close(fd);
    ask_on_another_connection();
}

TEST_FIXTURE(open_server, close_server);
