// POST requests by libcurl, which is loaded at the first one: few workers need it. Thread: any.
#pragma once

#include "schemas/base/error.h"
#include "schemas/base/text.h"

enum { HTTP_ANSWER_BYTES_MAX = 1 << 20, HTTP_HEADERS_MAX = 16 };

struct http_request {
    const char *url;                       // http or https
    const char *user, *password;           // basic authentication; NULL: none
    const char *headers[HTTP_HEADERS_MAX]; // "Name: value", NULL-terminated if fewer
    struct text body;
};

// Answers of any status are STATUS_OK, with their body appended to `answer`. STATUS_RETRY: no answer within
// 10 s, one of more than HTTP_ANSWER_BYTES_MAX, or libcurl is missing.
enum status http_post(const struct http_request *request, int *http_status, struct buffer *answer,
                      struct error *error) WARN_UNUSED;
