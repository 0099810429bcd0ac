#include "consumer/options/options.h"

#include "consumer/options/option_rules.h"
#include "consumer/options/option_table.h"
#include "schemas/base/file.h"
#include "schemas/base/nearest.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    DURATION_DAYS_MAX = 36525,
    PROGRESS_S_DEFAULT = 60,
    CRASH_LIMIT_DEFAULT = 5, // two among other jobs, three alone: one kill from outside is no proof
    DEAD_SHARE_DEFAULT = 50,
    MODEL_FAILURES_DEFAULT = 16
};

// ---- values ----

bool options_parse_size(const char *text, uint64_t *bytes)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || errno || !(number >= 0) || isinf(number))
        return false;
    int shift = 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    case 'T':
        shift = 40;
        break;
    }
    end += shift != 0;
    end += shift && *end == 'i';
    end += *end == 'B' || *end == 'b';
    double value = ldexp(number, shift);
    if (*end || value >= 0x1p63)
        return false;
    *bytes = (uint64_t)value;
    return true;
}

bool options_parse_duration(const char *text, int64_t *duration_s)
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'\0', 1}, {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || errno || number < 0 || (*end && end[1]))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (*end == units[i].letter && number <= DURATION_DAYS_MAX * 86400LL / units[i].seconds) {
            *duration_s = number * units[i].seconds;
            return true;
        }
    return false;
}

static enum status set_text(char **target, const char *value, struct error *error)
{
    free(*target);
    *target = strdup(value);
    return *target ? STATUS_OK : error_memory(error, STATUS_REFUSE, "options");
}

static enum status add_text(char ***list, const char *value, struct error *error)
{
    size_t n = 0;
    while (*list && (*list)[n])
        n++;
    char **grown = realloc(*list, (n + 2) * sizeof *grown), *copy = strdup(value);
    *list = grown ? grown : *list;
    if (grown)
        grown[n] = copy; // NULL ends the list
    if (grown && copy) {
        grown[n + 1] = NULL;
        return STATUS_OK;
    }
    if (!grown)
        free(copy);
    return error_memory(error, STATUS_REFUSE, "options");
}

static enum status add_property(struct settings *settings, const char *value, struct error *error)
{
    if (!strchr(value, '=') || value[0] == '=')
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "-X: expected KEY=VALUE, got \"%.*s\"",
                         (int)strcspn(value, "="), value);
    if (settings->kafka.n_properties == OPTIONS_PROPERTIES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "-X: more than %d properties",
                         OPTIONS_PROPERTIES_MAX);
    return set_text(&settings->kafka.properties[settings->kafka.n_properties++], value, error);
}

// Secrets are refused on the command line, where every user of the machine can read them.
static bool is_secret(const char *property)
{
    size_t length = strcspn(property, "=");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name - 1 ? length : sizeof name - 1), property);
    return strstr(name, "password") || strstr(name, "secret") || strcmp(name, "ssl.key.pem") == 0 ||
           strcmp(name, "sasl.oauthbearer.config") == 0;
}

static enum status set_value(struct settings *settings, const struct option *option, const char *value,
                             struct error *error)
{
    void *target = (char *)settings + option->offset;
    char *end;
    switch (option->kind) {
    case FLAG:
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0 && strcmp(value, "1") != 0 &&
            strcmp(value, "0") != 0)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s: expected true or false, got \"%s\"",
                             option->name, value);
        *(bool *)target = value[0] == 't' || value[0] == '1';
        return STATUS_OK;
    case TEXT_VALUE:
        if ((int64_t)strlen(value) < option->min)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s: expected %s, got an empty value",
                             option->name, option->value);
        return set_text(target, value, error);
    case TEXT_LIST:
        return add_text(target, value, error);
    case PROPERTY:
        return add_property(settings, value, error);
    case SIZE:
        if (options_parse_size(value, target))
            return STATUS_OK;
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s: expected a size as 512M or 4G, got \"%s\"",
                         option->name, value);
    case DURATION:
        if (options_parse_duration(value, target))
            return STATUS_OK;
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--%s: expected a time as 45s, 90m, 12h or 30d, at most %d days, got \"%s\"",
                         option->name, DURATION_DAYS_MAX, value);
    case INTEGER:
        errno = 0;
        *(int64_t *)target = strtoll(value, &end, 10);
        if (*value && !*end && !errno && *(int64_t *)target >= option->min &&
            *(int64_t *)target <= option->max)
            return STATUS_OK;
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--%s: expected a number from %lld to %lld, got \"%s\"", option->name,
                         (long long)option->min, (long long)option->max, value);
    }
    return STATUS_OK;
}

