/* A time of day for the tests, between a server and the system (LD_PRELOAD): while the file exists that CLOCK_BACK
 * names, it is an hour less, and while that exists that CLOCK_FORWARD names, it is an hour more. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char *back, *forward;

static char *copy_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strdup(text) : NULL;
}

/* A server clears its environment when it has read that. */
__attribute__((constructor)) static void read_environment(void)
{
    back = copy_of("CLOCK_BACK");
    forward = copy_of("CLOCK_FORWARD");
}

static int is_there(const char *file)
{
    return file && access(file, F_OK) == 0;
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME)
        time->tv_sec += 3600 * (is_there(forward) - is_there(back));
    return result;
}
