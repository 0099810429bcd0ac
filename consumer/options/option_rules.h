// Combinations of options that are refused: an option that has no effect without another one, and options that
// contradict each other. One table has them all.
#pragma once

#include "consumer/options/option_table.h"

enum origin { FROM_NOWHERE, FROM_DEFAULTS, FROM_LINE }; // FROM_DEFAULTS: the environment or the file

// origins: by index in the table. Only options on the command line are refused. Options of the environment and the file
// are defaults: they may have no effect in a command, and the command line takes precedence. STATUS_REFUSE, ERROR_USAGE:
// a rule is broken. Otherwise settings->engine.gpu.option and cpu_option are set.
enum status option_rules_check(struct settings *settings, const struct command *command,
                               const enum origin *origins, struct error *error) WARN_UNUSED;
