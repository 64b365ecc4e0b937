/* A file that refuses a writer who came too late. Each grant of the mutex has a greater token than the one before; the file
 * remembers the greatest that it has seen, in FILE.token, and takes nothing that comes with a smaller one. Under `flock` the two
 * are one step for the processes of this machine.   usage: fenced_writer [URL] */
#include <fcntl.h>
#include <inttypes.h>
#include <simba.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

typedef enum outcome { WRITTEN, REFUSED, FAILED } outcome;

/* The token that was seen last; 0 if there was none. */
static bool read_token(int fd, uint64_t *ret_token)
{
    char text[24];
    const ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length < 0)
        return false;
    text[length] = '\0';
    *ret_token = strtoull(text, NULL, 10);
    return true;
}

/* Write the token to the disk before the data: after a crash in between, the file refuses too much, never too little.
 * Always twenty digits, so that a shorter number leaves nothing of a longer one behind. */
static bool write_token(int fd, uint64_t token)
{
    char text[24];
    const int length = snprintf(text, sizeof text, "%020" PRIu64 "\n", token);
    return pwrite(fd, text, (size_t)length, 0) == length && fsync(fd) == 0;
}

static bool replace(const char *path, const char *body)
{
    char new_path[256];
    snprintf(new_path, sizeof new_path, "%s.new", path);
    FILE *file = fopen(new_path, "we");
    if (!file)
        return false;
    const bool written = fputs(body, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    return fclose(file) == 0 && written && rename(new_path, path) == 0;
}

static outcome write_fenced(const char *path, const char *body, uint64_t token)
{
    char token_path[256];
    uint64_t seen;
    snprintf(token_path, sizeof token_path, "%s.token", path);
    const int fence = open(token_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fence < 0)
        return FAILED;
    outcome result = FAILED;
    if (flock(fence, LOCK_EX) == 0 && read_token(fence, &seen)) {
        if (token < seen)
            result = REFUSED;
        else if (write_token(fence, token) && replace(path, body))
            result = WRITTEN;
    }
    close(fence); /* and with it the flock */
    return result;
}

/* One turn under the mutex; its token goes to `ret_token`. */
static int write_under(simba_client *client, const char *path, uint64_t *ret_token)
{
    SIMBA_LOCKER_SCOPED simba_locker *lock = NULL;
    simba_error error;
    if (simba_locker_new(client, "report", NULL, &error, &lock) < 0 || simba_locker_acquire(lock, 5000, &error) < 0) {
        fprintf(stderr, "not now: %s\n", error.text);
        return -1;
    }
    *ret_token = simba_locker_token(lock);
    return write_fenced(path, "the report\n", *ret_token) == WRITTEN ? 0 : -1;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/fenced-XXXXXX";
    simba_client *client = NULL;
    simba_error error;
    uint64_t first, second;

    if (!mkdtemp(folder) || chdir(folder) < 0)
        return 1;
    if (simba_client_open(argc > 1 ? argv[1] : "memory://example", NULL, &error, &client) < 0) {
        fprintf(stderr, "cannot open the store: %s\n", error.text);
        return 1;
    }
    int failed = 1;
    if (write_under(client, "report.txt", &first) == 0 && write_under(client, "report.txt", &second) == 0) {
        /* Now the first holder wakes up, in the middle of a write that it began before it lost the mutex. */
        const outcome late = write_fenced("report.txt", "an old report\n", first);
        printf("token %" PRIu64 " after token %" PRIu64 ": %s\n", first, second,
               late == REFUSED ? "refused" : "taken!");
        failed = late == REFUSED ? 0 : 1;
    }
    simba_client_close(client);
    unlink("report.txt");
    unlink("report.txt.token");
    rmdir(folder);
    return failed;
}
