/* See findings.h. */
#include "backends/sql/findings.h"

#include <stdarg.h>
#include <stdio.h>

void simba__sql_tell(simba__sql_findings *findings, bool is_fine, simba_verdict otherwise, const char *what,
                     const char *remedy, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const simba_finding finding = {sizeof finding, is_fine ? SIMBA_VERDICT_OK : otherwise, what, text,
                                   is_fine ? NULL : remedy};
    if (findings->rc == 0)
        findings->rc = simba__sql_item_find(findings->item, &finding);
}
