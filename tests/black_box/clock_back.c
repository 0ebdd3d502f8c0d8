/* A time of day for the tests, between a server and the system (LD_PRELOAD): while the file exists that CLOCK_BACK
 * names, it is an hour less. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char *back;

/* A server clears its environment when it has read that. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("CLOCK_BACK");
    back = text ? strdup(text) : NULL;
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME && back && access(back, F_OK) == 0)
        time->tv_sec -= 3600;
    return result;
}
