/* SPDX-License-Identifier: Apache-2.0 */

/* Takes the shim's messages to VMs, VM_MESSAGES and PATH_MESSAGES, which
 * include/openflow/shim-ext.h describes. */

#include <config.h>
#include "ofproto-shim.h"
#include "byte-order.h"
#include "openvswitch/ofp-msgs.h"
#include "openvswitch/ofp-shim.h"
#include "openvswitch/ofpbuf.h"
#include "shim-dpif.h"

/* Hands the control messages in 'b', a PATH_MESSAGES without header, to the
 * datapath.  Returns 0 if successful, otherwise an OFPERR_* value, and what
 * was in front of the mistake was handed on. */
static enum ofperr
handle_path_messages(struct ofpbuf *b)
{
    while (b->size) {
        const struct shim_path_message *spm = ofputil_pull_path_message(b);

        if (!spm) {
            return OFPERR_OFPBRC_BAD_LEN;
        }
        shim_dpif_message(ntohl(spm->vm), spm + 1, ntohs(spm->length));
    }
    return 0;
}

/* Hands the control messages in 'oh' to the datapath, which checks and counts
 * them.  Returns 0 if successful, otherwise an OFPERR_* value; a VM that is
 * gone meanwhile is no mistake. */
enum ofperr
ofproto_shim_handle_messages(const struct ofp_header *oh)
{
    struct ofpbuf b = ofpbuf_const_initializer(oh, ntohs(oh->length));

    if (ofpraw_pull_assert(&b) == OFPRAW_SHIMT_PATH_MESSAGES) {
        return handle_path_messages(&b);
    }
    while (b.size) {
        const struct shim_vm_message *svm = ofpbuf_pull(&b, sizeof *svm);

        shim_dpif_message(ntohl(svm->vm), svm->message, sizeof svm->message);
    }
    return 0;
}
