/* A plugin that uses simba, and with -DHOST a program that unloads it: plugin OBJECT URL. The plugin leaves a client open that holds
 * a mutex. The program goes on for several leases, in which the client has to renew; then the mutex is still taken. */
#include <dlfcn.h>
#include <simba.h>
#include <stdio.h>
#include <unistd.h>

#ifdef HOST
static int call(const char *object, const char *url)
{
    void *plugin = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    int (*hold)(const char *) = (int (*)(const char *))dlsym(plugin, "hold");
    const int rc = hold ? hold(url) : -1;
    return dlclose(plugin) == 0 ? rc : -1;
}

int main(int argc, char **argv)
{
    if (argc != 3 || call(argv[1], argv[2]) != 0)
        return 1;
    usleep(500000);
    const int rc = call(argv[1], argv[2]);
    printf("then %d\n", rc);
    return rc == SIMBA_ETIMEDOUT ? 0 : 1;
}
#else
int hold(const char *url);
int hold(const char *url)
{
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    simba_error err = {0};
    int rc = simba_client_open(url, NULL, &err, &client);
    if (rc == 0)
        rc = simba_locker_new(client, "plugin", NULL, &err, &locker);
    if (rc == 0)
        rc = simba_locker_acquire(locker, 0, &err);
    printf("%s\n", err.text);
    return rc;
}
#endif
