/* The rule that a time zone follows from now on, in the form of POSIX: "CET-1CEST,M3.5.0,M10.5.0/3". */
#ifndef SIMBA_CORE_ZONE_RULE_H
#define SIMBA_CORE_ZONE_RULE_H

#include "core/zone.h"

/* False: it is no such rule. */
bool simba__zone_rule_parse(const char *text, simba__zone_rule *ret_rule);

/* As if the rule had held at all times. */
simba__zone_stretch simba__zone_rule_stretch_at(const simba__zone_rule *rule, int64_t at_s);

#endif
