/* The list of stores. */
#ifndef SIMBA_STORES_REGISTRY_H
#define SIMBA_STORES_REGISTRY_H

#include <simba/backend.h>

/* SIMBA_EURL: nobody knows the scheme; SIMBA_ENOTBUILT: this library was built without it. */
int simba__registry_find(const char *scheme, simba_error *err, const simba_backend **ret_backend);

#endif
