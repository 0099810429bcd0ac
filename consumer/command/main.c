// sheaf: the process. Parses the command line, runs one command, reports its outcome. Exit status: 0 done, 1
// failed, 2 wrong usage, 3 done but some jobs failed.
#include "consumer/command/commands.h"
#include "consumer/command/files/parent_pipe.h"
#include "consumer/observe/log.h"
#include "consumer/options/option_help.h"
#include "consumer/options/option_table.h"
#include "consumer/worker/stop.h"
#include "schemas/base/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HEAP_KEPT_BYTES = 64 << 20, HEAP_CHUNK_BYTES = 8 << 20 /* larger ones are mapped separately */ };

static const struct {
    const char *name;
    enum status (*run)(const struct settings *settings, struct error *error);
    bool is_service; // handles the signals that stop it
} commands[] = {
    {"work", command_work, true},   {"submit", command_submit},
    {"collect", command_collect},   {"run", command_run},
    {"status", command_status},     {"cancel", command_cancel},
    {"inspect", command_inspect},   {"tokenize", command_tokenize},
    {"template", command_template}, {"grammar", command_grammar},
    {"logits", command_logits},     {"bench", command_bench},
    {"quantize", command_quantize}, {"mirror", command_mirror, true},
    {"dataset", command_dataset},   {"annotate", command_annotate},
    {"report", command_report},     {"embed", command_embed},
    {"classify", command_classify}, {"rerank", command_rerank},
    {"lag", command_lag, true},     {"perplexity", command_perplexity},
    {"serve", command_serve, true}, {"backup", command_backup},
    {"redrive", command_redrive},   {"verify", command_verify},
};

// A supervisor may stop a service at once: that is no failure.
static void hold_signals_of_services(const char *command)
{
    for (size_t i = 0; command && i < sizeof commands / sizeof commands[0]; i++)
        if (commands[i].is_service && strcmp(commands[i].name, command) == 0)
            stop_hold();
}

// Whether the command runs until it is stopped.
static bool runs_as_service(const struct settings *settings)
{
    const char *command = settings->line.command;
    return command &&
           (strcmp(command, "work") == 0 || strcmp(command, "serve") == 0 || strcmp(command, "mirror") == 0 ||
            (strcmp(command, "lag") == 0 && settings->worker.metrics));
}

static int fail_command(const struct error *error)
{
    // retried errors are errors too: they end the command
    enum log_level level = error->code == ERROR_JOBS_FAILED ? LOG_WARNING : LOG_ERROR;
    const struct log_fields fields = {.event = "failed", .code = error_code_name(error->code)};
    log_write_fields(level, &fields, "%s", error->text);
    if (log_has_file())
        fprintf(stderr, "sheaf: %s\n", error->text);
    return error->code == ERROR_USAGE ? 2 : error->code == ERROR_JOBS_FAILED ? 3 : 1;
}

static int run_command(const struct settings *settings)
{
    struct error error = {0};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, settings->line.command) == 0)
            return commands[i].run(settings, &error) == STATUS_OK ? 0 : fail_command(&error);
    return 2;
}

// glibc reserves 64 MB of address space for each thread that allocates. Where that space is limited (ulimit
// -v), all threads allocate from one heap instead, so that the rest of the limit remains usable.
static void share_heap_where_space_is_limited(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1);
}

// Masks, rows and answers free memory that the process soon allocates again. If it were returned to the
// kernel, each page used again would cost a page fault: 1 to 12 us on a virtual machine, several milliseconds
// for one mask.
static void keep_freed_memory(void)
{
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
    mallopt(M_MMAP_THRESHOLD, HEAP_CHUNK_BYTES);
}

static void warn_of_variable(const char *name, const char *nearest)
{
    log_write(LOG_WARNING, "%s: no option reads this variable%s%s", name,
              nearest ? "; the nearest name is " : "", nearest ? nearest : "");
}

// Prints the help. The words after `sheaf help`: --help-all and a command, in either order.
static int print_help(int n, char **words)
{
    bool all = false;
    const char *command = NULL;
    struct error error;
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], "--help-all") == 0)
            all = true;
        else
            command = words[i];
    if (command && !option_table_find_command(command)) {
        (void)options_refuse_command(command, &error);
        return fail_command(&error);
    }
    option_help_print(command, all);
    return 0;
}

static int start_process(int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : NULL;
    if (first && (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0))
        return print_help(argc - 2, argv + 2);
    if (first && strcmp(first, "--version") == 0) {
        printf("sheaf %s\n", SHEAF_VERSION);
        return 0;
    }
    struct settings settings;
    struct error error;
    if (options_parse(&settings, argc - 1, argv + 1, &error) != STATUS_OK) {
        settings_finish(&settings);
        return fail_command(&error);
    }
    struct log_settings logs = {settings.log.quiet     ? LOG_ERROR
                                : settings.log.verbose ? LOG_DEBUG
                                                       : LOG_INFO,
                                settings.log.json, settings.log.file, runs_as_service(&settings)};
    int exit_status = 0;
    if (log_configure(&logs, &error) != STATUS_OK) {
        exit_status = fail_command(&error);
    } else if (settings.line.help || settings.line.help_all) {
        option_help_print(settings.line.command, settings.line.help_all);
    } else {
        options_find_unknown_variables(environ, warn_of_variable);
        parent_pipe_watch((int)settings.line.parent_fd);
        exit_status = run_command(&settings);
    }
    settings_finish(&settings);
    return exit_status;
}

// Replaces each closed standard descriptor by one that fails in the same way. Otherwise the next file that is
// opened would become standard output or error, and messages would be written into it.
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); // the lowest free number: fd
}

int main(int argc, char **argv)
{
    hold_signals_of_services(argc > 1 ? argv[1] : NULL);
    hold_standard_descriptors();
    share_heap_where_space_is_limited();
    keep_freed_memory();
    digest_init();
    signal(SIGPIPE, SIG_IGN); // writing to a closed pipe or connection returns an error
    signal(SIGXFSZ, SIG_IGN); // and so does writing beyond RLIMIT_FSIZE
    int exit_status = start_process(argc, argv);
    bool failed = ferror(stdout);
    errno = 0;
    if (fclose(stdout) != 0 || failed) {
        struct error error;
        error_set(&error, STATUS_REFUSE, ERROR_FILE, "standard output: writing: %s",
                  strerror(errno ? errno : EIO));
        exit_status = exit_status ? exit_status : fail_command(&error);
    }
    return exit_status;
}
