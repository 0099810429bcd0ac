// The options of annotate that requests and columns of answers follow from, by value: an object with a member for each
// that was given, files as their contents. Options of the engine are not among them: the arithmetic names those.
// Thread: main.
#pragma once

#include "consumer/options/options.h"
#include "schemas/value.h"

#include <stdio.h>

enum { CERTIFICATE_FILES_MAX = 8 };

// Settings that have a certificate's options.
struct certified_settings {
    struct settings settings;           // not finished by settings_finish: it borrows its texts
    const struct value *questions;      // NULL: none
    struct sampling_options defaults;   // of the worker, after certified_settings_require
    FILE *files[CERTIFICATE_FILES_MAX]; // unnamed, whose paths under /proc/self/fd the settings have
    size_t n_files;
    struct arena arena;
};

// Reads the options and their files. STATUS_REFUSE: a file can't be read.
enum status certificate_options_take(const struct settings *settings, struct arena *arena,
                                     struct value *options, struct error *error) WARN_UNUSED;
// STATUS_REFUSE: an unknown option, or a value of another type.
enum status certificate_options_check(const struct value *options, struct error *error) WARN_UNUSED;
// Copies `settings` and sets the options, which were checked and must outlive the result. STATUS_REFUSE: a temporary file
// can't be written. The result needs certified_settings_close after an error too.
enum status certified_settings_open(struct certified_settings *certified, const struct settings *settings,
                                    const struct value *options, struct error *error) WARN_UNUSED;
void certified_settings_close(struct certified_settings *certified);
// Sets options of the engine and the worker, where none are given, to those that the arithmetic names, and requires this
// arithmetic.
enum status certified_settings_require(struct certified_settings *certified, struct text arithmetic,
                                       struct error *error) WARN_UNUSED;
