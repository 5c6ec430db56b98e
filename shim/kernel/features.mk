# SPDX-License-Identifier: GPL-2.0-only
# What the kernel's headers have and no macro tells, for compat.h.

# $(call shim-has,HEADER,WORD,NAME): defines OVS_SHIM_HAS_NAME if the header has that word.
shim-has = $(if $(shell grep -sw $(2) $(srctree)/include/$(1)),-DOVS_SHIM_HAS_$(3))

# SHIM_LABORATORY=y: what only comparisons with papers need, ../core/laboratory.h.
ccflags-$(SHIM_LABORATORY) += -DSHIM_LABORATORY

ccflags-y += $(call shim-has,linux/hrtimer.h,hrtimer_setup,HRTIMER_SETUP)
ccflags-y += $(call shim-has,linux/netdevice.h,netns_immutable,NETNS_IMMUTABLE)
ccflags-y += $(call shim-has,linux/netdevice.h,netif_get_port_parent_id,NETIF_PORT_PARENT_ID)
ccflags-y += $(call shim-has,net/genetlink.h,genl_info_dump,GENL_INFO_DUMP)
ccflags-y += $(call shim-has,net/gso.h,skb_gso_segment,GSO_H)
ccflags-y += $(call shim-has,linux/skbuff.h,SKB_GSO_TCP_ACCECN,GSO_TCP_ACCECN)
ccflags-y += $(call shim-has,linux/skbuff.h,SKB_GSO_TCP_FIXEDID_INNER,GSO_TCP_FIXEDID_INNER)

# The reasons of drops that a patched openvswitch has, from 6.6 on.
ccflags-y += $(if $(shim-dir),$(if $(wildcard $(shim-dir)/../drop.h),-DOVS_SHIM_HAS_DROP_H))
