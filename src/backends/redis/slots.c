/* Which of a cluster's 16384 slots a key is in: CRC16 of its hash tag, the text between the first "{" and the first "}" after
 * it, and of the whole key if there is no such text. */
#include <stdint.h>
#include <string.h>

#include "backends/redis/slots.h"

/* The polynomial 0x1021, from 0, highest bit first: as XMODEM has it. */
static unsigned crc16(const char *data, size_t length)
{
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(uint8_t)data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return crc & 0xFFFF;
}

/* All keys are "simba:{MUTEX}" with or without something behind it: so the tag is the name, up to the first "}" in it. */
unsigned simba__redis_slot(const char *mutex)
{
    return crc16(mutex, strcspn(mutex, "}")) % REDIS_SLOTS;
}

bool simba__redis_in_one_slot(const char *mutex)
{
    return mutex[0] != '}';
}
