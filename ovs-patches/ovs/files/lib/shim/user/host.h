/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User space as the engine's host is ovs-vswitchd here.
 */
#ifndef SHIM_USER_HOST_H
#define SHIM_USER_HOST_H

#include "shim-host.h"

#endif
