/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "shim-stats.h"

const char *const shim_stat_names[OVS_SHIM_STAT_MAX + 1] = {
    [OVS_SHIM_STAT_TX_PACKETS] = "shim_tx_packets",
    [OVS_SHIM_STAT_TX_BYTES] = "shim_tx_bytes",
    [OVS_SHIM_STAT_TX_ECT] = "shim_tx_ect",
    [OVS_SHIM_STAT_TX_PACED] = "shim_tx_paced",
    [OVS_SHIM_STAT_RX_PACKETS] = "shim_rx_packets",
    [OVS_SHIM_STAT_RX_BYTES] = "shim_rx_bytes",
    [OVS_SHIM_STAT_RX_CE] = "shim_rx_ce",
    [OVS_SHIM_STAT_RX_RESTORED] = "shim_rx_restored",
    [OVS_SHIM_STAT_DROP_POLICE] = "shim_drop_police",
    [OVS_SHIM_STAT_DROP_HORIZON] = "shim_drop_horizon",
    [OVS_SHIM_STAT_DROP_SEGMENT] = "shim_drop_segment",
    [OVS_SHIM_STAT_DROP_MEMORY] = "shim_drop_memory",
    [OVS_SHIM_STAT_DROP_FORGED] = "shim_drop_forged",
    [OVS_SHIM_STAT_MESSAGES] = "shim_messages",
    [OVS_SHIM_STAT_MESSAGE_MARKS] = "shim_message_marks",
    [OVS_SHIM_STAT_REFUSED_SHORT] = "shim_refused_short",
    [OVS_SHIM_STAT_REFUSED_FORM] = "shim_refused_form",
    [OVS_SHIM_STAT_REFUSED_TAG] = "shim_refused_tag",
    [OVS_SHIM_STAT_REFUSED_REPLAY] = "shim_refused_replay",
    [OVS_SHIM_STAT_REFUSED_ADDRESS] = "shim_refused_address",
    [OVS_SHIM_STAT_REFUSED_PEER] = "shim_refused_peer",
    [OVS_SHIM_STAT_REFUSED_LAW] = "shim_refused_law",
    [OVS_SHIM_STAT_REPORTS] = "shim_reports",
    [OVS_SHIM_STAT_REPORT_BYTES] = "shim_report_bytes",
    [OVS_SHIM_STAT_REPORTS_SENT] = "shim_reports_sent",
    [OVS_SHIM_STAT_REPORT_BYTES_SENT] = "shim_report_bytes_sent",
    [OVS_SHIM_STAT_REPORTS_UNSENT] = "shim_reports_unsent",
    [OVS_SHIM_STAT_REPORTS_NO_KEY] = "shim_reports_no_key",
    [OVS_SHIM_STAT_DROP_PEER] = "shim_drop_peer",
    [OVS_SHIM_STAT_PEERS_FULL] = "shim_peers_full",
    [OVS_SHIM_STAT_PEERS_NO_MEMORY] = "shim_peers_no_memory",
    [OVS_SHIM_STAT_PEERS_COLLECTED] = "shim_peers_collected",
    [OVS_SHIM_STAT_RX_WINDOWS] = "shim_rx_windows",
    [OVS_SHIM_STAT_FLOWS_FULL] = "shim_flows_full",
    [OVS_SHIM_STAT_FLOWS_NO_MEMORY] = "shim_flows_no_memory",
    [OVS_SHIM_STAT_FLOWS_COLLECTED] = "shim_flows_collected",
    [OVS_SHIM_STAT_DROP_SOURCE] = "shim_drop_source",
    [OVS_SHIM_STAT_DROP_SPOOFED] = "shim_drop_spoofed",
    [OVS_SHIM_STAT_TX_CE_CLEARED] = "shim_tx_ce_cleared",
    [OVS_SHIM_STAT_REFUSED_PORT] = "shim_refused_port",
    [OVS_SHIM_STAT_REFUSED_ORIGIN] = "shim_refused_origin",
    [OVS_SHIM_STAT_MESSAGES_OTHER_KEY] = "shim_messages_other_key",
    [OVS_SHIM_STAT_PEERS_EVICTED] = "shim_peers_evicted",
    [OVS_SHIM_STAT_DROP_SHARED] = "shim_drop_shared",
    [OVS_SHIM_STAT_FLOWS_EVICTED] = "shim_flows_evicted",
    [OVS_SHIM_STAT_DROP_WAITING] = "shim_drop_waiting",
    [OVS_SHIM_STAT_REPORTS_OVERDUE] = "shim_reports_overdue",
    [OVS_SHIM_STAT_STRAY_PACKETS] = "shim_stray_packets",
    [OVS_SHIM_STAT_STRAY_BYTES] = "shim_stray_bytes",
    [OVS_SHIM_STAT_STRAY_PACED] = "shim_stray_paced",
    [OVS_SHIM_STAT_STRAY_DROP_POLICE] = "shim_stray_drop_police",
    [OVS_SHIM_STAT_STRAY_DROP_HORIZON] = "shim_stray_drop_horizon",
    [OVS_SHIM_STAT_STRAY_DROP_WAITING] = "shim_stray_drop_waiting",
    [OVS_SHIM_STAT_DROP_PATH] = "shim_drop_path",
    [OVS_SHIM_STAT_PATHS_FULL] = "shim_paths_full",
    [OVS_SHIM_STAT_PATHS_NO_MEMORY] = "shim_paths_no_memory",
    [OVS_SHIM_STAT_TX_AHEAD] = "shim_tx_ahead",
    [OVS_SHIM_STAT_RX_CE_LOST] = "shim_rx_ce_lost",
    [OVS_SHIM_STAT_DROP_UNANSWERED] = "shim_drop_unanswered",
    [OVS_SHIM_STAT_DROP_SIZE] = "shim_drop_size",
    [OVS_SHIM_STAT_REPORTS_DEFERRED] = "shim_reports_deferred",
};

/* Returns true if ports of 'role', OVS_SHIM_ROLE_*, have the counter 'stat',
 * OVS_SHIM_STAT_*. */
bool
shim_stat_is_of(uint32_t stat, uint32_t role)
{
    return ((role == OVS_SHIM_ROLE_UPLINK)
            == (stat >= OVS_SHIM_STAT_STRAY_PACKETS
                && stat <= OVS_SHIM_STAT_STRAY_DROP_WAITING));
}
