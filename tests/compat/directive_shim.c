/* A system for the experiments with directives, between a server and the real one (LD_PRELOAD).
 *
 *   SHIM_LOG      a file that gets a line for each call: `sync NAME` for fsync, fdatasync and sync_file_range of a file,
 *                 `accept THREAD` for a connection, `wait THREAD` for a wait for events
 *   SHIM_FORWARD  while a file of this name exists, the time of day is an hour more
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char *log_name, *forward;

/* A server clears its environment when it has read that. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *log_text = getenv("SHIM_LOG"), *forward_text = getenv("SHIM_FORWARD");
    log_name = log_text ? strdup(log_text) : NULL;
    forward = forward_text ? strdup(forward_text) : NULL;
}

static void append(const char *line, int length)
{
    int out = log_name ? open(log_name, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (out >= 0) {
        if (write(out, line, length) != length)
            abort();
        close(out);
    }
}

static void log_thread(const char *call)
{
    char line[64];
    append(line, snprintf(line, sizeof line, "%s %ld\n", call, syscall(SYS_gettid)));
}

static void log_sync(int file)
{
    char link[64], name[4096], line[4224];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = 0;
    append(line, snprintf(line, sizeof line, "sync %s\n", name));
}

#define NEXT(call) dlsym(RTLD_NEXT, call)

int fsync(int file)
{
    log_sync(file);
    return ((int (*)(int))NEXT("fsync"))(file);
}

int fdatasync(int file)
{
    log_sync(file);
    return ((int (*)(int))NEXT("fdatasync"))(file);
}

int sync_file_range(int file, off64_t from, off64_t count, unsigned flags)
{
    log_sync(file);
    return ((int (*)(int, off64_t, off64_t, unsigned))NEXT("sync_file_range"))(file, from, count, flags);
}

int accept(int listener, struct sockaddr *address, socklen_t *length)
{
    int result = ((int (*)(int, struct sockaddr *, socklen_t *))NEXT("accept"))(listener, address, length);
    if (result >= 0)
        log_thread("accept");
    return result;
}

int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags)
{
    int result = ((int (*)(int, struct sockaddr *, socklen_t *, int))NEXT("accept4"))(listener, address, length, flags);
    if (result >= 0)
        log_thread("accept");
    return result;
}

int epoll_wait(int poll, struct epoll_event *events, int room, int timeout)
{
    log_thread("wait");
    return ((int (*)(int, struct epoll_event *, int, int))NEXT("epoll_wait"))(poll, events, room, timeout);
}

static long ahead(void)
{
    return forward && access(forward, F_OK) == 0 ? 3600 : 0;
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME)
        time->tv_sec += ahead();
    return result;
}

int gettimeofday(struct timeval *time, void *zone)
{
    int result = (int)syscall(SYS_gettimeofday, time, zone);
    if (result == 0)
        time->tv_sec += ahead();
    return result;
}

time_t time(time_t *place)
{
    time_t now = syscall(SYS_time, NULL) + ahead();
    if (place)
        *place = now;
    return now;
}
