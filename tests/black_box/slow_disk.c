/* A disk for the tests, between a server and the system (LD_PRELOAD). It knows the files of changes (*.incr.aof), and
 * those without a name for what does not stay in memory (*-scratch.rdb).
 *
 *   SLOW_DISK_DELAY    milliseconds that a sync takes
 *   SLOW_DISK_HOLD     while a file of this name exists, no sync ends, and no write of what does not stay in memory
 *   SLOW_DISK_FULL     while a file of this name exists, there is no room for that
 *   SLOW_DISK_LOG      a file that gets a line for each sync that has ended: the bytes that were in the file when the
 *                      sync began, and the file's name; all of these a crash of the machine would leave
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long delay;
static char *hold, *full, *log_name;

/* A server clears its environment when it has read that. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *delay_text = getenv("SLOW_DISK_DELAY"), *hold_text = getenv("SLOW_DISK_HOLD");
    const char *log_text = getenv("SLOW_DISK_LOG"), *full_text = getenv("SLOW_DISK_FULL");
    delay = delay_text ? atol(delay_text) : 0;
    hold = hold_text ? strdup(hold_text) : NULL;
    full = full_text ? strdup(full_text) : NULL;
    log_name = log_text ? strdup(log_text) : NULL;
}

static void sleep_for(long milliseconds)
{
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* The name of a file of changes; 0: it is none. */
static int name_of(int file, char *name, size_t room)
{
    static const char ending[] = ".incr.aof";
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, room - 1);
    if (length < (ssize_t)sizeof ending)
        return 0;
    name[length] = 0;
    return strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

static int sync_with(const char *call, int file)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, call);
    char name[4096], line[4224];
    struct stat before;
    if (!name_of(file, name, sizeof name) || fstat(file, &before) != 0)
        return next(file);
    sleep_for(delay);
    while (hold && access(hold, F_OK) == 0)
        sleep_for(1);
    int result = next(file);
    int out = result == 0 && log_name ? open(log_name, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (out >= 0) {
        int length = snprintf(line, sizeof line, "%lld %s\n", (long long)before.st_size, name);
        if (write(out, line, length) != length)
            abort();
        close(out);
    }
    return result;
}

static ssize_t write_with(const char *call, int file, const void *bytes, size_t count, off64_t at)
{
    ssize_t (*next)(int, const void *, size_t, off64_t) =
        (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, call);
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = 0;
    if (strstr(name, "-scratch.rdb")) {
        while (hold && access(hold, F_OK) == 0)
            sleep_for(1);
        if (full && access(full, F_OK) == 0) {
            errno = ENOSPC;
            return -1;
        }
    }
    return next(file, bytes, count, at);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at)
{
    return write_with("pwrite", file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    return write_with("pwrite64", file, bytes, count, at);
}

int fsync(int file)
{
    return sync_with("fsync", file);
}

int fdatasync(int file)
{
    return sync_with("fdatasync", file);
}
