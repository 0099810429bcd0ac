// The bearer tokens of `sheaf serve`: a file with a token a line; blank lines, and lines that begin with '#',
// are skipped. Each token is an owner of files and batches. Thread: any, after serve_tokens_read.
#pragma once

#include "consumer/observe/http_token.h"
#include "schemas/base/digest.h"

enum { SERVE_TOKENS_MAX = 1024, SERVE_OWNER_BYTES = DIGEST_HEX + 1 };

struct serve_tokens {
    struct http_token *tokens; // [n]
    size_t n;                  // 0: any or no token is accepted
};

// STATUS_REFUSE: the file can't be read, has no token, or a line is none.
enum status serve_tokens_read(struct serve_tokens *tokens, const char *path, struct error *error) WARN_UNUSED;
void serve_tokens_finish(struct serve_tokens *tokens);

// `authorization`: the header's value; NULL: absent. False: no token matches. `owner`: hash of the token, ""
// without tokens. Compares with every token, each in constant time.
bool serve_tokens_match(const struct serve_tokens *tokens, const char *authorization,
                        char owner[SERVE_OWNER_BYTES]) WARN_UNUSED;