// ---- environment and file: values that the command line does not give ----

enum { VARIABLE_BYTES_MAX = 64 };
#define VARIABLE_PREFIX "SHEAF_"

static void variable_of(const struct option *option, char name[VARIABLE_BYTES_MAX])
{
    int length = snprintf(name, VARIABLE_BYTES_MAX, VARIABLE_PREFIX "%s", option->name);
    for (int c = 0; c < length; c++)
        name[c] = name[c] == '-' ? '_' : (char)toupper((unsigned char)name[c]);
}

// One property per line.
static enum status add_properties(struct settings *settings, const char *lines, struct error *error)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && *lines) {
        size_t length = strcspn(lines, "\n");
        char *line = strndup(lines, length);
        if (!line)
            return error_memory(error, STATUS_REFUSE, "options");
        if (length)
            status = add_property(settings, line, error);
        free(line);
        lines += length + (lines[length] == '\n');
    }
    return status;
}

static enum status apply_environment(struct settings *settings, const struct command *command,
                                     enum origin *origins, struct error *error)
{
    int n_options;
    const struct option *options = option_table_options(&n_options);
    for (int i = 0; i < n_options; i++) {
        if (!(options[i].commands & command->mask) ||
            (origins[i] == FROM_LINE && options[i].kind != PROPERTY))
            continue;
        char name[VARIABLE_BYTES_MAX];
        variable_of(&options[i], name);
        const char *value = getenv(name);
        if (!value)
            continue;
        if (options[i].kind == TEXT_LIST) // replaces the file's list
            option_drop(settings, &options[i]);
        enum status status = options[i].kind == PROPERTY ? add_properties(settings, value, error)
                                                         : set_value(settings, &options[i], value, error);
        if (origins[i] == FROM_NOWHERE)
            origins[i] = FROM_DEFAULTS;
        if (status != STATUS_OK)
            return error_prefix(error, "%s", name);
    }
    return STATUS_OK;
}

static char *trim_blanks(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static enum status apply_line(struct settings *settings, const struct command *command, enum origin *origins,
                              char *line, struct error *error)
{
    char *text = trim_blanks(line);
    if (!*text || *text == '#')
        return STATUS_OK;
    char *equals = strchr(text, '=');
    if (!equals)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "expected name = value, got \"%s\"", text);
    *equals = '\0';
    char *name = trim_blanks(text), *value = trim_blanks(equals + 1);
    const struct option *option = option_table_find(command, name, strlen(name));
    if (!option || option->offset == offsetof(struct settings, line.config))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "no option is named \"%s\"", name);
    // One file may serve all commands: options of other commands are skipped.
    enum origin *origin = &origins[option - option_table_options(NULL)];
    if (!(option->commands & command->mask) || (*origin == FROM_LINE && option->kind != PROPERTY))
        return STATUS_OK;
    if (*origin == FROM_NOWHERE)
        *origin = FROM_DEFAULTS;
    return set_value(settings, option, value, error);
}

static enum status apply_file(struct settings *settings, const struct command *command, enum origin *origins,
                              struct error *error)
{
    if (!settings->line.config)
        return STATUS_OK;
    struct buffer content = {0};
    enum status status = file_read_text(settings->line.config, OPTIONS_CONFIG_BYTES_MAX, &content, error);
    if (status != STATUS_OK)
        error->code = ERROR_USAGE;
    else if (content.size && memchr(content.data, '\0', content.size))
        status = error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: expected text, got a NUL byte",
                           settings->line.config);
    char *line = status == STATUS_OK ? content.data : NULL;
    for (int number = 1; line && status == STATUS_OK; number++) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        status = apply_line(settings, command, origins, line, error);
        if (status != STATUS_OK)
            error_prefix(error, "%s: line %d", settings->line.config, number);
        line = next;
    }
    buffer_finish(&content);
    return status;
}

// ---- variables that no option reads ----

static bool is_variable_of_tests(const char *name)
{
    return strncmp(name, "SHEAF_TEST_", 11) == 0 || strcmp(name, "SHEAF_SHARED") == 0;
}

