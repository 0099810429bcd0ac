// The secret of a worker's pages: Prometheus sends it as `Authorization: Bearer TOKEN`, browsers as the
// password of Basic authentication (RFC 7617) with any user name. Thread: any.
#pragma once

#include "schemas/base/text.h"

enum {
    HTTP_TOKEN_BYTES_MIN = 16,
    HTTP_TOKEN_BYTES_MAX = 256,
};

struct http_token {
    char text[HTTP_TOKEN_BYTES_MAX + 1]; // "": none
};

// False, and no token: another length or other characters than printable ASCII without blanks.
bool http_token_set(struct http_token *token, struct text text) WARN_UNUSED;
// Reads the content of the file without blanks and line feeds at its end. It must be printable ASCII without
// blanks. STATUS_REFUSE: the file cannot be read, or the token has another length or other characters.
enum status http_token_read(struct http_token *token, const char *path, struct error *error) WARN_UNUSED;

// `authorization` is the value of the header; NULL: absent. The comparison takes constant time for tokens of
// equal length. True if no token is set.
bool http_token_matches(const struct http_token *token, const char *authorization);
