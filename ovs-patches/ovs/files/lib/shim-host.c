/* SPDX-License-Identifier: Apache-2.0 */

/* What the shim's engine is given in ovs-vswitchd, but for time (shim-clock.c)
 * and frames (shim-frame.c, shim-report.c). */

#include <config.h>
#include "shim-host.h"
#include "openvswitch/vlog.h"
#include "shim/core/engine/engine.h"

VLOG_DEFINE_THIS_MODULE(shim_host);

/* Calls what 'rcu' is to be freed by. */
static void
call_rcu(struct shim_host_rcu *rcu)
{
    rcu->function(rcu);
}

/* Has 'function' called with 'rcu' after a grace period. */
void
shim_call_rcu(struct shim_host_rcu *rcu,
              void (*function)(struct shim_host_rcu *))
{
    rcu->function = function;
    ovsrcu_postpone(call_rcu, rcu);
}

void
shim_host_warn(const char *condition, const char *where)
{
    static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

    VLOG_ERR_RL(&rl, "%s: the shim's state is wrong: %s", where, condition);
}

/* Prepares 'table'. */
int
shim_table_init(struct shim_table *table,
                const struct shim_table_params *params OVS_UNUSED)
{
    cmap_init(&table->cmap);
    shim_secret(table->key, sizeof table->key);
    ovs_mutex_init(&table->mutex);
    return 0;
}

/* Ends 'table', which is empty. */
void
shim_table_exit(struct shim_table *table)
{
    cmap_destroy(&table->cmap);
    ovs_mutex_destroy(&table->mutex);
}

/* Returns the object of 'table' with 'key', or NULL. */
void *
shim_table_find(struct shim_table *table, const void *key,
                struct shim_table_params params)
{
    uint32_t hash = shim_siphash(table->key, key, params.key_len);
    struct shim_table_node *node;

    CMAP_FOR_EACH_WITH_HASH (node, cmap_node, hash, &table->cmap) {
        u8 *object = (u8 *) node - params.head_offset;

        if (!memcmp(object + params.key_offset, key, params.key_len)) {
            return object;
        }
    }
    return NULL;
}

/* Puts 'node' of an object whose key no other has into 'table'. */
int
shim_table_insert(struct shim_table *table, struct shim_table_node *node,
                  struct shim_table_params params)
{
    const u8 *object = (u8 *) node - params.head_offset;

    node->hash = shim_siphash(table->key, object + params.key_offset,
                              params.key_len);
    ovs_mutex_lock(&table->mutex);
    cmap_insert(&table->cmap, &node->cmap_node, node->hash);
    ovs_mutex_unlock(&table->mutex);
    return 0;
}

/* Takes 'node' out of 'table', where it is. */
int
shim_table_remove(struct shim_table *table, struct shim_table_node *node,
                  struct shim_table_params params OVS_UNUSED)
{
    ovs_mutex_lock(&table->mutex);
    cmap_remove(&table->cmap, &node->cmap_node, node->hash);
    ovs_mutex_unlock(&table->mutex);
    return 0;
}

/* Does nothing: nobody traces rates here. */
void
shim_host_rate_changed(const struct shim_limiter *limiter OVS_UNUSED,
                       u64 bytes_per_s OVS_UNUSED)
{
}

/* Logs what became of a control message for 'vm'. */
void
shim_host_message(const struct shim_vm *vm,
                  const struct shim_message *message, const char *verdict)
{
    VLOG_DBG("VM %p: message %"PRIu32" of sender %"PRIu32" with %"PRIu32
             " marks: %s", vm, message->sequence, message->sender,
             message->marks, verdict);
}
