#include "consumer/queue/kafka/client/kafka_token.h"

#include "consumer/queue/http_post.h"
#include "consumer/queue/kafka/client/kafka_handle.h"
#include "schemas/base/base64.h"
#include "schemas/base/clock.h"
#include "schemas/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROPERTY "sasl.oauthbearer."

enum {
    EXTENSIONS_MAX = 16,
    EXPLANATION_BYTES = 200, // of a refusal
};

// ---- settings ----

// NULL: not given.
static const char *property_of(const struct kafka_config *config, const char *name)
{
    const char *value = NULL; // the last one counts, as for librdkafka
    for (size_t i = 0; i < config->n_properties; i++) {
        const char *given = config->properties[i].name;
        if (strncmp(given, PROPERTY, strlen(PROPERTY)) == 0 && strcmp(given + strlen(PROPERTY), name) == 0)
            value = config->properties[i].value;
    }
    return value;
}

static bool library_has_oidc(void)
{
    char text[ERROR_TEXT_BYTES];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    bool has_it = rd_kafka_conf_set(conf, PROPERTY "method", "oidc", text, sizeof text) == RD_KAFKA_CONF_OK;
    rd_kafka_conf_destroy(conf);
    return has_it;
}

bool kafka_token_is_ours(const struct kafka_config *config)
{
    const char *method = property_of(config, "method");
    return method && strcmp(method, "oidc") == 0 && !library_has_oidc();
}

bool kafka_token_takes(const struct kafka_config *config, const char *property)
{
    static const char *const ours[] = {"method", "client.id", "client.secret", "token.endpoint.url",
                                       "scope",  "extensions"};
    if (strncmp(property, PROPERTY, strlen(PROPERTY)) != 0)
        return false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strcmp(property + strlen(PROPERTY), ours[i]) == 0)
            return kafka_token_is_ours(config);
    }
    return false;
}

// Splits NAME=VALUE,... in place into names and values in turn. -1: it is not of that form.
static int split_extensions(char *text, const char *parts[2 * EXTENSIONS_MAX])
{
    int n = 0;
    char *rest;
    for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(one, '=');
        if (!equals || n == 2 * EXTENSIONS_MAX)
            return -1;
        *equals = '\0';
        parts[n++] = one;
        parts[n++] = equals + 1;
    }
    return n;
}

static enum status check_extensions(const char *extensions, struct error *error)
{
    const char *parts[2 * EXTENSIONS_MAX];
    char *copy = strdup(extensions);
    if (!copy)
        return error_memory(error, STATUS_REFUSE, PROPERTY "extensions");
    int n = split_extensions(copy, parts);
    free(copy);
    if (n >= 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "-X " PROPERTY "extensions: expected at most %d of NAME=VALUE, separated by commas",
                     EXTENSIONS_MAX);
}

enum status kafka_token_check(const struct kafka_config *config, struct error *error)
{
    static const char *const needed[] = {"client.id", "client.secret", "token.endpoint.url"};
    if (!kafka_token_is_ours(config))
        return STATUS_OK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *value = property_of(config, needed[i]);
        if (!value || !*value)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "-X " PROPERTY "method=oidc needs -X " PROPERTY "%s=...", needed[i]);
    }
    const char *url = property_of(config, "token.endpoint.url");
    if (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "-X " PROPERTY "token.endpoint.url: expected https:// or http://, got \"%s\"", url);
    const char *extensions = property_of(config, "extensions");
    return extensions ? check_extensions(extensions, error) : STATUS_OK;
}

// ---- the answer ----

