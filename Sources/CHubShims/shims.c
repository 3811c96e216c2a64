#include "CHubShims.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

int hub_pin_thread(int core) {
    if (core < 0 || core >= CPU_SETSIZE) return EINVAL;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void hub_name_thread(const char *name) {
    char short_name[16];
    strncpy(short_name, name, sizeof short_name - 1);
    short_name[sizeof short_name - 1] = 0;
    pthread_setname_np(pthread_self(), short_name);
}

void hub_ignore_sigpipe(void) { signal(SIGPIPE, SIG_IGN); }

int hub_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }

int hub_stream_socket(int domain) { return socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

static int set_on(int fd, int level, int option) {
    int on = 1;
    return setsockopt(fd, level, option, &on, sizeof on);
}

int hub_set_nodelay(int fd) { return set_on(fd, IPPROTO_TCP, TCP_NODELAY); }
int hub_set_reuse_address(int fd) { return set_on(fd, SOL_SOCKET, SO_REUSEADDR); }
int hub_set_reuse_port(int fd) { return set_on(fd, SOL_SOCKET, SO_REUSEPORT); }
int hub_set_late_port(int fd) { return set_on(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT); }
int hub_set_only_ipv6(int fd) { return set_on(fd, IPPROTO_IPV6, IPV6_V6ONLY); }

int hub_socket_error(int fd) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
    return error;
}

int hub_set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}
