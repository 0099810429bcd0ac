#include "consumer/options/option_rules.h"

#include <stdio.h>
#include <string.h>

// Rules refuse only what is on the command line. A default (of the environment or the file of --config) that does
// not fit it is dropped, except the brokers: without --store beside it, an option that Kafka lacks is refused, because
// another queue than the host's would be used unnoticed.
enum relation {
    NEEDS,     // no effect unless one of the others is set
    MISSES,    // likewise, and the command itself refuses it on the command line
    EXCLUDES,  // no effect if one of the others is set
    REPLACES,  // chosen instead of the others; the command refuses two on the command line
    NEEDS_GPU, // no effect on a CPU; the backend is opened later
    NEEDS_CPU, // no effect on a GPU, likewise
};

enum {
    ON_TOPICS = LAG | MIRROR | REDRIVE // these always need brokers, and say so
};

// Lists of options: names separated by blanks.
#define OF_GPU "gpu gpu-memory no-graphs no-overlap no-carveout no-wgmma tiles gpu-sync no-ahead"
#define OF_ENGINE                                                                                            \
    OF_GPU " backend threads placement kv-memory kv-type activation-bits max-batch max-rows window "         \
           "speculate quantize lora lora-modules engine-test check-cpu trace-steps"
#define OF_MEMBER                                                                                            \
    "member-name dynamic-member group-protocol membership-timeout pass-headers reply-topics refuse-deleted " \
    "skip-unreadable ignore-offset-map dead-share"
#define OF_WORKER                                                                                            \
    OF_ENGINE " " OF_MEMBER " no-reuse require-arithmetic model-failures cached-tokens max-tokens "          \
              "sampling-defaults temperature top-p top-k min-p presence-penalty frequency-penalty "          \
              "repetition-penalty thinking-token-budget reasoning-effort chat-template tool-format "         \
              "special-in-content pre require-model metrics dataset-weight dataset-limit crash-limit task "  \
              "pooling max-length activation answers instruct normalize no-normalize same-draws overwrite"
#define OF_TOPICS   "jobs results dead control group create-topics property"
#define OF_CHATS    "schema system messages questions votes thoughts reorder" // no score depends on them
#define CONSTRAINTS "json-schema regex choice grammar cases"

