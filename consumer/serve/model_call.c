#include "consumer/serve/model_call.h"

#include "consumer/options/options.h"

struct listing {
    struct buffer *out;
    struct text wanted; // size 0: all
    int n;
};

static void add_model(void *context, struct text model, int64_t started_at_us)
{
    struct listing *listing = context;
    if (listing->wanted.size && !text_equal(listing->wanted, model))
        return;
    buffer_add_string(listing->out, listing->n++ ? ",{" : "{");
    add_text(listing->out, "id", model);
    buffer_add_format(listing->out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"sheaf\"}",
                      (long long)(started_at_us / 1000000));
}

// Over Kafka no store has the names of the workers and their adapters: --model-name gives them.
static void add_given_models(struct call *call, struct listing *listing)
{
    const struct settings *settings = call->serve->config.kafka;
    for (char **name = settings ? settings->model.names : NULL; name && *name; name++)
        add_model(listing, text_from_string(*name), call->serve->started_at_us);
}

// False: the reply says why.
static bool list_models(struct call *call, struct listing *listing)
{
    struct error error;
    int64_t n_alive;
    enum status status = store_models(serve_lock(call->serve), add_model, listing, &n_alive, &error);
    serve_unlock(call->serve);
    if (status != STATUS_OK)
        reply_fault(&call->reply, &error);
    else
        add_given_models(call, listing);
    return status == STATUS_OK;
}

void model_call_list(struct call *call)
{
    struct listing listing = {.out = &call->reply.body};
    buffer_add_string(listing.out, "{\"object\":\"list\",\"data\":[");
    if (list_models(call, &listing))
        buffer_add_string(listing.out, "]}");
}

void model_call_get(struct call *call, struct text name)
{
    struct listing listing = {.out = &call->reply.body, .wanted = name};
    if (list_models(call, &listing) && listing.n == 0)
        reply_error(&call->reply, 404, "model_not_found", "model", "The model '%.*s' does not exist",
                    (int)name.size, name.data);
}
