#include "consumer/serve/serve_token.h"

#include "schemas/base/file.h"

#include <stdlib.h>

enum { FILE_BYTES_MAX = SERVE_TOKENS_MAX * (HTTP_TOKEN_BYTES_MAX + 2) };

static enum status add_line(struct serve_tokens *tokens, struct text line, int number, const char *path,
                            struct error *error)
{
    line = text_trim(line);
    if (line.size == 0 || line.data[0] == '#')
        return STATUS_OK;
    if (tokens->n == SERVE_TOKENS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--token %s: expected at most %d tokens", path,
                         SERVE_TOKENS_MAX);
    if (!http_token_set(&tokens->tokens[tokens->n], line))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--token %s: line %d: expected %d to %d printable characters without blanks", path,
                         number, HTTP_TOKEN_BYTES_MIN, HTTP_TOKEN_BYTES_MAX);
    tokens->n++;
    return STATUS_OK;
}

enum status serve_tokens_read(struct serve_tokens *tokens, const char *path, struct error *error)
{
    struct buffer content = {0};
    *tokens = (struct serve_tokens){.tokens = calloc(SERVE_TOKENS_MAX, sizeof *tokens->tokens)};
    if (!tokens->tokens)
        return error_memory(error, STATUS_REFUSE, "--token");
    enum status status = file_read(path, FILE_BYTES_MAX, &content, error);
    if (status != STATUS_OK) {
        error->code = ERROR_USAGE;
        status = error_prefix(error, "--token");
    }
    int number = 0;
    for (size_t at = 0; status == STATUS_OK && at < content.size; at++) {
        size_t end = at;
        while (end < content.size && content.data[end] != '\n')
            end++;
        status = add_line(tokens, (struct text){content.data + at, end - at}, ++number, path, error);
        at = end;
    }
    if (status == STATUS_OK && tokens->n == 0)
        status = error_set(error, STATUS_REFUSE, ERROR_USAGE, "--token %s: it has no token", path);
    buffer_finish(&content);
    if (status != STATUS_OK)
        serve_tokens_finish(tokens);
    return status;
}

void serve_tokens_finish(struct serve_tokens *tokens)
{
    free(tokens->tokens);
    *tokens = (struct serve_tokens){0};
}

bool serve_tokens_match(const struct serve_tokens *tokens, const char *authorization,
                        char owner[SERVE_OWNER_BYTES])
{
    const struct http_token *found = NULL;
    owner[0] = '\0';
    for (size_t i = 0; i < tokens->n; i++)
        if (http_token_matches(&tokens->tokens[i], authorization))
            found = &tokens->tokens[i];
    if (found) {
        struct digest digest = digest_of(found->text, strlen(found->text));
        digest_write_hex(&digest, owner);
        owner[DIGEST_HEX] = '\0';
    }
    return found || tokens->n == 0;
}
