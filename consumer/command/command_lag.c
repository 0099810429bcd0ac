// sheaf lag: prints how many jobs a consumer group has not finished. The number is computed from the jobs
// topic and the group's offset maps alone, so no worker needs to run. With --metrics the command keeps
// running and serves the number for an autoscaler:
//
//   /         {"topic":"sheaf-jobs","group":"sheaf","unfinished":1,"partitions":[{"partition":0,...}]}
//   /metrics  sheaf_group_unfinished{consumergroup="sheaf",topic="sheaf-jobs"} 1
//   /healthz  200: the process runs
//   /readyz   200: the number is known
//
// An unknown or outdated number is answered with 503: an autoscaler then changes nothing.
#include "batching/lists/queue.h"
#include "consumer/command/commands.h"
#include "consumer/observe/http.h"
#include "consumer/observe/http_token.h"
#include "consumer/observe/log.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/worker/stop.h"
#include "schemas/base/clock.h"
#include "schemas/value.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    INTERVAL_MS = 5000, // between two reads of the group's offsets
    OLD_MS = 60000,     // older numbers count as unknown
};

struct lag {
    const struct kafka_config *config;
    struct kafka_follow *follow;
    struct kafka_standing *standings; // [n_max]
    size_t n, n_max;
};

// The result of one read.
struct lag_look {
    struct buffer json, metrics;
    int64_t read_ms;
    char why[ERROR_TEXT_BYTES]; // error of a failed read; "": it succeeded
};

// What the HTTP server answers.
struct lag_exporter {
    struct queue *looks; // from the main thread: at most one, the latest result
    struct http_token token;
    // Thread: sheaf-http.
    struct lag_look *last; // latest successful result; NULL: none yet
    char why[ERROR_TEXT_BYTES];
};

// ---- reading ----

static enum status read_lag(struct lag *lag, struct error *error)
{
    enum status status = kafka_follow_look(lag->follow, error);
    if (status != STATUS_OK)
        return status;
    size_t n_partitions = (size_t)kafka_follow_n_partitions(lag->follow, 0);
    if (n_partitions > lag->n_max) {
        struct kafka_standing *standings = realloc(lag->standings, n_partitions * sizeof *standings);
        if (!standings)
            return error_memory(error, STATUS_RETRY, "%zu partitions", n_partitions);
        lag->standings = standings;
        lag->n_max = n_partitions;
    }
    status = kafka_follow_standings(lag->follow, 0, lag->standings, lag->n_max, &lag->n, error);
    for (size_t i = 0; status == STATUS_OK && i < lag->n; i++)
        if (lag->standings[i].committed > lag->standings[i].end)
            status = error_set(
                error, STATUS_REFUSE, ERROR_BROKER,
                "topic %s, partition %d: group %s has committed offset %lld, beyond the end %lld: the"
                " topic lost records, or was recreated; workers refuse to start until the group's"
                " offset is reset",
                lag->config->topics.jobs, lag->standings[i].partition, lag->config->group.name,
                (long long)lag->standings[i].committed, (long long)lag->standings[i].end);
    return status;
}

static int64_t sum_unfinished(const struct lag *lag)
{
    int64_t n = 0;
    for (size_t i = 0; i < lag->n; i++)
        n += kafka_standing_unfinished(&lag->standings[i]);
    return n;
}

// ---- writing ----

static void write_table(const struct lag *lag, struct buffer *out)
{
    buffer_add_format(out, "%9s %12s %12s %12s %12s  owner\n", "partition", "unfinished", "committed", "end",
                      "map covers");
    for (size_t i = 0; i < lag->n; i++) {
        const struct kafka_standing *standing = &lag->standings[i];
        buffer_add_format(out, "%9d %12lld %12lld %12lld %12d  ", standing->partition,
                          (long long)kafka_standing_unfinished(standing), (long long)standing->committed,
                          (long long)standing->end, standing->map_covered);
        buffer_add_printable(out, text_from_string(standing->owner[0] ? standing->owner : "-"), 0);
        buffer_add_byte(out, '\n');
    }
    buffer_add_format(out, "%lld unfinished in topic ", (long long)sum_unfinished(lag));
    buffer_add_printable(out, text_from_string(lag->config->topics.jobs), 0);
    buffer_add_string(out, ", group ");
    buffer_add_printable(out, text_from_string(lag->config->group.name), 0);
    buffer_add_byte(out, '\n');
}

