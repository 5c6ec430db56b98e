/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints of the shim, events/ovs_shim of tracefs.  While nobody looks each is a jump that is
 * not taken; without CONFIG_TRACEPOINTS there is nothing of them.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ovs_shim

#if !defined(OVS_SHIM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define OVS_SHIM_TRACE_H

#include <linux/skbuff.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "port.h"

/* Bytes of what traces call a drop or a verdict, a 0 at the end. */
#define OVS_SHIM_TRACE_NAME 16

/* A packet from or for a VM is dropped; the reason is named as its counter is. */
TRACE_EVENT(ovs_shim_drop,
	    TP_PROTO(const struct shim_vm *vm, const struct sk_buff *skb, const char *reason),
	    TP_ARGS(vm, skb, reason),
	    TP_STRUCT__entry(__field(int, ifindex)
			     __field(u32, bytes)
			     __array(char, reason, OVS_SHIM_TRACE_NAME)),
	    TP_fast_assign(__entry->ifindex = ovs_shim_vm_ifindex(vm);
			   __entry->bytes = skb->len;
			   strscpy(__entry->reason, reason, OVS_SHIM_TRACE_NAME);),
	    TP_printk("vm=%d bytes=%u reason=%s", __entry->ifindex, __entry->bytes,
		      __entry->reason)
);

/* A control message for a VM is obeyed or refused; what is not known of one refused is 0. */
TRACE_EVENT(ovs_shim_message,
	    TP_PROTO(const struct shim_vm *vm, const struct shim_message *message,
		     const char *verdict),
	    TP_ARGS(vm, message, verdict),
	    TP_STRUCT__entry(__field(int, ifindex)
			     __field(u8, type)
			     __field(u32, sender)
			     __field(u32, sequence)
			     __field(u32, marks)
			     __field(u64, rate)
			     __array(char, verdict, OVS_SHIM_TRACE_NAME)),
	    TP_fast_assign(__entry->ifindex = ovs_shim_vm_ifindex(vm);
			   __entry->type = message->type;
			   __entry->sender = message->sender;
			   __entry->sequence = message->sequence;
			   __entry->marks = message->marks;
			   __entry->rate = message->rate;
			   strscpy(__entry->verdict, verdict, OVS_SHIM_TRACE_NAME);),
	    TP_printk("vm=%d type=%u sender=%u sequence=%u marks=%u rate=%llu verdict=%s",
		      __entry->ifindex, __entry->type, __entry->sender, __entry->sequence,
		      __entry->marks, __entry->rate, __entry->verdict)
);

/* The rate of a VM on an uplink changes; rates are bytes/s. */
TRACE_EVENT(ovs_shim_rate,
	    TP_PROTO(const struct shim_limiter *limiter, u64 rate),
	    TP_ARGS(limiter, rate),
	    TP_STRUCT__entry(__field(int, ifindex)
			     __field(int, uplink)
			     __field(u64, old)
			     __field(u64, rate)
			     __field(u64, share)),
	    TP_fast_assign(__entry->ifindex = ovs_shim_vm_ifindex(limiter->vm);
			   __entry->uplink = ovs_shim_uplink_ifindex(limiter->uplink);
			   __entry->old = limiter->rate.bytes_per_s;
			   __entry->rate = rate;
			   __entry->share = READ_ONCE(limiter->share);),
	    TP_printk("vm=%d uplink=%d old=%llu rate=%llu share=%llu", __entry->ifindex,
		      __entry->uplink, __entry->old, __entry->rate, __entry->share)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
