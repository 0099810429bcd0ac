// Renders a chat's messages with the model's template, by the rules of schemas/REQUESTS.md ("From a request
// to tokens"). Content that the template would omit silently rejects the job or adds a warning to its result.
// Thread: any that owns the job.
#pragma once

#include "engine/answer/answer_format.h"
#include "engine/template/template.h"
#include "schemas/job.h"

// Renders the job's messages and appends the text to `rendered`, which is unchanged after an error. If the
// template's code does not name "developer", messages of that role are rendered as "system". If the answer
// continues a message, the text ends with that message. `format`: how answers to this template are written.
// Errors: STATUS_REJECT names the message; STATUS_RETRY is a fault of the host. `error` is unchanged on success: a prompt's
// error fails its job.
enum status chat_render(struct job *job, const struct template *template,
                        const struct template_environment *environment, const struct answer_format *format,
                        struct buffer *rendered, struct error *error) WARN_UNUSED;
// STATUS_REJECT: the job has tools, and the template no way to write their calls.
enum status chat_check_tools(const struct job *job, const struct answer_format *format,
                             struct error *error) WARN_UNUSED;
