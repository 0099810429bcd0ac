// The commands, one file each: command_NAME.c. main.c converts the returned status to a message and an exit
// status. Thread: main.
#pragma once

#include "consumer/options/options.h"

enum status command_work(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_serve(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_submit(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_collect(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_run(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_annotate(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_report(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_status(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_cancel(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_dataset(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_backup(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_mirror(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_redrive(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_lag(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_inspect(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_grammar(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_tokenize(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_template(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_logits(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_perplexity(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_embed(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_classify(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_rerank(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_quantize(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_verify(const struct settings *settings, struct error *error) WARN_UNUSED;
enum status command_bench(const struct settings *settings, struct error *error) WARN_UNUSED;
