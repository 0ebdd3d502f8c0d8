// Functions that storms.py puts before those of a server's C library: another time of day, and a disk that is slow. Both numbers lie in a file that the
// storm writes at any time: microseconds that the clock is ahead, and those that each write to a file takes longer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const long long nothing[2];
static volatile const long long *control = nothing;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("STORM_CONTROL");
    int file = path ? open(path, O_RDONLY) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof nothing, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) control = mapped;
    if (file >= 0) close(file);
}

#define REAL(name) ({ static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(clock_gettime)(clock, now);
    long long ahead = control[0];
    if (result == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long micros = now->tv_nsec / 1000 + ahead % 1000000;
        now->tv_sec += ahead / 1000000 + (micros >= 1000000) - (micros < 0);
        micros += micros < 0 ? 1000000 : micros >= 1000000 ? -1000000 : 0;
        now->tv_nsec = micros * 1000 + now->tv_nsec % 1000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now) *now = time.tv_sec;
    return time.tv_sec;
}

static void rest(int file) {
    struct stat status;
    long long micros = control[1];
    if (micros && fstat(file, &status) == 0 && S_ISREG(status.st_mode)) usleep(micros);
}

ssize_t write(int file, const void *data, size_t length) { rest(file); return REAL(write)(file, data, length); }
ssize_t writev(int file, const struct iovec *parts, int count) { rest(file); return REAL(writev)(file, parts, count); }
ssize_t pwrite(int file, const void *data, size_t length, off_t at) { rest(file); return REAL(pwrite)(file, data, length, at); }
ssize_t pwrite64(int file, const void *data, size_t length, off64_t at) { rest(file); return REAL(pwrite64)(file, data, length, at); }
int fsync(int file) { rest(file); return REAL(fsync)(file); }
int fdatasync(int file) { rest(file); return REAL(fdatasync)(file); }
