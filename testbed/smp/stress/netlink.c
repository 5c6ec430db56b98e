// SPDX-License-Identifier: Apache-2.0
/*
 * Netlink requests: built attribute by attribute, sent, and answered.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Seconds after which an answer that does not come is an error: the kernel hangs. */
#define ANSWER_S 60

/* Opens a socket in a network namespace. */
void netlink_open(struct netlink *nl, int protocol, int ns)
{
	struct timeval patience = { .tv_sec = ANSWER_S };
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };

	namespace_enter(ns);
	nl->sequence = 0;
	nl->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (nl->fd < 0 || bind(nl->fd, (struct sockaddr *)&address, sizeof(address)) ||
	    setsockopt(nl->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		die(true, "netlink socket");
}

/* Closes the socket. */
void netlink_close(struct netlink *nl)
{
	close(nl->fd);
}

/* Begins a request. */
void message_begin(struct message *message, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *head = (struct nlmsghdr *)message->data;

	*head = (struct nlmsghdr){ .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags };
	message->bytes = NLMSG_HDRLEN;
}

/* Begins a request of a generic family. */
void message_begin_generic(struct message *message, uint16_t family, uint8_t command,
			   uint16_t flags)
{
	struct genlmsghdr head = { .cmd = command, .version = 1 };

	message_begin(message, family, flags);
	message_append(message, &head, sizeof(head));
}

/* Appends bytes and pads them. */
void message_append(struct message *message, const void *data, uint32_t bytes)
{
	if (message->bytes + NLMSG_ALIGN(bytes) > MESSAGE_BYTES)
		die(false, "a request of more than %d bytes", MESSAGE_BYTES);
	memset(message->data + message->bytes, 0, NLMSG_ALIGN(bytes));
	if (bytes)
		memcpy(message->data + message->bytes, data, bytes);
	message->bytes += NLMSG_ALIGN(bytes);
}

/* Appends an attribute. */
void message_put(struct message *message, uint16_t attribute, const void *data, uint32_t bytes)
{
	struct nlattr head = { .nla_len = NLA_HDRLEN + bytes, .nla_type = attribute };

	message_append(message, &head, sizeof(head));
	message_append(message, data, bytes);
}

/* Appends a number of one byte. */
void message_put_u8(struct message *message, uint16_t attribute, uint8_t value)
{
	message_put(message, attribute, &value, sizeof(value));
}

/* Appends a number of two bytes. */
void message_put_u16(struct message *message, uint16_t attribute, uint16_t value)
{
	message_put(message, attribute, &value, sizeof(value));
}

/* Appends a number of four bytes. */
void message_put_u32(struct message *message, uint16_t attribute, uint32_t value)
{
	message_put(message, attribute, &value, sizeof(value));
}

/* Appends a number of eight bytes. */
void message_put_u64(struct message *message, uint16_t attribute, uint64_t value)
{
	message_put(message, attribute, &value, sizeof(value));
}

/* Appends a text. */
void message_put_string(struct message *message, uint16_t attribute, const char *value)
{
	message_put(message, attribute, value, strlen(value) + 1);
}

/* Begins a nest and returns what message_end() wants. */
uint32_t message_nest(struct message *message, uint16_t attribute)
{
	uint32_t nest = message->bytes;

	message_put(message, attribute | NLA_F_NESTED, NULL, 0);
	return nest;
}

/* Ends a nest. */
void message_end(struct message *message, uint32_t nest)
{
	struct nlattr *head = (struct nlattr *)(message->data + nest);

	head->nla_len = message->bytes - nest;
}

/* Sends a request and reads all answers; returns 0 or the kernel's negative errno value. */
int netlink_call(struct netlink *nl, struct message *message, answer_fn answer, void *data)
{
	static _Thread_local char room[MESSAGE_BYTES] __attribute__((aligned(8)));
	struct nlmsghdr *head = (struct nlmsghdr *)message->data;
	bool dump = (head->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;

	head->nlmsg_len = message->bytes;
	head->nlmsg_seq = ++nl->sequence;
	if (!dump)
		head->nlmsg_flags |= NLM_F_ACK;
	if (send(nl->fd, message->data, message->bytes, 0) < 0)
		die(true, "netlink send");
	for (;;) {
		ssize_t got = recv(nl->fd, room, sizeof(room), 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			die(false, "no answer to a netlink request within %d s", ANSWER_S);
		if (got < 0)
			return -errno;
		for (struct nlmsghdr *one = (struct nlmsghdr *)room; NLMSG_OK(one, got);
		     one = NLMSG_NEXT(one, got)) {
			if (one->nlmsg_seq != nl->sequence)
				continue;
			if (one->nlmsg_type == NLMSG_ERROR)
				return ((struct nlmsgerr *)NLMSG_DATA(one))->error;
			if (one->nlmsg_type == NLMSG_DONE)
				return 0;
			if (answer)
				answer((char *)NLMSG_DATA(one) + GENL_HDRLEN,
				       (int)(one->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN), data);
		}
	}
}

/* Takes the family's number from the controller's answer. */
static void take_family(const char *attributes, int bytes, void *data)
{
	while (bytes >= NLA_HDRLEN) {
		const struct nlattr *attribute = (const struct nlattr *)attributes;

		if (attribute->nla_type == CTRL_ATTR_FAMILY_ID)
			*(int *)data = *(const uint16_t *)(attributes + NLA_HDRLEN);
		attributes += NLA_ALIGN(attribute->nla_len);
		bytes -= NLA_ALIGN(attribute->nla_len);
	}
}

/* Returns the number of a generic family, negative when the kernel has none of that name. */
int netlink_family(struct netlink *nl, const char *name)
{
	struct message message;
	int family = -ENOENT, error;

	message_begin_generic(&message, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0);
	message_put_string(&message, CTRL_ATTR_FAMILY_NAME, name);
	error = netlink_call(nl, &message, take_family, &family);
	return error ? error : family;
}
