// SPDX-License-Identifier: Apache-2.0
/*
 * The shim's netlink family: what is set, what is asked.
 */
#include "stress.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include "ovs_shim.h"

/* Begins a request of the family. */
static int begin(struct netlink *nl, struct message *message, uint8_t command, uint16_t flags)
{
	int family = netlink_family(nl, OVS_SHIM_FAMILY);

	if (family < 0)
		return family;
	message_begin_generic(message, (uint16_t)family, command, flags);
	return 0;
}

/* Begins a change of the settings; attributes follow, then shim_settings(). */
void shim_settings_begin(struct netlink *nl, struct message *message)
{
	if (begin(nl, message, OVS_SHIM_CMD_SETTINGS_SET, 0))
		message->bytes = 0;
}

/* Sends what was begun with shim_settings_begin() or shim_port_begin(). */
int shim_settings(struct netlink *nl, struct message *message)
{
	return message->bytes ? netlink_call(nl, message, NULL, NULL) : -ENOENT;
}

/* Begins a change of a port; attributes follow, then shim_settings(). */
void shim_port_begin(struct netlink *nl, struct message *message, const char *device)
{
	if (begin(nl, message, OVS_SHIM_CMD_PORT_SET, 0))
		message->bytes = 0;
	else
		message_put_string(message, OVS_SHIM_PORT_NAME, device);
}

/* Gives a port a role. */
int shim_role(struct netlink *nl, const char *device, uint32_t role)
{
	struct message message;

	shim_port_begin(nl, &message, device);
	if (message.bytes)
		message_put_u32(&message, OVS_SHIM_PORT_ROLE, role);
	return shim_settings(nl, &message);
}

/* Reads a whole dump and throws it away. */
int shim_dump(struct netlink *nl, uint8_t command)
{
	struct message message;
	int error = begin(nl, &message, command, NLM_F_DUMP);

	return error ? error : netlink_call(nl, &message, NULL, NULL);
}

/* Gives an address behind the other VM a weight, 0 takes it back. */
int shim_peer(struct netlink *nl, const char *device, int address, uint32_t weight)
{
	uint8_t bytes[16] = { [10] = 0xff, 0xff, 10, 9, 1, (uint8_t)(1 + address) };
	struct message message;
	int error = begin(nl, &message, OVS_SHIM_CMD_PEER_SET, 0);

	if (error)
		return error;
	message_put_string(&message, OVS_SHIM_PEER_VM_NAME, device);
	message_put(&message, OVS_SHIM_PEER_ADDRESS, bytes, sizeof(bytes));
	message_put_u32(&message, OVS_SHIM_PEER_WEIGHT, weight);
	return netlink_call(nl, &message, NULL, NULL);
}

/* Copies a text attribute. */
static void copy_text(char *to, size_t room, const struct nlattr *attribute)
{
	size_t bytes = attribute->nla_len - NLA_HDRLEN;

	if (bytes >= room)
		bytes = room - 1;
	memcpy(to, (const char *)attribute + NLA_HDRLEN, bytes);
	to[bytes] = 0;
}

/* Takes a knob's name and range. */
static void take_knob(const char *attributes, int bytes, void *data)
{
	struct laws *laws = data;
	struct knob *knob = &laws->knobs[laws->knobs_n];

	if (laws->knobs_n == (int)(sizeof(laws->knobs) / sizeof(*laws->knobs)))
		return;
	*knob = (struct knob){ 0 };
	while (bytes >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const struct nlattr *)attributes;
		int which = -1;

		switch (attribute->nla_type & NLA_TYPE_MASK) {
		case OVS_SHIM_KNOB_NAME:
			copy_text(knob->name, sizeof(knob->name), attribute);
			break;
		case OVS_SHIM_KNOB_MIN:
			which = 0;
			break;
		case OVS_SHIM_KNOB_DEFAULT:
			which = 1;
			break;
		case OVS_SHIM_KNOB_MAX_VALUE:
			which = 2;
			break;
		}
		if (which >= 0)
			memcpy(&knob->value[which], attributes + NLA_HDRLEN, sizeof(uint64_t));
		attributes += NLA_ALIGN(attribute->nla_len);
		bytes -= NLA_ALIGN(attribute->nla_len);
	}
	laws->knobs_n++;
}

