/* An HTTP server for tests: a forked process on a port of 127.0.0.1 that answers one request after
 * another from a script, and records what it was asked in memory that both processes see. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <arpa/inet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct http_reply {
    int code;            /* status; 0: close without a word */
    const char *headers; /* further ones, each ended by \r\n; NULL none */
    const char *body;
    size_t fill;       /* bytes of 'x' sent after the body */
    size_t cut;        /* bytes announced but not sent */
    unsigned delay_ms; /* before the answer */
};

enum { HTTP_RECORDS = 8, HTTP_HEAD = 8 << 10, HTTP_BODY = 256 << 10 };

struct http_record {
    char head[HTTP_HEAD], body[HTTP_BODY];
};

struct http_server {
    pid_t pid;
    char url[64]; /* http://127.0.0.1:PORT/v1 */
    struct http_shared {
        unsigned count;
        struct http_record records[HTTP_RECORDS];
    } * shared;
};

static inline void http_send(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        size -= (size_t)n;
    }
}

/* The request's head and, by its Content-Length, its body. */
static inline void http_read(int fd, struct http_record *record)
{
    size_t used = 0, length = 0, body = 0;
    char *end = NULL;
    while (!end && used < HTTP_HEAD - 1) {
        ssize_t n = read(fd, record->head + used, HTTP_HEAD - 1 - used);
        if (n <= 0)
            return;
        used += (size_t)n;
        record->head[used] = 0;
        end = strstr(record->head, "\r\n\r\n");
    }
    if (!end)
        return;
    const char *field = strcasestr(record->head, "\r\nContent-Length:");
    length = field ? strtoul(field + 17, NULL, 10) : 0;
    body = used - (size_t)(end + 4 - record->head);
    memcpy(record->body, end + 4, body);
    end[2] = 0;
    while (body < length && body < HTTP_BODY - 1) {
        ssize_t n = read(fd, record->body + body, HTTP_BODY - 1 - body);
        if (n <= 0)
            return;
        body += (size_t)n;
    }
}

static inline void http_answer(int fd, const struct http_reply *reply)
{
    char head[1024];
    const char *body = reply->body ? reply->body : "";
    usleep(reply->delay_ms * 1000);
    if (!reply->code)
        return;
    snprintf(head, sizeof head,
             "HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: "
             "%zu\r\nConnection: close\r\n%s\r\n",
             reply->code, strlen(body) + reply->fill + reply->cut,
             reply->headers ? reply->headers : "");
    http_send(fd, head, strlen(head));
    http_send(fd, body, strlen(body));
    static char filler[65536];
    memset(filler, 'x', sizeof filler);
    for (size_t left = reply->fill; left;) {
        size_t part = left < sizeof filler ? left : sizeof filler;
        http_send(fd, filler, part);
        left -= part;
    }
}

/* False if no port could be had. Requests beyond the script are closed without an answer, but
 * recorded. */
static inline bool http_start(struct http_server *server, const struct http_reply *script,
                              unsigned count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    server->shared = mmap(NULL, sizeof *server->shared, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (listener < 0 || server->shared == MAP_FAILED ||
        bind(listener, (struct sockaddr *)&address, size) || listen(listener, 8) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        return false;
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u/v1", ntohs(address.sin_port));
    fflush(NULL);
    server->pid = fork();
    if (!server->pid) {
        alarm(120);
        for (unsigned i = 0; i < HTTP_RECORDS; i++) {
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd < 0)
                _exit(1);
            http_read(fd, &server->shared->records[i]);
            server->shared->count = i + 1;
            if (i < count)
                http_answer(fd, &script[i]);
            shutdown(fd, SHUT_WR);
            close(fd);
        }
        _exit(0);
    }
    close(listener);
    return server->pid > 0;
}

/* The records stay until http_free. */
static inline void http_stop(struct http_server *server)
{
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
}

static inline void http_free(struct http_server *server)
{
    munmap(server->shared, sizeof *server->shared);
}

#endif
