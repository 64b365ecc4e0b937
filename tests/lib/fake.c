/* See fake.h. */
#include "lib/fake.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int fake_listen(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 64) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        abort();
    *ret_port = ntohs(address.sin_port);
    return listener;
}

void fake_stop_listening(int listener, pthread_t thread)
{
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
}

void fake_hear(fake_ear *ear, const void *bytes, size_t size)
{
    pthread_mutex_lock(&ear->lock);
    const size_t room = sizeof ear->bytes - ear->size;
    memcpy(ear->bytes + ear->size, bytes, size < room ? size : room);
    ear->size += size < room ? size : room;
    pthread_mutex_unlock(&ear->lock);
}

bool fake_has_heard(fake_ear *ear, const char *text)
{
    pthread_mutex_lock(&ear->lock);
    const bool heard = memmem(ear->bytes, ear->size, text, strlen(text)) != NULL;
    pthread_mutex_unlock(&ear->lock);
    return heard;
}
