/* For the command that is linked statically: how it finds hosts and users. glibc would read /etc/nsswitch.conf and load what is named
 * there, modules of the C library of the machine it runs on; a static program has brought another C library, and the two do not go
 * together. What is built in, files and the name server, is all that it needs. */
#include <nss.h>

__attribute__((constructor)) static void use_built_in_services(void)
{
    __nss_configure_lookup("hosts", "files dns");
    __nss_configure_lookup("services", "files");
    __nss_configure_lookup("passwd", "files");
    __nss_configure_lookup("group", "files");
}