static void write_json(const struct lag *lag, struct buffer *out)
{
    buffer_add_string(out, "{\"topic\":");
    json_encode_string(text_from_string(lag->config->topics.jobs), out);
    buffer_add_string(out, ",\"group\":");
    json_encode_string(text_from_string(lag->config->group.name), out);
    buffer_add_format(out, ",\"unfinished\":%lld,\"partitions\":[", (long long)sum_unfinished(lag));
    for (size_t i = 0; i < lag->n; i++) {
        const struct kafka_standing *standing = &lag->standings[i];
        buffer_add_format(out,
                          "%s{\"partition\":%d,\"unfinished\":%lld,\"committed\":%lld,\"end\":%lld,"
                          "\"map_covered\":%d,\"owner\":",
                          i ? "," : "", standing->partition, (long long)kafka_standing_unfinished(standing),
                          (long long)standing->committed, (long long)standing->end, standing->map_covered);
        if (standing->owner[0])
            json_encode_string(text_from_string(standing->owner), out);
        else
            buffer_add_string(out, "null");
        buffer_add_byte(out, '}');
    }
    buffer_add_string(out, "]}\n");
}

// Label values are written as JSON strings: for topic and group names Prometheus' text format has the same
// escapes.
static void add_sample(const struct lag *lag, const char *name, int64_t partition, int64_t value,
                       struct buffer *out)
{
    buffer_add_format(out, "%s{consumergroup=", name);
    json_encode_string(text_from_string(lag->config->group.name), out);
    buffer_add_string(out, ",topic=");
    json_encode_string(text_from_string(lag->config->topics.jobs), out);
    if (partition >= 0)
        buffer_add_format(out, ",partition=\"%lld\"", (long long)partition);
    buffer_add_format(out, "} %lld\n", (long long)value);
}

static void write_metrics(const struct lag *lag, struct buffer *out)
{
    buffer_add_string(out,
                      "# HELP sheaf_group_unfinished Jobs of the topic that the group has not finished.\n"
                      "# TYPE sheaf_group_unfinished gauge\n");
    add_sample(lag, "sheaf_group_unfinished", -1, sum_unfinished(lag), out);
    buffer_add_string(out, "# HELP sheaf_group_partition_unfinished The same of each partition.\n"
                           "# TYPE sheaf_group_partition_unfinished gauge\n");
    for (size_t i = 0; i < lag->n; i++)
        add_sample(lag, "sheaf_group_partition_unfinished", lag->standings[i].partition,
                   kafka_standing_unfinished(&lag->standings[i]), out);
}

// ---- serving ----

static void destroy_look(struct lag_look *look)
{
    if (!look)
        return;
    buffer_finish(&look->json);
    buffer_finish(&look->metrics);
    free(look);
}

static void take_looks(struct lag_exporter *exporter)
{
    for (struct lag_look *look; (look = queue_try_pop(exporter->looks));) {
        memcpy(exporter->why, look->why, sizeof exporter->why);
        struct lag_look *unused = look->why[0] ? look : exporter->last;
        if (unused != look)
            exporter->last = look;
        destroy_look(unused);
    }
}

static void answer_page(void *context, const char *path, const char *authorization,
                        struct http_answer *answer)
{
    struct lag_exporter *exporter = context;
    take_looks(exporter);
    bool is_metrics = strcmp(path, "/metrics") == 0, is_json = strcmp(path, "/") == 0;
    bool is_known = exporter->last && clock_ms() - exporter->last->read_ms < OLD_MS;
    if ((is_metrics || is_json) && !http_token_matches(&exporter->token, authorization)) {
        answer->status = 401;
        buffer_add_string(&answer->body,
                          "expected the token of --metrics-token: as a Bearer token, or as the password\n");
    } else if (strcmp(path, "/healthz") == 0) {
        buffer_add_string(&answer->body, "ok\n");
    } else if (!is_metrics && !is_json && strcmp(path, "/readyz") != 0) {
        answer->status = 404;
        buffer_add_string(&answer->body, "there are /, /metrics, /healthz and /readyz\n");
    } else if (!is_known) {
        answer->status = 503;
        buffer_add_format(&answer->body, "%s\n", exporter->why[0] ? exporter->why : "starting");
    } else if (is_metrics || is_json) {
        answer->content_type =
            is_metrics ? "text/plain; version=0.0.4; charset=utf-8" : "application/json; charset=utf-8";
        const struct buffer *page = is_metrics ? &exporter->last->metrics : &exporter->last->json;
        buffer_add(&answer->body, page->data, page->size);
    } else {
        buffer_add_string(&answer->body, "ok\n");
    }
}

