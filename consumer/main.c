// sheaf: the process. Parses the command line, runs one command, says how it ended.
// Exit status: 0 done, 1 failed, 2 wrong usage.
#include "consumer/commands.h"
#include "consumer/log.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum status (*run)(const struct settings *settings, struct error *error);
} commands[] = {
    {"work", command_work},         {"submit", command_submit},   {"collect", command_collect},
    {"run", command_run},           {"status", command_status},   {"cancel", command_cancel},
    {"inspect", command_inspect},   {"tokenize", command_tokenize}, {"template", command_template},
    {"logits", command_logits},     {"bench", command_bench},
    {"quantize", command_quantize}, {"mirror", command_mirror},
};

static int fail(const struct error *error)
{
    log_error(error);
    return error->code == ERROR_USAGE ? 2 : 1;
}

static int run(const struct settings *settings)
{
    struct error error = {0};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, settings->command) == 0) {
            enum status status = commands[i].run(settings, &error);
            if (status == STATUS_OK && fflush(stdout) != 0)
                status = error_set(&error, STATUS_REFUSE, ERROR_FILE, "standard output: writing failed");
            return status == STATUS_OK ? 0 : fail(&error);
        }
    return 2;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); // a closed pipe or connection is an error where it is written to
    const char *first = argc > 1 ? argv[1] : NULL;
    if (first && (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)) {
        options_print_help(argc > 2 ? argv[2] : NULL);
        return 0;
    }
    if (first && strcmp(first, "--version") == 0) {
        printf("sheaf %s\n", SHEAF_VERSION);
        return 0;
    }
    struct settings settings;
    struct error error;
    if (options_parse(&settings, argc - 1, argv + 1, &error) != STATUS_OK) {
        settings_finish(&settings);
        return fail(&error);
    }
    struct log_settings logs = {settings.quiet ? LOG_ERROR : settings.verbose ? LOG_DEBUG : LOG_INFO, settings.log_json,
                                settings.log};
    int exit_status = 0;
    if (log_configure(&logs, &error) != STATUS_OK)
        exit_status = fail(&error);
    else if (settings.help)
        options_print_help(settings.command);
    else
        exit_status = run(&settings);
    settings_finish(&settings);
    return exit_status;
}
