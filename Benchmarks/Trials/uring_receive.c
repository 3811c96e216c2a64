// What it costs to take what many sockets have sent, by epoll and recv and by io_uring's multishot receive into provided buffers.
//
//   cc -O2 -o uring_receive uring_receive.c -luring && ./uring_receive [ROUNDS]
//
// A hub's pattern: 1,000 sockets, each of which sends 130 bytes now and then, and a loop that waits for any of them. Three ways it comes: one
// message every 100 µs; 100 sockets ready at once; all of them. The ways take turns in each round. Told are the CPU time of the receiving
// thread for each message, all of it, waiting and waking up included; that of the sending one, which over loopback does the work of a network
// card's interrupt; and system calls. Everything is answered for by the kernel's accounts: instructions too, where the processor counts them.
//
// "epoll, busy poll" is the first way with SO_BUSY_POLL and SO_PREFER_BUSY_POLL at each socket and the epoll instance's own setting.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { sockets = 1000, size = 130, eventsMax = 512, buffers = 1024, bufferBytes = 2048, roundsMax = 101, busyMicroseconds = 50 };
enum way { byEpoll, byBusyPoll, byRing, ways };
static const char *const wayNames[] = {"epoll and recv", "epoll, busy poll", "io_uring, multishot"};
// How many are ready at once, and how often that happens in a round.
static const struct pattern { const char *name; int burst, times; } patterns[] = {
    {"one at a time, every 100 µs", 1, 4000}, {"100 ready at once", 100, 200}, {"all 1,000 ready at once", 1000, 30}};
enum { patternCount = 3 };

struct result { double receiver, sender, calls, instructions; };
// What a round found: by the process that sends, and by the one that receives.
static struct { double sender, receiver, instructions; } *spent;
static int go, done, instructionsCounter = -1;
static uint64_t calls, checksum;

static void die(const char *what) { perror(what); exit(2); }
// Said once, however many rounds ask.
static void say(const char *format, ...) {
    static char said[16][160];
    static int count;
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (int i = 0; i < count; i++) if (!strcmp(said[i], line)) return;
    if (count < 16) strcpy(said[count++], line);
    puts(line);
    fflush(stdout);
}
static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}
static double instructions(void) {
    uint64_t count = 0;
    return instructionsCounter >= 0 && read(instructionsCounter, &count, 8) == 8 ? (double)count : 0;
}
static void countInstructions(void) {
    struct perf_event_attr wanted = {.type = PERF_TYPE_HARDWARE, .size = sizeof wanted, .config = PERF_COUNT_HW_INSTRUCTIONS};
    instructionsCounter = (int)syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0);
    if (instructionsCounter < 0) say("instructions aren't counted here: perf_event_open says: %s", strerror(errno));
}

// ---- The sender: a process of its own on the other core.

static void send_all(int *ends, const struct pattern *pattern) {
    static char message[size];
    uint64_t word = 1;
    pin(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(done, &word, 8) != 8) die("read"); // the receiver is ready
    double before = cpu();
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int turn = 0, place = 0; turn < pattern->times; turn++) {
        if (pattern->burst == 1) {
            next.tv_nsec += 100000;
            if (next.tv_nsec >= 1000000000) next.tv_nsec -= 1000000000, next.tv_sec++;
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
        }
        // 617 and 1,000 have no common divisor: no socket comes twice before all have come.
        for (int i = 0; i < pattern->burst; i++, place = (place + 617) % sockets)
            if (send(ends[place], message, size, MSG_NOSIGNAL) != size) die("send");
        if (pattern->burst > 1 && (write(go, &word, 8) != 8 || read(done, &word, 8) != 8)) die("eventfd");
    }
    spent->sender = cpu() - before;
    if (read(done, &word, 8) != 8) die("read"); // all has been received: a process that ends resets its sockets
    _exit(0);
}

// ---- The receiver.

// What a hub does at least with what came: it reads every byte once.
static int consume(const char *bytes, int count) {
    uint64_t sum = 0, word;
    for (int at = 0; at + 8 <= count; at += 8) memcpy(&word, bytes + at, 8), sum += word;
    checksum += sum;
    return count;
}
static void await_burst(const struct pattern *pattern) {
    uint64_t word;
    if (pattern->burst > 1 && read(go, &word, 8) != 8) die("read");
}
static void tell_sender(void) {
    uint64_t word = 1;
    if (write(done, &word, 8) != 8) die("write");
}
static void burst_done(const struct pattern *pattern) {
    if (pattern->burst > 1) tell_sender();
}

