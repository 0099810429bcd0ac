#include "consumer/observe/http_token.h"

#include "schemas/base/base64.h"
#include "schemas/base/file.h"

#include <string.h>
#include <strings.h>

enum { FILE_BYTES_MAX = 4096 };

bool http_token_set(struct http_token *token, struct text text)
{
    *token = (struct http_token){0};
    size_t n_printable = 0;
    while (n_printable < text.size && text.data[n_printable] > ' ' && text.data[n_printable] <= '~')
        n_printable++;
    if (n_printable < text.size || text.size < HTTP_TOKEN_BYTES_MIN || text.size > HTTP_TOKEN_BYTES_MAX)
        return false;
    memcpy(token->text, text.data, text.size);
    return true;
}

enum status http_token_read(struct http_token *token, const char *path, struct error *error)
{
    struct buffer content = {0};
    *token = (struct http_token){0};
    enum status status = file_read_text(path, FILE_BYTES_MAX, &content, error);
    if (status != STATUS_OK) {
        buffer_finish(&content);
        error->code = ERROR_USAGE;
        return error_prefix(error, "--metrics-token");
    }
    struct text text = {content.data, content.size};
    while (text.size && strchr(" \t\r\n", text.data[text.size - 1]))
        text.size--;
    if (!http_token_set(token, text))
        status = error_set(error, STATUS_REFUSE, ERROR_USAGE,
                           "--metrics-token %s: expected %d to %d printable characters without blanks", path,
                           HTTP_TOKEN_BYTES_MIN, HTTP_TOKEN_BYTES_MAX);
    buffer_finish(&content);
    return status;
}

static bool is_equal(const char *token, struct text given)
{
    if (given.size != strlen(token))
        return false;
    unsigned char different = 0;
    for (size_t i = 0; i < given.size; i++)
        different |= (unsigned char)token[i] ^ (unsigned char)given.data[i];
    return different == 0;
}

// "user:password" in base64.
static bool matches_basic(const struct http_token *token, const char *encoded)
{
    struct buffer decoded = {0};
    bool matches = false;
    if (base64_decode(text_from_string(encoded), &decoded) && !decoded.failed && decoded.size) {
        const char *colon = memchr(decoded.data, ':', decoded.size);
        matches =
            colon && is_equal(token->text,
                              (struct text){colon + 1, decoded.size - (size_t)(colon + 1 - decoded.data)});
    }
    buffer_finish(&decoded);
    return matches;
}

// The credentials after the scheme's name and its blanks (RFC 9110, 11.4: 1*SP); NULL: another scheme.
static const char *credentials_of(const char *authorization, const char *scheme)
{
    size_t size = strlen(scheme);
    if (strncasecmp(authorization, scheme, size) != 0 || authorization[size] != ' ')
        return NULL;
    return authorization + size + strspn(authorization + size, " ");
}

bool http_token_matches(const struct http_token *token, const char *authorization)
{
    if (!token->text[0])
        return true;
    if (!authorization)
        return false;
    const char *bearer = credentials_of(authorization, "Bearer"),
               *basic = credentials_of(authorization, "Basic");
    if (bearer)
        return is_equal(token->text, text_from_string(bearer));
    return basic && matches_basic(token, basic);
}
