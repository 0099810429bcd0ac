// Tokens of SASL/OAUTHBEARER by OIDC (sasl.oauthbearer.method=oidc) where librdkafka is built without it, as
// Debian 12's is: the client credentials grant (RFC 6749, section 4.4) by libcurl, with librdkafka's
// properties sasl.oauthbearer.client.id, client.secret, token.endpoint.url, scope and extensions. A token is fetched at the start of each client, and again when
// librdkafka asks for it, at four fifths of its lifetime and 10 s after a failure.
// Thread: librdkafka's background thread of each client; the rest is called before the client exists.
#pragma once

#include "consumer/queue/kafka.h"
#include "schemas/base/text.h"

#include <librdkafka/rdkafka.h>

// Whether the settings ask for OIDC and librdkafka lacks it.
bool kafka_token_is_ours(const struct kafka_config *config);
// Whether the property is set for us, so that librdkafka is not to see it.
bool kafka_token_takes(const struct kafka_config *config, const char *property);
// STATUS_REFUSE: a property is missing or malformed.
enum status kafka_token_check(const struct kafka_config *config, struct error *error) WARN_UNUSED;
// Makes the client's configuration call us for tokens. `config` must live as long as the client.
void kafka_token_prepare(const struct kafka_config *config, rd_kafka_conf_t *conf);
// Lets the client's background thread call us.
void kafka_token_start(const struct kafka_config *config, rd_kafka_t *rk);

// The parts of an answer of the token endpoint.
struct kafka_token {
    struct text token;
    struct text principal; // the JWT's sub; empty: none
    int64_t expires_ms;    // since 1970 UTC
};

struct arena;
// `body`: the answer's JSON, received at `now_ms` (since 1970 UTC). The texts are in the arena.
enum status kafka_token_read(struct text body, int64_t now_ms, struct arena *arena, struct kafka_token *token,
                             struct error *error) WARN_UNUSED;
