// A worker's HTTP endpoints while its main thread does something else: here it is the client that waits for
// them.
#include "consumer/observe/exporter.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static struct exporter *exporter;
static char answer[65536];

static size_t no_figures(struct transport *transport, struct partition_figures *figures, size_t n_max)
{
    figures[0] = (struct partition_figures){.topic = TEXT("jobs"), .partition = 7};
    return 1;
}

static const struct transport_impl impl = {.name = "scripted", .figures = no_figures};
static struct transport transport = {&impl};

static const char *no_member(struct transport *waiting)
{
    return "not yet a member of the group";
}

static int open_exporter(void **state)
{
    struct error error;
    return exporter_open(&exporter, "127.0.0.1:0", NULL, &error) != STATUS_OK;
}

static int close_exporter(void **state)
{
    exporter_close(exporter);
    return 0;
}

static void attach(void)
{
    struct metrics_view view = {.version = "1", .model = "m", .backend = "cpu", .transport = "scripted"};
    exporter_attach(exporter, &transport, &view);
}

static void ask_exporter(const char *path)
{
    const char *address = http_address(exporter->http);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    char request[128];
    int length = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    assert_int_equal(write(fd, request, (size_t)length), length);
    size_t n_read = 0;
    for (ssize_t n; (n = read(fd, answer + n_read, sizeof answer - 1 - n_read)) > 0;)
        n_read += (size_t)n;
    answer[n_read] = '\0';
    close(fd);
}

static void assert_answer(const char *path, const char *status, const char *text)
{
    ask_exporter(path);
    if (!strstr(answer, status) || !strstr(answer, text))
        fail_msg("%s: expected %s and %s, got %s", path, status, text, answer);
}

TEST_WITH(a_worker_that_starts_says_so, open_exporter, close_exporter)
{
    static const char *const paths[] = {"/healthz", "/readyz", "/metrics", "/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_answer(paths[i], " 503 ", "starting\n");
    exporter_announce_start(exporter, "loading the model");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_answer(paths[i], " 503 ", "starting: loading the model\n");
    assert_answer("/else", " 404 ", "there are /, /metrics, /healthz and /readyz");
}

TEST_WITH(a_worker_whose_main_loop_has_not_turned_yet_is_ready_only_if_its_transport_is, open_exporter,
          close_exporter)
{
    struct transport_impl joining = impl;
    joining.waiting = no_member;
    transport.impl = &joining;
    attach();
    assert_answer("/readyz", " 503 ", "not yet a member of the group\n");
    assert_answer("/healthz", " 200 ", "ok\n");
    exporter_announce_close(exporter, "the end"); // it asks the transport no more
    transport.impl = &impl;
}

TEST_WITH(a_main_thread_that_waits_keeps_nobody_from_an_answer, open_exporter, close_exporter)
{
    attach();
    exporter->metrics.steps.n = 5; // not published
    assert_answer("/healthz", " 200 ", "ok\n");
    assert_answer("/readyz", " 200 ", "ok\n");
    assert_answer("/metrics", " 200 ", "\nsheaf_steps_total 0\n");
    assert_non_null(strstr(answer, "\nsheaf_ready 1\n"));
    assert_answer("/", " 200 ", "scripted: working");
    exporter->looked_ms = 0;
    exporter_publish(exporter);
    assert_answer("/metrics", " 200 ", "\nsheaf_steps_total 5\n");
}

TEST_WITH(a_main_thread_that_waits_for_long_is_not_ready_and_then_not_alive, open_exporter, close_exporter)
{
    attach();
    exporter->ready_ms = 0;
    assert_answer("/readyz", " 503 ", "the main loop has waited for 0 s");
    assert_answer("/healthz", " 200 ", "ok\n");
    assert_answer("/metrics", " 200 ", "\nsheaf_ready 0\n");
    exporter->live_ms = 0;
    assert_answer("/healthz", " 503 ", "the main loop has waited for 0 s");
    exporter->ready_ms = EXPORTER_READY_MS;
    exporter->live_ms = EXPORTER_LIVE_MS;
    exporter_publish(exporter);
    assert_answer("/readyz", " 200 ", "ok\n");
    assert_answer("/healthz", " 200 ", "ok\n");
}

TEST_WITH(a_worker_that_retries_is_alive_and_not_ready, open_exporter, close_exporter)
{
    attach();
    snprintf(exporter->metrics.state.trouble, sizeof exporter->metrics.state.trouble, "no broker is up");
    exporter_publish(exporter);
    assert_answer("/readyz", " 503 ", "no broker is up\n");
    assert_answer("/healthz", " 200 ", "ok\n");
    exporter->metrics.state.trouble[0] = '\0';
    exporter->metrics.state.waiting = "no place in the group";
    exporter_publish(exporter);
    assert_answer("/readyz", " 503 ", "no place in the group\n");
    exporter->metrics.state.waiting = NULL;
    exporter->metrics.state.is_running = false;
    exporter_publish(exporter);
    assert_answer("/healthz", " 503 ", "stopping\n");
}

TEST_WITH(the_health_port_answers_with_the_reason_while_a_worker_closes, open_exporter, close_exporter)
{
    attach();
    exporter_announce_close(exporter, "no place in the group");
    static const char *const paths[] = {"/healthz", "/readyz", "/metrics", "/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_answer(paths[i], " 503 ", "closing: no place in the group");
}

static atomic_bool asked_all;

static void *ask_again_and_again(void *context)
{
    static const char *const paths[] = {"/healthz", "/readyz", "/metrics", "/"};
    for (int i = 0; i < 40; i++)
        ask_exporter(paths[i % 4]);
    atomic_store(&asked_all, true);
    return NULL;
}

TEST_WITH(figures_are_published_while_they_are_asked_for, open_exporter, close_exporter)
{
    attach();
    pthread_t client;
    assert_int_equal(pthread_create(&client, NULL, ask_again_and_again, NULL), 0);
    while (!atomic_load(&asked_all)) {
        struct pollfd wanted = {exporter_fd(exporter), POLLIN, 0};
        poll(&wanted, 1, 1);
        exporter->metrics.steps.n++;
        exporter_publish(exporter);
    }
    pthread_join(client, NULL);
    char last[64];
    snprintf(last, sizeof last, "\nsheaf_steps_total %lld\n", (long long)exporter->metrics.steps.n);
    exporter->looked_ms = 0;
    exporter_publish(exporter);
    assert_answer("/metrics", " 200 ", last);
}

// A call of librdkafka waits for socket.timeout.ms at most, and one turn makes a few.
TEST_WITH(a_worker_stays_alive_for_longer_than_a_few_calls_of_a_client, open_exporter, close_exporter)
{
    assert_int_equal(exporter->ready_ms, KAFKA_COMMIT_TIMEOUT_MS);
    assert_true(exporter->live_ms > 4 * 60000);
}

// Its three allocations fail one after the other; without an address it opens nothing that allocates.
TEST(without_memory_it_is_refused)
{
    struct exporter *opened;
    struct error error;
    for (long n_good = 0; n_good < 3; n_good++) {
        failing_memory_after(n_good);
        enum status status = exporter_open(&opened, NULL, NULL, &error);
        failing_memory_after(-1);
        assert_int_equal(status, STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
    }
    failing_memory_after(3);
    enum status status = exporter_open(&opened, NULL, NULL, &error);
    failing_memory_after(-1);
    assert_int_equal(status, STATUS_OK);
    exporter_close(opened);
}