void options_find_unknown_variables(char *const *environment,
                                    void (*receive)(const char *name, const char *nearest))
{
    int n_options;
    const struct option *options = option_table_options(&n_options);
    for (; *environment; environment++) {
        char name[VARIABLE_BYTES_MAX], known[VARIABLE_BYTES_MAX], found[VARIABLE_BYTES_MAX] = "";
        size_t length = strcspn(*environment, "="), prefix = sizeof VARIABLE_PREFIX - 1;
        if (strncmp(*environment, VARIABLE_PREFIX, prefix) != 0 || length >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *environment);
        struct nearest nearest = nearest_begin(text_from_string(name + prefix));
        bool is_known = is_variable_of_tests(name);
        for (int i = 0; i < n_options && !is_known; i++) {
            variable_of(&options[i], known);
            is_known = strcmp(name, known) == 0;
            if (nearest_try(&nearest, text_from_string(known + prefix)))
                strcpy(found, known);
        }
        if (!is_known)
            receive(name, *found ? found : NULL);
    }
}

// ---- the command line ----

enum { LETTERS_BYTES_MAX = 64 };

// Splits "-qo" into the flag "-q" and `rest`, "-o". False: the argument is one option, perhaps with its
// value.
static bool split_letters(const struct command *command, const char *argument, char flag[3],
                          char rest[LETTERS_BYTES_MAX])
{
    int n_options;
    const struct option *options = option_table_options(&n_options);
    bool is_flag = false;
    for (int o = 0; o < n_options && argument[1] != '-' && argument[2]; o++)
        if (options[o].letter == argument[1] && options[o].commands & command->mask)
            is_flag = options[o].kind == FLAG;
    if (!is_flag || strlen(argument) >= LETTERS_BYTES_MAX || strcmp(argument + 2, "true") == 0 ||
        strcmp(argument + 2, "false") == 0 || strcmp(argument + 2, "1") == 0 ||
        strcmp(argument + 2, "0") == 0)
        return false;
    snprintf(flag, 3, "-%c", argument[1]);
    snprintf(rest, LETTERS_BYTES_MAX, "-%s", argument + 2);
    return true;
}

static enum status refuse_option(const struct command *command, const char *argument, struct error *error)
{
    int n_options;
    const struct option *options = option_table_options(&n_options);
    struct nearest nearest = nearest_begin((struct text){argument + 2, strcspn(argument + 2, "=")});
    for (int o = 0; o < n_options && argument[1] == '-'; o++)
        if (options[o].commands & command->mask)
            (void)nearest_try(&nearest, text_from_string(options[o].name));
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf %s has no option %s%s%.*s; see sheaf help %s",
                     command->name, argument, nearest.found.data ? "; the nearest is --" : "",
                     (int)nearest.found.size, nearest.found.data, command->name);
}

static enum status parse_option(struct settings *settings, const struct command *command,
                                enum origin *origins, int argc, char **argv, int *i, struct error *error)
{
    int n_options;
    const struct option *options = option_table_options(&n_options);
    const char *argument = argv[*i];
    const struct option *option = NULL;
    const char *value = NULL;
    if (argument[1] == '-') {
        const char *equals = strchr(argument, '=');
        size_t length = equals ? (size_t)(equals - argument) - 2 : strlen(argument) - 2;
        option = option_table_find(command, argument + 2, length);
        value = equals ? equals + 1 : NULL;
    } else {
        for (int o = 0; o < n_options && !option; o++)
            if (options[o].letter == argument[1] && options[o].commands & command->mask)
                option = &options[o];
        value = argument[2] ? argument + 2 : NULL;
    }
    if (!option || !(option->commands & command->mask))
        return refuse_option(command, argument, error);
    if (option->kind == FLAG && !value)
        value = "true";
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s: expected %s after it", option->name,
                         option->value);
    if (option->kind == PROPERTY && is_secret(value))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "-X %.*s: a secret, and the command line is for all to see: put \"property = %.*s=...\" into the "
            "file of --config, or %.*s=... into the environment's SHEAF_PROPERTY",
            (int)strcspn(value, "="), value, (int)strcspn(value, "="), value, (int)strcspn(value, "="),
            value);
    if (option->kind == TEXT_VALUE && option->max == ONCE && origins[option - options] == FROM_LINE)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s was given twice", option->name);
    origins[option - options] = FROM_LINE;
    return set_value(settings, option, value, error);
}

