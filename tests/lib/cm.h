/* cmocka, with the headers that must come before it. */
#ifndef TESTS_LIB_CM_H
#define TESTS_LIB_CM_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#endif
