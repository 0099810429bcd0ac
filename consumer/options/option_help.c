#include "consumer/options/option_help.h"

#include <stdio.h>
#include <string.h>

static const char *const group_names[OPTION_GROUP_COUNT] = {
    [GROUP_COMMON] = "Common",    [GROUP_INPUT] = "Input", [GROUP_OUTPUT] = "Output",
    [GROUP_QUEUE] = "Queue",      [GROUP_KAFKA] = "Kafka", [GROUP_ENGINE] = "Engine",
    [GROUP_MESSAGES] = "Messages"};

// Names of options by group, usual and rare ones. Blanks surround each name.
static const struct {
    const char *usual, *rare;
} members[OPTION_GROUP_COUNT] = {
    [GROUP_COMMON] = {" model output dataset store brokers config help help-all ", " "},
    [GROUP_INPUT] =
        {" prompt system messages parameters questions schema choice votes json-schema regex "
         "grammar type tokens against context generate batch settings alone embed products sample delimiter skip-bad-rows table sql special pooling column activation top-n rerank classify ",
         " encoding skip-lines no-header no-quotes skip-empty input-format seed "
         "truncate-prompt reorder same-draws cases spaces bos eos now dimensions prompt-name max-length truncate vector-type answers instruct normalize no-normalize plain-text add-special-tokens "},
    [GROUP_OUTPUT] =
        {" errors json watch force overwrite into probabilities evaluate gold by differences statistics cascade guarantee gold-column confidence figures thoughts estimate partial price-in price-out split certificate ",
         " prefix output-format repeat "},
    [GROUP_QUEUE] =
        {" exit-when-idle retry-failed force-new retain listen token no-work ",
         " no-reuse unique-jobs dataset-weight dataset-limit require-arithmetic crash-limit dead-share model-failures until-end rebuild file-size "},
    [GROUP_KAFKA] =
        {" jobs results dead control group create-topics where property ",
         " member-name dynamic-member group-protocol membership-timeout partitions pass-headers reply-topics refuse-deleted"
         " skip-unreadable ignore-offset-map "},
    [GROUP_ENGINE] =
        {" backend threads gpu gpu-memory kv-memory max-tokens temperature top-p top-k thinking-token-budget chat-template "
         "quantize lora lora-modules ",
         " placement check-cpu cached-tokens no-graphs no-overlap no-carveout no-wgmma tiles gpu-sync no-ahead trace-steps speculate kv-type activation-bits"
         " max-batch max-rows window sampling-defaults min-p presence-penalty frequency-penalty"
         " repetition-penalty reasoning-effort tool-format special-in-content pre model-name require-model engine-test task "},
    [GROUP_MESSAGES] = {" metrics metrics-token metrics-content quiet verbose ",
                        " progress log log-json parent-fd "},
};

const char *option_group_name(enum option_group group)
{
    return group_names[group];
}

bool option_group_of(const char *name, enum option_group *group, bool *rare)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    for (int g = 0; g < OPTION_GROUP_COUNT; g++) {
        *group = (enum option_group)g;
        *rare = strstr(members[g].rare, word) != NULL;
        if (*rare || strstr(members[g].usual, word))
            return true;
    }
    *group = GROUP_COMMON;
    return false;
}

static void print_option(const struct option *option)
{
    char left[64];
    snprintf(left, sizeof left, "%s--%s %s",
             option->letter ? (char[]){'-', option->letter, ',', ' ', 0} : "    ", option->name,
             option->value ? option->value : "");
    printf("  %-28s %s\n", left, option->help);
}

// Returns the number of rare options that were left out.
static int print_group(const struct command *command, enum option_group group, bool all)
{
    int n, n_printed = 0, n_left = 0;
    const struct option *options = option_table_options(&n);
    for (int i = 0; i < n; i++) {
        enum option_group of;
        bool rare = false;
        if (!(options[i].commands & command->mask))
            continue;
        option_group_of(options[i].name, &of, &rare);
        if (of != group)
            continue;
        if (rare && !all) {
            n_left++;
            continue;
        }
        if (n_printed++ == 0)
            printf("\n%s\n", group_names[group]);
        print_option(&options[i]);
    }
    return n_left;
}

static void print_commands(void)
{
    int n;
    const struct command *commands = option_table_commands(&n);
    printf("sheaf: an offline batch worker for language models\n\nusage: sheaf COMMAND [options]\n\n");
    for (int i = 0; i < n; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].does);
    printf("\nexit status: 0 done, 1 failed, 2 wrong usage, 3 done but some jobs failed (run, work)\n"
           "\nsheaf help COMMAND prints its options, sheaf help --help-all COMMAND "
           "the rare ones too. Each may also be\n"
           "in the environment as SHEAF_NAME or in the file of --config.\n");
}

void option_help_print(const char *name, bool all)
{
    const struct command *command = option_table_find_command(name);
    if (!command) {
        print_commands();
        return;
    }
    printf("usage: sheaf %s %s\n\n%s\n", command->name, command->usage, command->does);
    if (command->explains)
        printf("\n%s", command->explains);
    int n_left = 0;
    for (int group = 0; group < OPTION_GROUP_COUNT; group++)
        n_left += print_group(command, (enum option_group)group, all);
    if (n_left)
        printf("\n%d rarer option%s: sheaf %s --help-all\n", n_left, n_left == 1 ? "" : "s", command->name);
}
