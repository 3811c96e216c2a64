// What Swift can't call by itself: macros, variadic functions, inline functions, GNU extensions that its view of glibc
// hides. Each says why it's here.
#ifndef HUB_SHIMS_H
#define HUB_SHIMS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>    // not part of Swift's Glibc module on every toolchain
#include <sys/eventfd.h>
#include <sys/socket.h>

// Runs the calling thread on one core only. The CPU_SET family are macros. Returns 0 or an error number.
int hub_pin_thread(int core);

// Names the calling thread, at most 15 bytes. pthread_setname_np is a GNU extension.
void hub_name_thread(const char *name);

// Ignores SIGPIPE in this process; first thing in every main. SIG_IGN is a macro with a cast.
void hub_ignore_sigpipe(void);

// accept4 with SOCK_NONBLOCK and SOCK_CLOEXEC: a GNU extension.
int hub_accept(int listener);

// socket() with SOCK_NONBLOCK and SOCK_CLOEXEC, which Swift sees as an enum in one toolchain and as integers in another.
int hub_stream_socket(int domain);

// setsockopt with an int: SOL_TCP, SO_REUSEPORT and IP_BIND_ADDRESS_NO_PORT are macros that aren't all imported.
int hub_set_nodelay(int fd);
int hub_set_reuse_address(int fd);
int hub_set_reuse_port(int fd);
int hub_set_late_port(int fd);
int hub_set_only_ipv6(int fd);

// The pending error of a socket (SO_ERROR), or the error of asking for it.
int hub_socket_error(int fd);

// fcntl is variadic.
int hub_set_nonblocking(int fd);

/// Bytes that were sent and that the peer hasn't acknowledged yet (tcp(7), SIOCOUTQ: a macro).
int hub_unacked_bytes(int fd);
/// Bytes that the peer has acknowledged so far (TCP_INFO: its header and the C library's exclude each other).
unsigned long long hub_acked_bytes(int fd);
/// Milliseconds since the peer's last acknowledgement (TCP_INFO); -1: the socket isn't TCP.
long long hub_acked_milliseconds_ago(int fd);

#endif
