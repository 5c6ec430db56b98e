/* SPDX-License-Identifier: Apache-2.0 */
/* Values of which nothing is known. */
#ifndef SHIM_PROVE_ANY_H
#define SHIM_PROVE_ANY_H

#include "../core/types.h"

/*@ assigns \result \from \nothing; */
u8 any_u8(void);

/*@ assigns \result \from \nothing; */
u32 any_u32(void);

/*@ assigns \result \from \nothing; */
u64 any_u64(void);

#endif