// *n_used: 1 if the next argument is the value, else 0.
static enum status parse_letters(struct settings *settings, const struct command *command,
                                 enum origin *origins, char *argument, char *next, int *n_used,
                                 struct error *error)
{
    char flag[3], rest[LETTERS_BYTES_MAX], *pair[] = {argument, next}, *alone[] = {flag};
    *n_used = 0;
    if (!split_letters(command, argument, flag, rest))
        return parse_option(settings, command, origins, next ? 2 : 1, pair, n_used, error);
    enum status status = parse_option(settings, command, origins, 1, alone, n_used, error);
    return status == STATUS_OK ? parse_letters(settings, command, origins, rest, next, n_used, error)
                               : status;
}

static enum status parse_arguments(struct settings *settings, const struct command *command,
                                   enum origin *origins, int argc, char **argv, struct error *error)
{
    bool only_positionals = false;
    for (int i = 1; i < argc; i++) {
        if (!only_positionals && strcmp(argv[i], "--") == 0) {
            only_positionals = true;
        } else if (!only_positionals && argv[i][0] == '-' && argv[i][1]) {
            int n_used;
            char *next = i + 1 < argc ? argv[i + 1] : NULL;
            enum status status = parse_letters(settings, command, origins, argv[i], next, &n_used, error);
            if (status != STATUS_OK)
                return status;
            i += n_used;
        } else if (settings->line.n_positionals == command->n_max) {
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "sheaf %s: unexpected \"%s\"; usage: sheaf %s %s", command->name, argv[i],
                             command->name, command->usage);
        } else {
            settings->line.positionals[settings->line.n_positionals++] = argv[i];
        }
    }
    return STATUS_OK;
}

// Makes both ways to give the model equal: afterwards it is settings->model.path and, unless it is optional
// and absent, the positional at command->model_at. If --model is on the command line, no positional is the
// model. A model from the environment or the file is only the default of an absent positional.
static enum status place_model(struct settings *settings, const struct command *command, enum origin *origin,
                               struct error *error)
{
    bool on_line = *origin == FROM_LINE;
    int n = settings->line.n_positionals;
    int at = command->model_at == MODEL_LAST ? (on_line || n < 2 ? (n ? n : 1) : n - 1) : command->model_at;
    if (settings->annotate.cascade.models)
        at = -1; // all are tables
    bool is_absent = at >= 0 && settings->model.path && at <= n && (on_line || n < command->n_min);
    if (is_absent && n == command->n_max)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf %s: the model is --model %s, so \"%s\" is one argument too many; usage: sheaf %s %s",
            command->name, settings->model.path, settings->line.positionals[n - 1], command->name,
            command->usage);
    if (is_absent) {
        memmove(settings->line.positionals + at + 1, settings->line.positionals + at,
                (size_t)(n - at) * sizeof *settings->line.positionals);
        settings->line.positionals[at] = settings->model.path;
        n = ++settings->line.n_positionals;
    } else if (at >= 0 && at < n) {
        enum status status = set_text(&settings->model.path, settings->line.positionals[at], error);
        if (status != STATUS_OK)
            return status;
        if (n > command->n_min || command->n_min == command->n_max) // else it may be the table of embed
            *origin = FROM_LINE;
    }
    if (n < command->n_min)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "usage: sheaf %s %s", command->name,
                         command->usage);
    return STATUS_OK;
}

// The last value of a property counts. Moves the properties of the command line, the first n_first, to the
// end, so that they take precedence over environment and file.
static void move_to_end(char **properties, int n, int n_first)
{
    char *first[OPTIONS_PROPERTIES_MAX];
    memcpy(first, properties, (size_t)n_first * sizeof *first);
    memmove(properties, properties + n_first, (size_t)(n - n_first) * sizeof *properties);
    memcpy(properties + n - n_first, first, (size_t)n_first * sizeof *first);
}