static void publish_look(struct lag_exporter *exporter, const struct lag *lag, enum status status,
                         const struct error *error)
{
    struct lag_look *look = calloc(1, sizeof *look);
    if (!look)
        return; // the last result becomes outdated
    if (status == STATUS_OK) {
        write_json(lag, &look->json);
        write_metrics(lag, &look->metrics);
        look->read_ms = clock_ms();
    } else {
        memcpy(look->why, error->text, sizeof look->why);
    }
    for (struct lag_look *unseen; (unseen = queue_try_pop(exporter->looks));)
        destroy_look(unseen);
    if (!queue_push(exporter->looks, look))
        destroy_look(look);
}

static void look_until_stopped(struct lag *lag, struct lag_exporter *exporter, struct stop_request *stop)
{
    bool has_failed = false;
    struct pollfd signal = {stop->fd, POLLIN, 0};
    while (!stop_is_asked(stop)) {
        struct error error;
        enum status status = read_lag(lag, &error);
        publish_look(exporter, lag, status, &error);
        if (status != STATUS_OK && !has_failed && !stop->is_asked)
            log_write(LOG_WARNING, "%s; trying again", error.text);
        else if (status == STATUS_OK && has_failed)
            log_write(LOG_INFO, "working again");
        has_failed = status != STATUS_OK;
        (void)poll(&signal, 1, INTERVAL_MS);
    }
}

static enum status serve_lag(struct lag *lag, const struct worker_options *options, struct stop_request *stop,
                             struct error *error)
{
    struct lag_exporter exporter = {0};
    struct http *http = NULL;
    const char *token_path = options->metrics_token;
    enum status status = token_path ? http_token_read(&exporter.token, token_path, error) : STATUS_OK;
    if (status == STATUS_OK)
        status = queue_create(&exporter.looks, 1, error);
    if (status == STATUS_OK)
        status = http_open(&http, options->metrics, !token_path, answer_page, &exporter, error);
    if (status == STATUS_OK) {
        log_write(LOG_INFO, "figures at http://%s/", http_address(http));
        look_until_stopped(lag, &exporter, stop);
    }
    http_close(http);
    if (exporter.looks) {
        take_looks(&exporter);
        queue_destroy(exporter.looks);
    }
    destroy_look(exporter.last);
    return status;
}

static enum status print_lag(struct lag *lag, bool json, struct error *error)
{
    enum status status = read_lag(lag, error);
    struct buffer out = {0};
    if (status == STATUS_OK && json)
        write_json(lag, &out);
    else if (status == STATUS_OK)
        write_table(lag, &out);
    fwrite(out.data, 1, out.size, stdout);
    buffer_finish(&out);
    return status;
}

enum status command_lag(const struct settings *settings, struct error *error)
{
    if (!settings->kafka.brokers)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf lag: of which Kafka? give --brokers HOSTS");
    struct kafka_settings kafka = {0};
    struct stop_request stop = {.fd = settings->worker.metrics ? stop_fd_open() : -1}; // before any thread
    if (!settings->worker.metrics)
        stop_release();
    enum status status = kafka_settings_init(&kafka, &settings->kafka, NULL, error);
    kafka.config.is_stopping = stop_is_asked;
    kafka.config.stop_context = &stop;
    struct lag lag = {.config = &kafka.config};
    const char *topic = kafka.config.topics.jobs;
    if (status == STATUS_OK)
        status = kafka_follow_open(&lag.follow, &kafka.config, &topic, 1, NULL, NULL, error);
    if (status == STATUS_OK)
        status = settings->worker.metrics ? serve_lag(&lag, &settings->worker, &stop, error)
                                          : print_lag(&lag, settings->output.json, error);
    status = stop_excuse(&stop, status, error);
    kafka_follow_close(lag.follow);
    free(lag.standings);
    kafka_settings_finish(&kafka);
    if (stop.fd >= 0)
        close(stop.fd);
    return status;
}