// The claims of a JWT (RFC 7519). STATUS_REJECT: not a JWT.
static enum status read_claims(struct text token, struct arena *arena, struct value *claims,
                               struct error *error)
{
    const char *first = memchr(token.data, '.', token.size);
    size_t n_left = first ? token.size - (size_t)(first + 1 - token.data) : 0;
    const char *second = first ? memchr(first + 1, '.', n_left) : NULL;
    if (!second)
        return error_set(error, STATUS_REJECT, ERROR_BROKER, "not a JWT");
    struct buffer standard = {0}, bytes = {0};
    for (const char *at = first + 1; at < second; at++) // from base64url
        buffer_add_byte(&standard, *at == '-' ? '+' : *at == '_' ? '/' : *at);
    while (standard.size % 4 && !standard.failed)
        buffer_add_byte(&standard, '=');
    bool is_read = !standard.failed && base64_decode((struct text){standard.data, standard.size}, &bytes) &&
                   !bytes.failed;
    char *copy = is_read ? arena_copy(arena, bytes.data ? bytes.data : "", bytes.size) : NULL;
    enum status status = copy ? json_decode((struct text){copy, bytes.size}, arena, claims, error)
                              : error_set(error, STATUS_REJECT, ERROR_BROKER, "not a JWT");
    buffer_finish(&standard);
    buffer_finish(&bytes);
    return status;
}

static bool read_seconds(const struct value *object, const char *name, int64_t *seconds)
{
    const struct value *value = value_get(object, name);
    if (value && value->kind == VALUE_INTEGER)
        *seconds = value->integer;
    else if (value && value->kind == VALUE_FLOAT && value->number > 0 && value->number < 1e15)
        *seconds = (int64_t)value->number;
    else
        return false;
    return *seconds > 0 && *seconds < INT64_MAX / 1000 - 1000000000000;
}

enum status kafka_token_read(struct text body, int64_t now_ms, struct arena *arena, struct kafka_token *token,
                             struct error *error)
{
    struct value answer, claims;
    int64_t seconds = 0;
    *token = (struct kafka_token){0};
    enum status status = json_decode(body, arena, &answer, error);
    if (status != STATUS_OK)
        return status;
    const struct value *text = value_get(&answer, "access_token");
    if (!text || text->kind != VALUE_STRING || text->text.size == 0)
        return error_set(error, STATUS_REJECT, ERROR_BROKER, "the answer has no access_token");
    token->token = text->text;
    struct error none;
    bool has_claims = read_claims(token->token, arena, &claims, &none) == STATUS_OK;
    const struct value *subject = has_claims ? value_get(&claims, "sub") : NULL;
    if (subject && subject->kind == VALUE_STRING)
        token->principal = subject->text;
    if (has_claims && read_seconds(&claims, "exp", &seconds))
        token->expires_ms = seconds * 1000;
    else if (read_seconds(&answer, "expires_in", &seconds))
        token->expires_ms = now_ms + seconds * 1000;
    else
        return error_set(error, STATUS_REJECT, ERROR_BROKER,
                         "neither the token's exp nor the answer's expires_in says until when it is valid");
    return STATUS_OK;
}

// ---- fetching ----

// OAuth's error_description, or the body's beginning.
static void explain_refusal(struct text body, int http_status, struct error *error)
{
    struct arena arena = {0};
    struct value answer;
    struct error none;
    struct text said = body;
    if (json_decode(body, &arena, &answer, &none) == STATUS_OK) {
        const struct value *value = value_get(&answer, "error_description");
        value = value ? value : value_get(&answer, "error");
        said = value && value->kind == VALUE_STRING ? value->text : said;
    }
    size_t n = said.size < EXPLANATION_BYTES ? said.size : EXPLANATION_BYTES;
    (void)error_set(error, STATUS_RETRY, ERROR_BROKER, "status %d%s%.*s", http_status, n ? ": " : "", (int)n,
                    n ? said.data : "");
    utf8_make_printable(error->text);
    arena_finish(&arena);
}

static enum status post(const struct kafka_config *config, struct text form, struct buffer *body,
                        struct error *error)
{
    int http_status = 0;
    struct http_request request = {.url = property_of(config, "token.endpoint.url"),
                                   .user = property_of(config, "client.id"),
                                   .password = property_of(config, "client.secret"),
                                   .headers = {"Content-Type: application/x-www-form-urlencoded"},
                                   .body = form};
    enum status status = http_post(&request, &http_status, body, error);
    if (status == STATUS_OK && http_status != 200) {
        explain_refusal((struct text){body->data, body->size}, http_status, error);
        return error->status;
    }
    return status;
}

