// Combinations of options that are refused: an option that has no effect without another one, and options that
// contradict each other. One table has them all.
#pragma once

#include "consumer/options/option_table.h"

// given: by index in the table, whether the option is on the command line. Options of the environment and of
// the file are defaults, which may have no effect in a command. STATUS_REFUSE, ERROR_USAGE: a rule is broken.
// Otherwise settings->engine.gpu.option is set.
enum status option_rules_check(struct settings *settings, const struct command *command, const bool *given,
                               struct error *error) WARN_UNUSED;
