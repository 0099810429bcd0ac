#include "consumer/queue/http_post.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

enum { CONNECT_TIMEOUT_MS = 5000, ANSWER_TIMEOUT_MS = 10000 };

// The functions of libcurl that are used, by its own declarations.
static struct {
    pthread_once_t once;
    bool is_loaded;
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_easy_init) *easy_init;
    __typeof__(curl_easy_cleanup) *easy_cleanup;
    __typeof__(curl_easy_perform) *easy_perform;
    __typeof__(curl_slist_append) *slist_append;
    __typeof__(curl_slist_free_all) *slist_free_all;
    __typeof__(curl_easy_strerror) *easy_strerror;
    CURLcode (*setopt)(CURL *, CURLoption, ...); // macros in its header check their types
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
} curl = {.once = PTHREAD_ONCE_INIT};

static void load_curl(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"curl_global_init", &curl.global_init},       {"curl_easy_init", &curl.easy_init},
        {"curl_easy_cleanup", &curl.easy_cleanup},     {"curl_easy_perform", &curl.easy_perform},
        {"curl_slist_append", &curl.slist_append},     {"curl_easy_strerror", &curl.easy_strerror},
        {"curl_slist_free_all", &curl.slist_free_all}, {"curl_easy_setopt", &curl.setopt},
        {"curl_easy_getinfo", &curl.getinfo}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return;
        memcpy(functions[i].place, &function, sizeof function);
    }
    curl.is_loaded = curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static size_t take_bytes(char *bytes, size_t size, size_t n, void *context)
{
    struct buffer *body = context;
    if (body->size + size * n > HTTP_ANSWER_BYTES_MAX)
        return 0; // ends the transfer
    buffer_add(body, bytes, size * n);
    return body->failed ? 0 : size * n;
}

static void set_options(CURL *easy, const struct http_request *request, struct curl_slist *headers,
                        struct buffer *answer)
{
    curl.setopt(easy, CURLOPT_URL, request->url);
    curl.setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl.setopt(easy, CURLOPT_TIMEOUT_MS, (long)ANSWER_TIMEOUT_MS);
    if (request->user) {
        curl.setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        curl.setopt(easy, CURLOPT_USERNAME, request->user);
        curl.setopt(easy, CURLOPT_PASSWORD, request->password);
    }
    curl.setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl.setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
    curl.setopt(easy, CURLOPT_POSTFIELDS, request->body.data);
    curl.setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl.setopt(easy, CURLOPT_WRITEDATA, answer);
}

static enum status perform(CURL *easy, int *http_status, struct error *error)
{
    CURLcode code = curl.easy_perform(easy);
    long number = 0;
    curl.getinfo(easy, CURLINFO_RESPONSE_CODE, &number);
    *http_status = (int)number;
    return code == CURLE_OK ? STATUS_OK
                            : error_set(error, STATUS_RETRY, ERROR_BROKER, "%s", curl.easy_strerror(code));
}

enum status http_post(const struct http_request *request, int *http_status, struct buffer *answer,
                      struct error *error)
{
    *http_status = 0;
    pthread_once(&curl.once, load_curl);
    if (!curl.is_loaded)
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "libcurl.so.4 is missing (apt install libcurl4)");
    CURL *easy = curl.easy_init();
    struct curl_slist *headers = NULL;
    bool is_complete = easy != NULL;
    for (int i = 0; is_complete && i < HTTP_HEADERS_MAX && request->headers[i]; i++) {
        struct curl_slist *longer = curl.slist_append(headers, request->headers[i]);
        is_complete = longer != NULL;
        headers = longer ? longer : headers;
    }
    enum status status = STATUS_OK;
    if (!is_complete)
        status = error_memory(error, STATUS_RETRY, "an HTTP request");
    if (status == STATUS_OK) {
        set_options(easy, request, headers, answer);
        status = perform(easy, http_status, error);
    }
    curl.slist_free_all(headers);
    if (easy)
        curl.easy_cleanup(easy);
    return status;
}