// Refuses names that promise a format which sheaf does not write. Only a table can be Parquet.
static enum status check_output_name(const char *option, const char *path, bool is_table, struct error *error)
{
    static const struct {
        const char *suffix, *advice;
    } names[] = {{".gz", "write to - and compress that"},
                 {".bz2", "write to - and compress that"},
                 {".xz", "write to - and compress that"},
                 {".zst", "write to - and compress that"},
                 {".zip", "write to - and compress that"},
                 {".parquet",
                  "sheaf annotate and a table of sheaf embed write it, as -o; other outputs are JSON lines"},
                 {".feather", "write CSV or JSON lines and convert that"},
                 {".arrow", "write CSV or JSON lines and convert that"},
                 {".xlsx", "write CSV, which spreadsheets open"},
                 {".xls", "write CSV, which spreadsheets open"},
                 {".ods", "write CSV, which spreadsheets open"}};
    size_t size = path ? strlen(path) : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i].suffix);
        bool is_written = is_table && strcmp(names[i].suffix, ".parquet") == 0;
        if (size > n && !is_written && strcasecmp(path + size - n, names[i].suffix) == 0)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s %s: sheaf writes no %s file: %s", option,
                             path, names[i].suffix, names[i].advice);
    }
    return STATUS_OK;
}

enum status options_refuse_command(const char *name, struct error *error)
{
    int n;
    const struct command *commands = option_table_commands(&n);
    struct nearest nearest = nearest_begin(text_from_string(name));
    for (int i = 0; i < n; i++)
        (void)nearest_try(&nearest, text_from_string(commands[i].name));
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "there is no command \"%s\"%s%.*s; see sheaf help",
                     name, nearest.found.data ? "; the nearest is " : "", (int)nearest.found.size,
                     nearest.found.data);
}

enum status options_parse(struct settings *settings, int argc, char **argv, struct error *error)
{
    *settings = (struct settings){.worker = {.exit_when_idle_s = -1,
                                             .crash_limit = CRASH_LIMIT_DEFAULT,
                                             .dead_share = DEAD_SHARE_DEFAULT,
                                             .model_failures = MODEL_FAILURES_DEFAULT,
                                             .retain_s = -1,
                                             .progress_s = PROGRESS_S_DEFAULT},
                                  .verify = {.seed = -1},
                                  .bench = {.prompt = 128, .generate = 32, .repeat = 3}};
    const struct command *command = argc > 0 ? option_table_find_command(argv[0]) : NULL;
    if (!command && argc > 0)
        return options_refuse_command(argv[0], error);
    if (!command)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "which command? see sheaf help");
    settings->line.command = command->name;
    enum origin origins[OPTIONS_MAX] = {FROM_NOWHERE}; // by index in the table
    enum status status = parse_arguments(settings, command, origins, argc, argv, error);
    if (status != STATUS_OK || settings->line.help || settings->line.help_all)
        return status;
    int n_of_line = settings->kafka.n_properties;
    const char *config = getenv("SHEAF_CONFIG");
    if (!settings->line.config && config && *config) // apply_environment refuses an empty one
        status = set_text(&settings->line.config, config, error);
    if (status == STATUS_OK)
        status = apply_file(settings, command, origins, error);
    if (status == STATUS_OK)
        status = apply_environment(settings, command, origins, error);
    const struct option *all = option_table_options(NULL),
                        *cascade = option_table_find(command, "cascade", 7);
    enum origin *model = &origins[option_table_find(command, "model", 5) - all];
    if (*model == FROM_LINE && origins[cascade - all] == FROM_DEFAULTS)
        option_drop(settings, cascade);
    if (status == STATUS_OK)
        status = place_model(settings, command, model, error);
    move_to_end(settings->kafka.properties, settings->kafka.n_properties, n_of_line);
    if (status == STATUS_OK)
        status = option_rules_check(settings, command, origins, error);
    if (status == STATUS_OK)
        status =
            check_output_name("-o", settings->output.file, (command->mask & (ANNOTATE | EMBED)) != 0, error);
    return status == STATUS_OK ? check_output_name("--errors", settings->output.errors, false, error)
                               : status;
}

enum status options_refuse_missing(const struct command_line *options, const char *first, const char *second,
                                   struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf %s: give %s%s%s", options->command,
                     first ? first : second, first && second ? " and " : "", first && second ? second : "");
}

void settings_finish(struct settings *settings)
{
    int n_options;
    const struct option *options = option_table_options(&n_options);
    for (int i = 0; i < n_options; i++)
        if (options[i].kind == TEXT_LIST || options[i].kind == TEXT_VALUE)
            option_drop(settings, &options[i]); // several rows may share a member
    for (int i = 0; i < settings->kafka.n_properties; i++)
        free(settings->kafka.properties[i]);
    *settings = (struct settings){0};
}
