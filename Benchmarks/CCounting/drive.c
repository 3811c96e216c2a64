#define _GNU_SOURCE
#include "CCounting.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { patience = 10000 };

static int readable(int socket, int milliseconds) {
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    return poll(&wait, 1, milliseconds) == 1;
}

int hub_drive_open(int port, const char *target) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char buffer[2048];
    if (s < 0) return -1;
    if (connect(s, (struct sockaddr *)&address, sizeof address)) goto failed;
    int length = snprintf(
        buffer, sizeof buffer,
        "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        target);
    if (send(s, buffer, (size_t)length, MSG_NOSIGNAL) != length) goto failed;
    if (hub_drive_expect(s, "\"welcome\"", 1)) goto failed;
    return s;
failed:
    close(s);
    return -1;
}

int hub_drive_send(int socket, const char *text) {
    unsigned char frame[8192];
    size_t length = strlen(text), head = length < 126 ? 2 : 4;
    if (length > 8000) return -1;
    frame[0] = 0x81;
    frame[1] = (unsigned char)(0x80 | (length < 126 ? length : 126));
    if (head == 4) {
        frame[2] = (unsigned char)(length >> 8);
        frame[3] = (unsigned char)length;
    }
    memset(frame + head, 0, 4); // a masking key of zeros masks nothing
    memcpy(frame + head + 4, text, length);
    return send(socket, frame, head + 4 + length, MSG_NOSIGNAL) == (ssize_t)(head + 4 + length) ? 0 : -1;
}

int hub_drive_expect(int socket, const char *marker, int times) {
    char buffer[4096];
    size_t held = 0, length = strlen(marker);
    while (times > 0) {
        if (!readable(socket, patience)) return -1;
        ssize_t got = recv(socket, buffer + held, sizeof buffer - held, 0);
        if (got <= 0) return -1;
        held += (size_t)got;
        char *found;
        while (times > 0 && (found = memmem(buffer, held, marker, length))) {
            size_t used = (size_t)(found - buffer) + length;
            memmove(buffer, buffer + used, held - used);
            held -= used;
            times--;
        }
        if (held == sizeof buffer) { // keep what may be the marker's beginning
            memmove(buffer, buffer + held - length, length);
            held = length;
        }
    }
    return 0;
}

int hub_drive_expect_each(const int *sockets, int count, const char *marker, int times) {
    for (int i = 0; i < count; i++) {
        if (hub_drive_expect(sockets[i], marker, times)) return -1;
    }
    return 0;
}

int hub_drive_rounds(int publisher, const char *text, const int *sockets, int count, size_t bytes, int rounds) {
    static char sink[65536];
    for (int round = 0; round < rounds; round++) {
        if (hub_drive_send(publisher, text)) return -1;
        for (int i = 0; i < count; i++) {
            size_t left = bytes;
            while (left > 0) {
                if (!readable(sockets[i], patience)) return -1;
                ssize_t got = recv(sockets[i], sink, left < sizeof sink ? left : sizeof sink, 0);
                if (got <= 0) return -1;
                left -= (size_t)got;
            }
        }
    }
    return 0;
}

long hub_drive_measure(int publisher, const char *text, int socket) {
    static char sink[65536];
    long bytes = 0;
    if (hub_drive_send(publisher, text)) return -1;
    while (readable(socket, bytes ? 200 : patience)) {
        ssize_t got = recv(socket, sink, sizeof sink, 0);
        if (got <= 0) return -1;
        bytes += got;
    }
    return bytes;
}
