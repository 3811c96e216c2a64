// The floor of a handshake: what accept4 and epoll_ctl cost a bare server for each connection, in CPU microseconds of its thread.
//
//   cc -O2 -o accepts accepts.c && ./accepts [CONNECTIONS]
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}
static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 10000, held = 0;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) return 2;
    getsockname(listener, (void *)&address, &length);
    pid_t client = fork();
    if (client == 0) {
        pin(1);
        struct linger reset = {1, 0};
        for (int i = 0; i < count; i++) {
            int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            setsockopt(s, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            if (s < 0 || connect(s, (void *)&address, sizeof address)) _exit(2);
        }
        pause();
        _exit(0);
    }
    pin(0);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0}, events[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    double began = cpu();
    while (held < count) {
        int ready = epoll_wait(poll, events, 64, 5000);
        if (ready <= 0) break;
        for (int s; (s = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0; held++) {
            event.data.u64 = (uint64_t)s;
            epoll_ctl(poll, EPOLL_CTL_ADD, s, &event);
        }
    }
    double took = cpu() - began;
    kill(client, SIGKILL);
    waitpid(client, NULL, 0);
    if (held < count) {
        fprintf(stderr, "only %d of %d connections came\n", held, count);
        return 2;
    }
    printf("%.3f\n", took / count);
    return 0;
}
