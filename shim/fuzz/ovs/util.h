/* SPDX-License-Identifier: Apache-2.0 */
/* Types and words of Open vSwitch. */
#ifndef FUZZ_UTIL_H
#define FUZZ_UTIL_H

#include <arpa/inet.h>
#include <endian.h>
#include <stdint.h>

#include "shim/core/host.h"

typedef uint16_t ovs_be16;
typedef uint32_t ovs_be32;

#define ALIGNED_CAST(type, pointer) ((type)(void *)(pointer))
#define CONTAINER_OF(pointer, type, member) container_of(pointer, type, member)
#define DIV_ROUND_UP(x, y) (((x) + ((y) - 1)) / (y))
#define OVS_UNLIKELY(condition) (condition)
#define OVS_UNUSED __attribute__((unused))
#define ntohll(number) be64toh(number)
#define MIN(a, b) ((a) < (b) ? (a) : (b))

#endif
