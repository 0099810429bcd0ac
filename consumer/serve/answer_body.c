#include "consumer/serve/answer_body.h"

#include "schemas/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The response of a line of OpenAI's output (schemas/openai.c), whose ids have no quotes and no commas:
//   {"id":ID,"custom_id":ID,"response":{"status_code":200,"request_id":ID,"body":BODY},"error":null}
//   {"id":ID,"custom_id":ID,"response":null,"error":{"code":CODE,"message":TEXT}}
static bool take_response(const struct job *job, const struct buffer *line, struct buffer *body, int *status)
{
    static const char before[] = ",\"body\":", code[] = "\"status_code\":", after[] = "},\"error\":null}";
    if (line->failed)
        return false;
    const char *at = strstr(line->data, before), *number = strstr(line->data, code);
    if (at && number && number < at) {
        *status = atoi(number + strlen(code));
        at += strlen(before);
        buffer_add(body, at, line->size - (size_t)(at - line->data) - strlen(after));
        return !body->failed;
    }
    *status = job->result.error.code == ERROR_DEADLINE ? 504 : 503;
    buffer_add_string(body, "{\"error\":{\"message\":");
    json_encode_string(text_from_string(job->result.error.text), body);
    buffer_add_string(body, ",\"type\":\"server_error\",\"param\":null,\"code\":");
    json_encode_string(text_from_string(error_code_name(job->result.error.code)), body);
    buffer_add_string(body, "}}");
    return !body->failed;
}

bool answer_body_write(struct text record, struct buffer *body, int *status)
{
    struct buffer line = {0};
    struct error error;
    struct job *job = job_create();
    bool complete = job && result_decode(job, record, ENCODING_JSON, &error) == STATUS_OK;
    if (complete)
        result_encode_openai(job, job->request.prompt.kind == PROMPT_MESSAGES, &line);
    complete = complete && take_response(job, &line, body, status);
    buffer_finish(&line);
    job_destroy(job);
    return complete;
}

void answer_body_refuse(struct job *job, const struct error *error, bool is_chat, struct buffer *body,
                        int *status)
{
    struct buffer line = {0};
    job->result.status = RESULT_FAILED;
    job->result.error = *error;
    result_encode_openai(job, is_chat, &line);
    if (!take_response(job, &line, body, status))
        *status = 500;
    buffer_finish(&line);
}
