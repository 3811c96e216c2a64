#include "CHubShims.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <netinet/in.h>
// The kernel's own: the C library's tcp_info ends before tcpi_bytes_acked. The two headers can't be in one file.
#include <linux/sockios.h>
#include <linux/tcp.h>

int hub_unacked_bytes(int fd) {
    int count = 0;
    return ioctl(fd, SIOCOUTQ, &count) == 0 ? count : 0;
}

unsigned long long hub_acked_bytes(int fd) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info.tcpi_bytes_acked : 0;
}

long long hub_acked_milliseconds_ago(int fd) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? (long long)info.tcpi_last_ack_recv : -1;
}