static void poll_busily(int epoll, int *ends) {
    int usecs = busyMicroseconds, yes = 1;
    for (int i = 0; i < sockets; i++) {
        if (setsockopt(ends[i], SOL_SOCKET, SO_BUSY_POLL, &usecs, sizeof usecs)) say("SO_BUSY_POLL: %s", strerror(errno));
        if (setsockopt(ends[i], SOL_SOCKET, 69 /* SO_PREFER_BUSY_POLL */, &yes, sizeof yes)) say("SO_PREFER_BUSY_POLL: %s", strerror(errno));
    }
    struct { uint32_t usecs; uint16_t budget; uint8_t prefer, pad; } settings = {busyMicroseconds, 64, 1, 0};
    if (ioctl(epoll, _IOW(0x8A, 1, settings), &settings)) say("the epoll instance's busy polling (EPIOCSPARAMS): %s", strerror(errno));
    else say("SO_BUSY_POLL, SO_PREFER_BUSY_POLL and EPIOCSPARAMS are taken: %d µs", busyMicroseconds);
}
static void receive_by_epoll(int *ends, const struct pattern *pattern, int isBusy) {
    static char scratch[1 << 16];
    static struct epoll_event events[eventsMax];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < sockets; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[i]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, ends[i], &event)) die("epoll_ctl");
    }
    if (isBusy) poll_busily(epoll, ends);
    tell_sender(); // it may begin
    double before = cpu(), counted = instructions();
    calls = 0;
    long want = (long)pattern->burst * size;
    for (int turn = 0; turn < (pattern->burst > 1 ? pattern->times : 1); turn++) {
        long got = 0, all = pattern->burst > 1 ? want : want * pattern->times;
        await_burst(pattern);
        while (got < all) {
            int count = epoll_wait(epoll, events, eventsMax, -1);
            calls++;
            for (int i = 0; i < count; i++) {
                // What comes up short is all there is, so one call takes one message.
                ssize_t n = recv(events[i].data.fd, scratch, sizeof scratch, MSG_DONTWAIT);
                calls++;
                if (n > 0) got += consume(scratch, (int)n);
                else if (n == 0 || errno != EAGAIN) die("recv");
            }
        }
        burst_done(pattern);
    }
    spent->receiver = cpu() - before;
    spent->instructions = instructions() - counted;
    if (isBusy) {
        int queue = 0;
        socklen_t length = sizeof queue;
        getsockopt(ends[0], SOL_SOCKET, SO_INCOMING_NAPI_ID, &queue, &length);
        say("SO_INCOMING_NAPI_ID of a loopback socket that has received: %d (0: no queue of a card that could be polled)", queue);
    }
    close(epoll);
}

// False when there is no io_uring to be had.
static int receive_by_ring(int *ends, const struct pattern *pattern) {
    struct io_uring ring;
    // The kernel's side of a message is worked off when the loop asks for it, and by no interruption before.
    struct io_uring_params wanted = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE, .cq_entries = 4096};
    int result = io_uring_queue_init_params(1024, &ring, &wanted);
    if (result < 0) return say("io_uring_setup: %s", strerror(-result)), 0;
    size_t bytes = buffers * sizeof(struct io_uring_buf);
    struct io_uring_buf_ring *provided = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct io_uring_buf_reg asked = {.ring_addr = (uintptr_t)provided, .ring_entries = buffers, .bgid = 1};
    result = io_uring_register_buf_ring(&ring, &asked, 0);
    if (result < 0) return say("io_uring_register (ring of buffers): %s", strerror(-result)), 0;
    static char memory[buffers][bufferBytes];
    int mask = io_uring_buf_ring_mask(buffers);
    io_uring_buf_ring_init(provided);
    for (int i = 0; i < buffers; i++) io_uring_buf_ring_add(provided, memory[i], bufferBytes, (unsigned short)i, mask, i);
    io_uring_buf_ring_advance(provided, buffers);
    for (int i = 0; i < sockets; i++) {
        struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
        io_uring_prep_recv_multishot(entry, ends[i], 0, 0, 0);
        entry->flags |= IOSQE_BUFFER_SELECT;
        entry->buf_group = 1;
        entry->user_data = (uint64_t)i;
    }
    io_uring_submit(&ring);
    tell_sender();
    double before = cpu(), counted = instructions();
    calls = 0;
    long want = (long)pattern->burst * size, armed = 0;
    for (int turn = 0; turn < (pattern->burst > 1 ? pattern->times : 1); turn++) {
        long got = 0, all = pattern->burst > 1 ? want : want * pattern->times;
        await_burst(pattern);
        while (got < all) {
            result = io_uring_submit_and_wait(&ring, 1);
            calls++;
            if (result < 0 && result != -EINTR) return say("io_uring_enter: %s", strerror(-result)), 0;
            struct io_uring_cqe *cqe;
            unsigned head, count = 0;
            int returned = 0;
            io_uring_for_each_cqe(&ring, head, cqe) {
                count++;
                if (cqe->res > 0) {
                    int number = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
                    got += consume(memory[number], cqe->res);
                    io_uring_buf_ring_add(provided, memory[number], bufferBytes, (unsigned short)number, mask, returned++);
                } else if (cqe->res != -ENOBUFS) {
                    return say("multishot receive: %s", cqe->res ? strerror(-cqe->res) : "the end"), 0;
                }
                if (cqe->flags & IORING_CQE_F_MORE) continue;
                struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
                if (!entry) die("no room to ask again");
                io_uring_prep_recv_multishot(entry, ends[cqe->user_data], 0, 0, 0);
                entry->flags |= IOSQE_BUFFER_SELECT;
                entry->buf_group = 1;
                entry->user_data = cqe->user_data;
                armed++;
            }
            io_uring_buf_ring_advance(provided, returned);
            io_uring_cq_advance(&ring, count);
        }
        burst_done(pattern);
    }
    spent->receiver = cpu() - before;
    spent->instructions = instructions() - counted;
    if (armed > 0) say("multishot receives that ended and were asked for again in some round: %ld", armed);
    io_uring_queue_exit(&ring);
    munmap(provided, bytes);
    return 1;
}