static const struct rule {
    const char *options;
    int commands;
    enum relation relation;
    const char *others;
    const char *reason; // after a colon
    const char *when;   // applies if one of these is set; NULL: always
} rules[] = {
    {OF_TOPICS " partitions " OF_MEMBER, ALL & ~ON_TOPICS, NEEDS, "brokers",
     "without it the jobs are in the store"},
    {"unique-jobs", ALL, NEEDS, "brokers", "in the store a job_id is unique"},
    {"partitions", ALL, NEEDS, "create-topics", "topics that exist keep their partitions"},
    {"brokers", STATUS, NEEDS, "rebuild", "the figures are the store's"},
    {"force-new retry-failed", ALL, EXCLUDES, "brokers", "it is for the embedded queue"},
    {"partial", COLLECT, EXCLUDES, "brokers",
     "it reads a store; over Kafka --force writes the results that exist"},
    {"dataset", WORK_ALONE, EXCLUDES, "brokers", "a worker on Kafka computes all jobs of the topic"},
    {"store", COLLECT | CANCEL, EXCLUDES, "brokers", "the results are in the topics"},
    {OF_ENGINE, EMBED, EXCLUDES, "brokers", "the workers compute (sheaf work)", "column prompt"},
    {"estimate sample pooling max-length normalize no-normalize", EMBED, EXCLUDES, "brokers",
     "over Kafka the workers have the model (sheaf work)", "column prompt"},
    {OF_ENGINE, ANNOTATE, NEEDS, "model cascade", "the workers compute (sheaf work)"},
    {OF_ENGINE " sample seed", VERIFY, NEEDS, "model", "without it no row is computed"},
    {OF_WORKER, SERVE, NEEDS, "model", "with --no-work nothing is computed"},
    {OF_GPU, ALL, NEEDS_GPU, NULL, NULL},
    {"speculate", ALL, NEEDS_CPU, NULL, NULL},
    {"metrics-token metrics-content", ALL & ~SERVE, NEEDS, "metrics", "nothing is served without it"},
    {"seed", ANNOTATE | EMBED, NEEDS, "sample cascade", "nothing else is drawn with it"},
    {"truncate", ANNOTATE, NEEDS, "truncate-prompt", "nothing else is cut"},
    {"guarantee confidence gold-column", ANNOTATE, NEEDS, "cascade", "it is the cascade's"},
    {"spaces", GRAMMAR, NEEDS, "json-schema cases", "it is about JSON"},
    {"prompt generate batch settings alone trace-steps", BENCH, EXCLUDES, "embed products",
     "no sequence is generated"},
    {"repeat", BENCH, EXCLUDES, "products", "a product is repeated until its time is known"},
    {"embed", BENCH, EXCLUDES, "products", "they are two measurements"},
    {"gold by differences", ANNOTATE, MISSES, "evaluate"},
    {"statistics", ANNOTATE, MISSES, "evaluate cascade"},
    {"system truncate-prompt", ANNOTATE, MISSES, "prompt"},
    {"column", ANNOTATE, MISSES, "classify"},
    {"probabilities", ANNOTATE, MISSES, "choice schema questions classify"},
    {"dataset", DATASET, MISSES, ""}, // only a typed name is deleted or renamed
    {"store", SUBMIT, REPLACES, "brokers"},
    {"model", EMBED, REPLACES, "brokers"},
    {"model", SERVE, REPLACES, "brokers no-work"},
    {"quiet verbose", ALL, REPLACES, "quiet verbose"},
    {"normalize no-normalize", ALL, REPLACES, "normalize no-normalize"},
    {"json", LAG, REPLACES, "metrics"},
    {"estimate sample certificate", ANNOTATE | EMBED, REPLACES, "estimate sample certificate"},
    {"no-work", SERVE, REPLACES, "model"},
    {"prompt", ANNOTATE | EMBED, REPLACES, "messages column"},
    {"column", ANNOTATE | EMBED, REPLACES, "prompt"},
    {"messages", ANNOTATE, REPLACES, "prompt system truncate-prompt"},
    {"questions", ANNOTATE, REPLACES, "messages"},
    {"schema choice questions", ANNOTATE, REPLACES, "schema choice questions"},
    {"rerank classify", ANNOTATE, REPLACES, "rerank classify " OF_CHATS},
    {"rerank", ANNOTATE, REPLACES, "prompt choice probabilities column"},
    {OF_CHATS, ANNOTATE, REPLACES, "rerank classify"},
    {"cascade", ANNOTATE, REPLACES,
     "brokers model schema questions rerank classify votes estimate sample partial certificate lora"},
    {"table sql", ANNOTATE | EMBED, REPLACES, "table sql"},
    {CONSTRAINTS, GRAMMAR, REPLACES, CONSTRAINTS},
};

static bool is_set(const struct settings *settings, const struct option *option)
{
    const void *value = (const char *)settings + option->offset;
    switch (option->kind) {
    case FLAG:
        return *(const bool *)value;
    case TEXT_VALUE:
        return *(char *const *)value != NULL;
    case TEXT_LIST:
        return *(char **const *)value != NULL;
    case PROPERTY:
        return settings->kafka.n_properties > 0;
    case INTEGER:
    case SIZE:
    case DURATION:
        return *(const int64_t *)value != 0;
    }
    return false;
}

// The next option of a list that the command has. NULL: the end.
static const struct option *next_option(const struct command *command, const char **list)
{
    while (**list) {
        size_t length = strcspn(*list, " ");
        const struct option *option = option_table_find(command, *list, length);
        *list += length + ((*list)[length] == ' ');
        if (option && option->commands & command->mask)
            return option;
    }
    return NULL;
}

static const struct option *find_set(const struct settings *settings, const struct command *command,
                                     const char *list)
{
    const struct option *option;
    while ((option = next_option(command, &list)))
        if (is_set(settings, option))
            return option;
    return NULL;
}

static enum origin origin_of(const struct option *option, const enum origin *origins)
{
    return origins[option - option_table_options(NULL)];
}

static enum status refuse_missing(const struct command *command, const struct option *option,
                                  const struct rule *rule, struct error *error)
{
    char names[128] = "";
    size_t n = 0;
    const char *list = rule->others;
    for (const struct option *other; (other = next_option(command, &list));)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s--%s%s%s", n ? " or " : "", other->name,
                              other->value ? " " : "", other->value ? other->value : "");
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf %s: --%s: expected %s with it: %s",
                     command->name, option->name, names, rule->reason);
}