/*
 * Takes the names of laws and the knobs of one from the settings; "none", which switches the shim
 * off, is no law.
 */
static void take_laws(const char *attributes, int bytes, void *data)
{
	struct laws *laws = data;

	while (bytes >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const struct nlattr *)attributes;
		int left = attribute->nla_len - NLA_HDRLEN;
		const char *inner = attributes + NLA_HDRLEN;
		int type = attribute->nla_type & NLA_TYPE_MASK;

		while ((type == OVS_SHIM_SETTINGS_LAWS || type == OVS_SHIM_SETTINGS_KNOBS) &&
		       left >= NLA_HDRLEN) {
			const struct nlattr *one = (const struct nlattr *)inner;

			if (type == OVS_SHIM_SETTINGS_KNOBS)
				take_knob(inner + NLA_HDRLEN, one->nla_len - NLA_HDRLEN, laws);
			else if (strcmp(inner + NLA_HDRLEN, "none") &&
				 laws->n < (int)(sizeof(laws->names) / sizeof(*laws->names)))
				copy_text(laws->names[laws->n++], sizeof(laws->names[0]), one);
			inner += NLA_ALIGN(one->nla_len);
			left -= NLA_ALIGN(one->nla_len);
		}
		attributes += NLA_ALIGN(attribute->nla_len);
		bytes -= NLA_ALIGN(attribute->nla_len);
	}
}

/* Asks for the laws and for the knobs of one, NULL for that in force. */
int shim_laws(struct netlink *nl, const char *of, struct laws *laws)
{
	struct message message;
	int error = begin(nl, &message, OVS_SHIM_CMD_SETTINGS_GET, 0);

	laws->n = 0;
	laws->knobs_n = 0;
	if (error)
		return error;
	if (of)
		message_put_string(&message, OVS_SHIM_SETTINGS_OF, of);
	return netlink_call(nl, &message, take_laws, laws);
}

/* A counter that is looked for. */
struct wanted {
	uint16_t stat;		/* enum ovs_shim_stat */
	uint64_t value;		/* what it says */
};

/* Takes a counter from a port's answer. */
static void take_stat(const char *attributes, int bytes, void *data)
{
	struct wanted *wanted = data;

	while (bytes >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const struct nlattr *)attributes;
		int left = attribute->nla_len - NLA_HDRLEN;
		const char *inner = attributes + NLA_HDRLEN;

		while ((attribute->nla_type & NLA_TYPE_MASK) == OVS_SHIM_PORT_STATS &&
		       left >= NLA_HDRLEN) {
			const struct nlattr *one = (const struct nlattr *)inner;

			if ((one->nla_type & NLA_TYPE_MASK) == wanted->stat)
				memcpy(&wanted->value, inner + NLA_HDRLEN, sizeof(wanted->value));
			inner += NLA_ALIGN(one->nla_len);
			left -= NLA_ALIGN(one->nla_len);
		}
		attributes += NLA_ALIGN(attribute->nla_len);
		bytes -= NLA_ALIGN(attribute->nla_len);
	}
}

/* Returns a port's counter, 0 when it cannot be had. */
uint64_t shim_stat(struct netlink *nl, const char *device, uint16_t stat)
{
	struct wanted wanted = { .stat = stat };
	struct message message;

	if (begin(nl, &message, OVS_SHIM_CMD_PORT_GET, 0))
		return 0;
	message_put_string(&message, OVS_SHIM_PORT_NAME, device);
	if (netlink_call(nl, &message, take_stat, &wanted))
		return 0;
	return wanted.value;
}
