/* Assertions that stay in release builds. A broken rule in this code could grant a mutex twice or corrupt memory; a
 * process that ends lets its lease run out, which is safe. Assert only what the code itself guarantees: check input
 * from outside, and answer it with an error. The expression must be cheap and have no effects. */
#ifndef SIMBA_UTIL_ASSERT_H
#define SIMBA_UTIL_ASSERT_H

/* Print "simba: FILE:LINE: assertion failed: EXPRESSION" on standard error, and abort. */
_Noreturn void simba__assert_failed(const char *file, int line, const char *expression);

#define SIMBA__ASSERT(expression) ((expression) ? (void)0 : simba__assert_failed(__FILE__, __LINE__, #expression))

#endif