// NEEDS_GPU, NEEDS_CPU.
static enum status check_device(struct settings *settings, const struct command *command,
                                const enum origin *origins, const struct option *option,
                                enum relation relation, struct error *error)
{
    const char *backend = settings->engine.backend;
    const struct option *chosen = option_table_find(command, "backend", 7);
    if (relation == NEEDS_CPU) {
        settings->engine.cpu_option = option->name;
        return STATUS_OK;
    }
    if (backend && strncmp(backend, "cpu", 3) == 0 && origin_of(chosen, origins) == FROM_LINE)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf %s: --%s: expected a GPU, not --backend %s", command->name, option->name,
                         backend);
    if (backend && strncmp(backend, "cpu", 3) == 0)
        option_drop(settings, chosen);
    settings->engine.gpu.option = option->name;
    return STATUS_OK;
}

static enum status check_option(struct settings *settings, const struct command *command,
                                const enum origin *origins, const struct option *option,
                                const struct rule *rule, struct error *error)
{
    if (rule->relation == NEEDS_GPU || rule->relation == NEEDS_CPU)
        return check_device(settings, command, origins, option, rule->relation, error);
    const struct option *other = find_set(settings, command, rule->others);
    if (rule->relation == NEEDS)
        return other ? STATUS_OK : refuse_missing(command, option, rule, error);
    if (!other)
        return STATUS_OK;
    const char *origin =
        origin_of(other, origins) == FROM_DEFAULTS ? " (of the environment or --config)" : "";
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf %s: --%s with --%s%s: %s", command->name,
                     option->name, other->name, origin, rule->reason);
}

// Whether an option on the command line takes the place of the default `other`. brokers: the comment of enum relation.
static bool displaces(const struct command *command, const enum origin *origins, const struct option *option,
                      enum relation relation, const struct option *other)
{
    const struct option *store = option_table_find(command, "store", 5);
    return relation == REPLACES || strcmp(other->name, "brokers") != 0 || option == store ||
           (store->commands & command->mask && origin_of(store, origins) == FROM_LINE);
}

// Drops the defaults that an option excludes or replaces, and an option that is a default and has no effect.
static void drop_defaults(struct settings *settings, const struct command *command,
                          const enum origin *origins, const struct option *option, const struct rule *rule)
{
    enum origin origin = origin_of(option, origins);
    const char *list = rule->others;
    const struct option *other;
    if (rule->relation == NEEDS || rule->relation == MISSES) {
        if (origin == FROM_DEFAULTS && !find_set(settings, command, rule->others))
            option_drop(settings, option);
        return;
    }
    if (rule->relation != EXCLUDES && rule->relation != REPLACES)
        return;
    while (is_set(settings, option) && (other = next_option(command, &list))) {
        if (other == option || !is_set(settings, other))
            continue;
        if (origin == FROM_LINE && origin_of(other, origins) == FROM_DEFAULTS) {
            if (displaces(command, origins, option, rule->relation, other))
                option_drop(settings, other);
        } else if (origin == FROM_DEFAULTS && rule->relation == EXCLUDES) {
            option_drop(settings, option);
        }
    }
}

static enum status apply_rule(struct settings *settings, const struct command *command,
                              const enum origin *origins, const struct rule *rule, bool drops,
                              struct error *error)
{
    enum status status = STATUS_OK;
    const char *list = rule->options;
    const struct option *option;
    while (status == STATUS_OK && (option = next_option(command, &list))) {
        bool is_typed = origin_of(option, origins) == FROM_LINE;
        if (rule->when && !find_set(settings, command, rule->when))
            return STATUS_OK;
        if (drops)
            drop_defaults(settings, command, origins, option, rule);
        else if (rule->relation != REPLACES && rule->relation != MISSES && is_typed &&
                 (option->kind != FLAG || is_set(settings, option)))
            status = check_option(settings, command, origins, option, rule, error);
    }
    return status;
}

enum status option_rules_check(struct settings *settings, const struct command *command,
                               const enum origin *origins, struct error *error)
{
    enum status status = STATUS_OK;
    for (int drops = 1; drops >= 0; drops--)
        for (size_t i = 0; status == STATUS_OK && i < sizeof rules / sizeof *rules; i++)
            if (rules[i].commands & command->mask)
                status = apply_rule(settings, command, origins, &rules[i], drops, error);
    return status;
}
