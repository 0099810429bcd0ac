// sheaf serve: OpenAI's API and a worker of the embedded queue, or with --no-work the API alone.
#include "consumer/command/commands.h"
#include "consumer/command/files/named_store.h"
#include "consumer/observe/log.h"
#include "consumer/serve/serve.h"
#include "consumer/worker/closing.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/runtime.h"
#include "consumer/worker/service.h"
#include "consumer/worker/stop.h"
#include "schemas/base/file.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define LISTEN_DEFAULT "127.0.0.1:8000"

enum { FILE_BYTES_DEFAULT = 512 << 20 };

static void attach(void *context, struct exporter *exporter)
{
    serve_attach(context, exporter);
}

static enum status work(struct serve *serve, struct store *store, const struct settings *settings,
                        struct error *error)
{
    struct worker_progress progress = {0};
    struct progress_line line = {.message_ms = settings->worker.progress_s * 1000};
    struct service service = {.store = store,
                              .exit_when_idle_s = -1,
                              .line = &line,
                              .answers = {serve_stream_begin, serve_stream_take, serve},
                              .attach = attach,
                              .attach_context = serve};
    return service_run(&service, settings, &progress, error);
}

// Without a worker: until a signal.
static void wait_for_stop(void)
{
    int stop_fd = stop_fd_open();
    struct pollfd fd = {stop_fd, POLLIN, 0};
    for (bool is_stopped = false; !is_stopped && poll(&fd, 1, -1) >= 0;) {
        int signal = stop_fd_read(stop_fd);
        if (signal == SIGHUP && log_has_file())
            log_reopen();
        else
            is_stopped = signal != 0 && (signal != SIGHUP || isatty(STDERR_FILENO));
    }
    if (stop_fd >= 0)
        close(stop_fd);
}

static enum status check_settings(const struct settings *settings, struct error *error)
{
    const struct file_use uses[] = {{"--model", settings->model.path, .is_model = true},
                                    {"--store", named_store_path(settings), true, true},
                                    {"--token", settings->serve.token, false},
                                    {"--log", settings->log.file, true},
                                    {"--trace-steps", settings->engine.trace_steps, true}};
    if (!settings->model.path && !settings->serve.no_work)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf serve: which model? give --model FILE, or --no-work");
    if (settings->model.path && settings->serve.no_work)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf serve: --no-work loads no model: leave %s out", settings->model.path);
    if (settings->kafka.brokers && !settings->serve.no_work)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf serve: --brokers needs --no-work: \"sheaf work --brokers\" computes the topic's jobs");
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    return status == STATUS_OK && !settings->serve.no_work ? runtime_check(settings, error) : status;
}

enum status command_serve(const struct settings *settings, struct error *error)
{
    const struct serve_config config = {.address = settings->serve.address ? settings->serve.address
                                                                           : LISTEN_DEFAULT,
                                        .token_path = settings->serve.token,
                                        .store_path = named_store_path(settings),
                                        .file_bytes_max = settings->serve.file_bytes_max
                                                              ? settings->serve.file_bytes_max
                                                              : FILE_BYTES_DEFAULT,
                                        .has_worker = !settings->serve.no_work,
                                        .kafka = settings->kafka.brokers ? settings : NULL};
    struct serve *serve = NULL;
    struct store *store = NULL;
    enum status status = check_settings(settings, error);
    if (status == STATUS_OK)
        status = serve_open(&serve, &config, error);
    if (status == STATUS_OK)
        status = store_open(&store, config.store_path, STORE_EXISTING, error);
    if (status == STATUS_OK) {
        log_write(LOG_INFO, "answering at http://%s/v1", serve_address(serve));
        if (config.has_worker)
            status = work(serve, store, settings, error);
        else
            wait_for_stop();
    }
    struct closing closing = {0};
    closing_begin(&closing, "the server", closing_reason(status, error, true));
    serve_close(serve);
    closing_at(&closing, "the store");
    store_close(store);
    closing_end(&closing);
    return status;
}
