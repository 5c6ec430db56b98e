/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Lists under the kernel's names: a ring of nodes that begins and ends at its head, and a stack
 * that many may push to and one takes as a whole.
 *
 * The _rcu forms publish a node only after it has been filled, and leave a removed node's way on
 * in place for whoever stands on it.
 */
#ifndef SHIM_USER_LIST_H
#define SHIM_USER_LIST_H

#include "memory.h"

/* A node of a ring, or its head. */
struct list_head {
	struct list_head *next;		/* the first, from the head */
	struct list_head *prev;		/* the last, from the head */
};

#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

/* Makes a node or a head a ring of its own. */
static inline void INIT_LIST_HEAD(struct list_head *list)
{
	WRITE_ONCE(list->next, list);
	WRITE_ONCE(list->prev, list);
}

/* Tells whether a head has no nodes, or a node is in no ring. */
static inline int list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

/* Tells whether a head has exactly one node. */
static inline int list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

/* Tells whether a node is the first of a head. */
static inline int list_is_first(const struct list_head *node, const struct list_head *head)
{
	return node->prev == head;
}

/* Tells whether a node is the last of a head. */
static inline int list_is_last(const struct list_head *node, const struct list_head *head)
{
	return node->next == head;
}

/* Puts the nodes from first to last between two neighbours. */
static inline void list_link(struct list_head *first, struct list_head *last,
			     struct list_head *before, struct list_head *after)
{
	first->prev = before;
	last->next = after;
	after->prev = last;
	smp_store_release(&before->next, first);
}

/* Puts a node behind another or, from the head, first. */
static inline void list_add(struct list_head *node, struct list_head *head)
{
	list_link(node, node, head, head->next);
}

/* Puts a node before another or, from the head, last. */
static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	list_link(node, node, head->prev, head);
}

#define list_add_rcu list_add
#define list_add_tail_rcu list_add_tail

/* What the links of a node point to that must not be followed any more. */
#define LIST_GONE ((struct list_head *)0x100)

/* Takes a node out; those who stand on it can still go on. */
static inline void list_del_rcu(struct list_head *node)
{
	node->next->prev = node->prev;
	WRITE_ONCE(node->prev->next, node->next);
	node->prev = LIST_GONE;
}

/* Takes a node out. */
static inline void list_del(struct list_head *node)
{
	list_del_rcu(node);
	node->next = LIST_GONE;
}

/* Takes a node out and makes it a ring of its own. */
static inline void list_del_init(struct list_head *node)
{
	list_del(node);
	INIT_LIST_HEAD(node);
}

/* Takes a node out and puts it first. */
static inline void list_move(struct list_head *node, struct list_head *head)
{
	list_del(node);
	list_add(node, head);
}

/* Takes a node out and puts it last. */
static inline void list_move_tail(struct list_head *node, struct list_head *head)
{
	list_del(node);
	list_add_tail(node, head);
}

/* Puts the nodes of a list in front of those of a head; the list is to be prepared anew. */
static inline void list_splice(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		list_link(list->next, list->prev, head, head->next);
}

/* Puts the nodes of a list behind those of a head; the list is to be prepared anew. */
static inline void list_splice_tail(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		list_link(list->next, list->prev, head->prev, head);
}

/* Puts the nodes of a list in front of those of a head and empties the list. */
static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	list_splice(list, head);
	INIT_LIST_HEAD(list);
}

/* Puts the nodes of a list behind those of a head and empties the list. */
static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	list_splice_tail(list, head);
	INIT_LIST_HEAD(list);
}

#define list_entry(pointer, type, member) container_of(pointer, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(object, member) \
	list_entry((object)->member.next, __typeof__(*(object)), member)
#define list_prev_entry(object, member) \
	list_entry((object)->member.prev, __typeof__(*(object)), member)
/* Tells by address alone: an object that ends a list is none, nor aligned as one would be. */
#define list_entry_is_head(object, head, member) \
	((unsigned long)(object) + offsetof(__typeof__(*(object)), member) == \
	 (unsigned long)(head))

#define list_for_each_entry(object, head, member) \
	for ((object) = list_first_entry(head, __typeof__(*(object)), member); \
	     !list_entry_is_head(object, head, member); \
	     (object) = list_next_entry(object, member))

#define list_for_each_entry_reverse(object, head, member) \
	for ((object) = list_last_entry(head, __typeof__(*(object)), member); \
	     !list_entry_is_head(object, head, member); \
	     (object) = list_prev_entry(object, member))

#define list_for_each_entry_safe(object, after, head, member) \
	for ((object) = list_first_entry(head, __typeof__(*(object)), member), \
	     (after) = list_next_entry(object, member); \
	     !list_entry_is_head(object, head, member); \
	     (object) = (after), (after) = list_next_entry(after, member))

#define list_for_each_entry_rcu(object, head, member, ...) \
	for ((object) = list_entry(rcu_dereference((head)->next), __typeof__(*(object)), member); \
	     !list_entry_is_head(object, head, member); \
	     (object) = list_entry(rcu_dereference((object)->member.next), \
				   __typeof__(*(object)), member))

/* A node of a stack. */
struct llist_node {
	struct llist_node *next;	/* pushed before this one, NULL: the first */
};

/* A stack. */
struct llist_head {
	struct llist_node *first;	/* the last pushed, NULL: none */
};

/* Makes a stack empty. */
static inline void init_llist_head(struct llist_head *head)
{
	WRITE_ONCE(head->first, NULL);
}

/* Tells whether a stack is empty. */
static inline bool llist_empty(const struct llist_head *head)
{
	return !READ_ONCE(head->first);
}

/* Pushes a node; true: the stack was empty. */
static inline bool llist_add(struct llist_node *node, struct llist_head *head)
{
	struct llist_node *first = READ_ONCE(head->first);

	do {
		node->next = first;
	} while (!try_cmpxchg(&head->first, &first, node));
	return !first;
}

/* Takes all nodes of a stack, the last pushed in front; NULL: there are none. */
static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	return xchg(&head->first, NULL);
}

/* Turns nodes that were taken round; returns the first pushed. */
static inline struct llist_node *llist_reverse_order(struct llist_node *node)
{
	struct llist_node *turned = NULL, *next;

	for (; node; node = next) {
		next = node->next;
		node->next = turned;
		turned = node;
	}
	return turned;
}

#define llist_entry(pointer, type, member) container_of(pointer, type, member)

/* The address of a member, NULL where the node behind an object's last is asked for. */
#define llist_has(object, member) \
	((unsigned long)(object) + offsetof(__typeof__(*(object)), member) != 0)

#define llist_for_each(position, node) \
	for ((position) = (node); (position); (position) = (position)->next)

#define llist_for_each_safe(position, after, node) \
	for ((position) = (node); (position) && ((after) = (position)->next, true); \
	     (position) = (after))

#define llist_for_each_entry(object, node, member) \
	for ((object) = llist_entry(node, __typeof__(*(object)), member); \
	     llist_has(object, member); \
	     (object) = llist_entry((object)->member.next, __typeof__(*(object)), member))

#define llist_for_each_entry_safe(object, after, node, member) \
	for ((object) = llist_entry(node, __typeof__(*(object)), member); \
	     llist_has(object, member) && \
	     ((after) = llist_entry((object)->member.next, __typeof__(*(object)), member), true); \
	     (object) = (after))

#endif
