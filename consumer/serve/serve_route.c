#include "consumer/serve/serve_route.h"

#include "consumer/serve/answer_call.h"
#include "consumer/serve/answer_topics.h"
#include "consumer/serve/batch_call.h"
#include "consumer/serve/file_call.h"
#include "consumer/serve/model_call.h"

#include <string.h>

// A path has at most one variable part, the id between `before` and `after`.
struct route {
    const char *method, *before, *after; // after NULL: the path is `before`
    void (*answer)(struct call *call);   // without an id
    void (*answer_id)(struct call *call, struct text id);
};

static const struct route routes[] = {
    {"POST", "/v1/files", NULL, file_call_create, NULL},
    {"GET", "/v1/files", NULL, file_call_list, NULL},
    {"GET", "/v1/files/", "/content", NULL, file_call_content},
    {"GET", "/v1/files/", "", NULL, file_call_get},
    {"DELETE", "/v1/files/", "", NULL, file_call_remove},
    {"POST", "/v1/batches", NULL, batch_call_create, NULL},
    {"GET", "/v1/batches", NULL, batch_call_list, NULL},
    {"POST", "/v1/batches/", "/cancel", NULL, batch_call_cancel},
    {"GET", "/v1/batches/", "", NULL, batch_call_get},
    {"GET", "/v1/models", NULL, model_call_list, NULL},
    {"GET", "/v1/models/", "", NULL, model_call_get},
    {"POST", "/v1/chat/completions", NULL, answer_call, NULL},
    {"POST", "/v1/completions", NULL, answer_call, NULL},
    {"POST", "/v1/embeddings", NULL, answer_call, NULL},
    {"POST", "/v1/classify", NULL, answer_call, NULL},
    {"POST", "/classify", NULL, answer_call, NULL},
    {"POST", "/v1/rerank", NULL, answer_call, NULL},
    {"POST", "/v2/rerank", NULL, answer_call, NULL},
    {"POST", "/rerank", NULL, answer_call, NULL},
    {"POST", "/v1/score", NULL, answer_call, NULL},
    {"POST", "/score", NULL, answer_call, NULL},
};

bool serve_route_is_probe(const char *path)
{
    return strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
}

bool serve_route_is_upload(const char *method, const char *path)
{
    return strcmp(method, "POST") == 0 && strcmp(path, "/v1/files") == 0;
}

static bool matches_path(const struct route *route, const char *path, struct text *id)
{
    size_t size = strlen(path), n_before = strlen(route->before);
    *id = (struct text){0};
    if (!route->after)
        return strcmp(path, route->before) == 0;
    size_t n_after = strlen(route->after);
    if (size <= n_before + n_after || memcmp(path, route->before, n_before) != 0 ||
        memcmp(path + size - n_after, route->after, n_after) != 0)
        return false;
    *id = (struct text){path + n_before, size - n_before - n_after};
    return true;
}

static void probe_worker(struct call *call)
{
    struct http_answer answer = {.status = 200};
    serve_probe(call->serve, call->path, &answer);
    call->reply.status = answer.status;
    call->reply.body = answer.body;
}

static void answer_probe(struct call *call)
{
    call->reply.content_type = "text/plain; charset=utf-8";
    if (atomic_load(&call->serve->is_closing)) {
        call->reply.status = 503;
        buffer_add_string(&call->reply.body, "closing\n");
    } else if (call->serve->config.has_worker) {
        probe_worker(call);
    } else if (call->serve->answers && strcmp(call->path, "/readyz") == 0 &&
               !answer_topics_are_ready(call->serve->answers)) {
        call->reply.status = 503;
        buffer_add_string(&call->reply.body, "waiting for the results topic\n");
    } else {
        buffer_add_string(&call->reply.body, "ok\n");
    }
}

void serve_route_answer(struct call *call)
{
    bool is_path = false;
    bool is_get = strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0;
    if (serve_route_is_probe(call->path)) {
        answer_probe(call);
        return;
    }
    if (atomic_load(&call->serve->is_closing)) {
        reply_error(&call->reply, 503, "stopping", NULL, "The server is stopping.");
        return;
    }
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        struct text id;
        if (!matches_path(&routes[i], call->path, &id))
            continue;
        is_path = true;
        if (strcmp(routes[i].method, is_get ? "GET" : call->method) != 0)
            continue;
        if (routes[i].answer)
            routes[i].answer(call);
        else
            routes[i].answer_id(call, id);
        return;
    }
    if (is_path)
        reply_error(&call->reply, 405, "method_not_allowed", NULL, "Not allowed to %.16s on %s.",
                    call->method, call->path);
    else
        reply_error(&call->reply, 404, "unknown_url", NULL, "Invalid URL (%.16s %s)", call->method,
                    call->path);
}