// application/x-www-form-urlencoded
static void add_escaped(struct buffer *form, const char *text)
{
    for (; *text; text++) {
        bool is_plain = (*text >= '0' && *text <= '9') || (*text >= 'A' && *text <= 'Z') ||
                        (*text >= 'a' && *text <= 'z') || strchr("-._~", *text);
        if (is_plain)
            buffer_add_byte(form, *text);
        else
            buffer_add_format(form, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

static enum status fetch(const struct kafka_config *config, struct buffer *body, struct error *error)
{
    struct buffer form = {0};
    const char *scope = property_of(config, "scope");
    buffer_add_string(&form, "grant_type=client_credentials");
    if (scope) {
        buffer_add_string(&form, "&scope=");
        add_escaped(&form, scope);
    }
    enum status status = form.failed ? error_memory(error, STATUS_RETRY, "a token")
                                     : post(config, (struct text){form.data, form.size}, body, error);
    buffer_finish(&form);
    return status;
}

static enum status set_token(const struct kafka_config *config, rd_kafka_t *rk,
                             const struct kafka_token *token, struct error *error)
{
    char text[ERROR_TEXT_BYTES];
    const char *given = property_of(config, "extensions"), *parts[2 * EXTENSIONS_MAX];
    char *extensions = strdup(given ? given : "");
    char *value = strndup(token->token.data, token->token.size);
    char *principal = token->principal.size ? strndup(token->principal.data, token->principal.size)
                                            : strdup(property_of(config, "client.id"));
    enum status status = STATUS_OK;
    if (!extensions || !value || !principal)
        status = error_memory(error, STATUS_RETRY, "a token");
    int n_parts = status == STATUS_OK ? split_extensions(extensions, parts) : 0;
    if (status == STATUS_OK &&
        rd_kafka_oauthbearer_set_token(rk, value, token->expires_ms, principal, parts, (size_t)n_parts, text,
                                       sizeof text) != RD_KAFKA_RESP_ERR_NO_ERROR)
        status = error_set(error, STATUS_RETRY, ERROR_BROKER, "%s", text);
    free(extensions);
    free(value);
    free(principal);
    return status;
}

static void refresh_token(rd_kafka_t *rk, const char *ignored, void *opaque)
{
    const struct kafka_config *config = ((struct kafka_handle *)opaque)->config;
    struct arena arena = {0};
    struct buffer body = {0};
    struct kafka_token token;
    struct error error;
    (void)ignored;
    enum status status = fetch(config, &body, &error);
    if (status == STATUS_OK)
        status = kafka_token_read((struct text){body.data, body.size}, clock_wall_us() / 1000, &arena, &token,
                                  &error);
    if (status == STATUS_OK)
        status = set_token(config, rk, &token, &error);
    if (status != STATUS_OK) {
        (void)error_prefix(&error, "no token from %s", property_of(config, "token.endpoint.url"));
        rd_kafka_oauthbearer_set_token_failure(rk, error.text);
    }
    buffer_finish(&body);
    arena_finish(&arena);
}

void kafka_token_prepare(const struct kafka_config *config, rd_kafka_conf_t *conf)
{
    if (!kafka_token_is_ours(config))
        return;
    rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, refresh_token);
    rd_kafka_conf_enable_sasl_queue(conf, 1);
}

void kafka_token_start(const struct kafka_config *config, rd_kafka_t *rk)
{
    if (!kafka_token_is_ours(config))
        return;
    rd_kafka_error_t *fault = rd_kafka_sasl_background_callbacks_enable(rk);
    if (fault) // without OAUTHBEARER in sasl.mechanisms nothing asks for a token
        rd_kafka_error_destroy(fault);
}
