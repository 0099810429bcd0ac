// Help texts: groups of options, and the rare options.
#pragma once

#include "consumer/options/option_table.h"

enum option_group {
    GROUP_COMMON,
    GROUP_INPUT,
    GROUP_OUTPUT,
    GROUP_QUEUE,
    GROUP_ENGINE,
    GROUP_KAFKA,
    GROUP_MESSAGES,
    OPTION_GROUP_COUNT
};

const char *option_group_name(enum option_group group);
// False: the option is in no group (a test fails); help prints it among the common options. *rare: only
// --help-all prints it.
bool option_group_of(const char *name, enum option_group *group, bool *rare);

// Help for a command, or for all commands if NULL or unknown. `all`: with rare options.
void option_help_print(const char *command, bool all);
