#include "consumer/observe/http_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

bool http_host_is_local(const struct bound_address *bound, const char *header)
{
    char host[NI_MAXHOST];
    struct sockaddr_storage address = {0};
    if (!header)
        return true;
    bool is_v6 = header[0] == '[';
    size_t size = strcspn(header + is_v6, is_v6 ? "]" : ":");
    if (size >= sizeof host)
        return false;
    memcpy(host, header + is_v6, size);
    host[size] = '\0';
    if (!is_v6 && (strcasecmp(host, "localhost") == 0 || strcasecmp(host, bound->name) == 0))
        return true;
    void *bytes = is_v6 ? (void *)&((struct sockaddr_in6 *)&address)->sin6_addr
                        : (void *)&((struct sockaddr_in *)&address)->sin_addr;
    address.ss_family = is_v6 ? AF_INET6 : AF_INET;
    return inet_pton(address.ss_family, host, bytes) == 1 && is_loopback(&address);
}

bool http_origin_is_local(const struct bound_address *bound, const char *header)
{
    const char *slashes = header ? strstr(header, "://") : NULL;
    return !header || (slashes && http_host_is_local(bound, slashes + 3));
}

struct parts {
    char host[NI_MAXHOST], port[8];
};

static bool is_port(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 5 && atoi(text) <= 65535;
}

static bool split_address(const char *address, struct parts *parts)
{
    const char *colon = strrchr(address, ':');
    const char *port = colon ? colon + 1 : address;
    size_t size = colon ? (size_t)(colon - address) : 0;
    bool brackets = size >= 2 && address[0] == '[' && address[size - 1] == ']';
    if (!is_port(port) || (colon && size == 0) || size >= sizeof parts->host)
        return false;
    snprintf(parts->port, sizeof parts->port, "%s", port);
    if (!colon)
        strcpy(parts->host, "127.0.0.1");
    else
        snprintf(parts->host, sizeof parts->host, "%.*s", (int)size - 2 * brackets, address + brackets);
    return brackets || !strchr(parts->host, ':');
}

static void read_address(struct bound_address *bound, int file)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    if (getsockname(file, (struct sockaddr *)&address, &size) == 0) {
        bound->is_loopback = is_loopback(&address);
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    }
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(bound->text, sizeof bound->text, "%s%.1024s%s:%.10s", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
             port);
}

static enum status fail_bind(struct error *error, const char *option, const char *address, const char *why)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s %s: %s", option, address, why);
}

enum status http_address_bind(struct bound_address *bound, const char *option, const char *address,
                              int n_waiting_max, int *file, struct error *error)
{
    struct parts parts;
    *bound = (struct bound_address){0};
    *file = -1;
    if (!split_address(address, &parts))
        return fail_bind(error, option, address, "expected HOST:PORT, [HOST]:PORT or a port");
    snprintf(bound->name, sizeof bound->name, "%s", parts.host);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found = NULL;
    int code = getaddrinfo(parts.host, parts.port, &hints, &found);
    if (code != 0)
        return fail_bind(error, option, address, gai_strerror(code));
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    bool is_bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                    bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, n_waiting_max) == 0;
    int bind_error = errno;
    freeaddrinfo(found);
    if (is_bound) {
        *file = fd;
        read_address(bound, fd);
        return STATUS_OK;
    }
    if (fd >= 0)
        close(fd);
    return fail_bind(error, option, address, strerror(bind_error));
}