static int listening(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)address, length) || listen(listener, 4096)) die("listen");
    getsockname(listener, (void *)address, &length);
    return listener;
}
// One pattern in one way, on sockets of its own. False when it can't be had.
static int measure(enum way way, const struct pattern *pattern, struct result *result) {
    static int ends[sockets];
    struct sockaddr_in address;
    int listener = listening(&address);
    go = eventfd(0, EFD_CLOEXEC);
    done = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    pid_t sender = fork();
    if (!sender) {
        for (int i = 0; i < sockets; i++) {
            int yes = 1;
            struct linger hard = {1, 0};
            ends[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            setsockopt(ends[i], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
            if (connect(ends[i], (void *)&address, sizeof address)) die("connect");
        }
        send_all(ends, pattern);
    }
    // In the order of connecting, so `ends[i]` is the other end of the sender's.
    for (int i = 0; i < sockets; i++)
        if ((ends[i] = accept4(listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0) die("accept");
    close(listener);
    int isThere = 1, status;
    if (way == byRing) isThere = receive_by_ring(ends, pattern);
    else receive_by_epoll(ends, pattern, way == byBusyPoll);
    if (isThere) tell_sender();
    else kill(sender, SIGKILL);
    waitpid(sender, &status, 0);
    for (int i = 0; i < sockets; i++) close(ends[i]);
    close(go);
    close(done);
    double messages = (double)pattern->burst * pattern->times;
    *result = (struct result){
        spent->receiver / messages, spent->sender / messages, (double)calls / messages, spent->instructions / messages};
    return isThere;
}

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }
static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    static struct result results[patternCount][ways][roundsMax];
    int isThere[ways] = {1, 1, 1};
    if (rounds < 1 || rounds > roundsMax) return fprintf(stderr, "uring_receive: 1 to %d rounds\n", roundsMax), 2;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    spent = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    countInstructions();
    pin(0);
    for (int round = 0; round < rounds; round++)
        for (int p = 0; p < patternCount; p++)
            for (int w = 0; w < ways; w++) {
                // Each round another one begins.
                enum way way = (enum way)((w + round) % ways);
                if (isThere[way]) isThere[way] = measure(way, &patterns[p], &results[p][way][round]);
            }
    printf("\nCPU ns for each message of %d bytes, %d sockets, medians of %d rounds\n", size, sockets, rounds);
    for (int p = 0; p < patternCount; p++) {
        printf("\n%s\n  %-20s %9s %17s %8s %8s %7s %13s\n", patterns[p].name, "", "receiver", "(spread)", "× epoll", "sender", "calls", "instructions");
        for (int way = 0; way < ways; way++) {
            if (!isThere[way]) { printf("  %-20s not to be had here\n", wayNames[way]); continue; }
            double values[5][roundsMax];
            for (int round = 0; round < rounds; round++) {
                struct result *one = &results[p][way][round];
                double figures[5] = {
                    one->receiver, one->receiver / results[p][byEpoll][round].receiver, one->sender, one->calls, one->instructions};
                for (int f = 0; f < 5; f++) values[f][round] = figures[f];
            }
            double m[5];
            for (int f = 0; f < 5; f++) m[f] = median(values[f], rounds);
            printf("  %-20s %9.0f %8.0f to %5.0f %8.2f %8.0f %7.2f", wayNames[way], m[0], values[0][0], values[0][rounds - 1], m[1], m[2], m[3]);
            if (instructionsCounter >= 0) printf(" %13.0f\n", m[4]); else printf(" %13s\n", "–");
        }
    }
    return checksum == 1; // So that what was read can't be left out.
}
