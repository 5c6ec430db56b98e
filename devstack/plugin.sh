# SPDX-License-Identifier: Apache-2.0
# DevStack's plugin: Neutron's agents, and with OVN its server, load sdn-gcc's extensions.
#
# In local.conf: enable_plugin sdn-gcc URL-OF-THIS-REPOSITORY. The patched datapath is not built here: install it as
# docs/operator-guide.md says, before stack.sh. Without it the keys are written and have no effect.

SDNGCC_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# sdngcc_listed LIST DRIVER [WITHOUT]: prints the list of names with commas between, with the driver, without another.
function sdngcc_listed {
    local name result=""
    for name in ${1//,/ } "$2"; do
        if [[ "$name" != "${3:-}" && ",$result," != *",$name,"* ]]; then
            result+=${result:+,}$name
        fi
    done
    echo "$result"
}

# sdngcc_add FILE SECTION OPTION [WITHOUT]: adds sdngcc to a list in a configuration file.
function sdngcc_add {
    iniset "$1" "$2" "$3" "$(sdngcc_listed "$(iniget "$1" "$2" "$3")" sdngcc "${4:-}")"
}

function install_sdngcc {
    pip_install "$SDNGCC_DIR/openstack"
}

function configure_sdngcc {
    local ml2_conf=/${NEUTRON_CORE_PLUGIN_CONF:-$Q_PLUGIN_CONF_FILE}
    if [[ "${NEUTRON_AGENT:-$Q_AGENT}" == ovn ]]; then
        if is_service_enabled q-svc neutron-api; then
            sdngcc_add "$ml2_conf" ml2 extension_drivers
        fi
        if is_service_enabled q-ovn-agent neutron-ovn-agent; then
            sdngcc_add "$OVN_AGENT_CONF" agent extensions
            iniset "$OVN_AGENT_CONF" sdngcc weight_unit_kbps "$SDNGCC_WEIGHT_UNIT_KBPS"
        fi
    elif is_service_enabled q-agt neutron-agent; then
        # In place of Neutron's own, which would set policers.
        sdngcc_add "$ml2_conf" agent extensions qos
        iniset "$ml2_conf" sdngcc weight_unit_kbps "$SDNGCC_WEIGHT_UNIT_KBPS"
    fi
}

function is_sdngcc_node {
    is_service_enabled q-agt neutron-agent q-ovn-agent neutron-ovn-agent
}

if [[ "$1" == stack && "$2" == install ]]; then
    echo_summary "Installing sdn-gcc's extensions for Neutron"
    install_sdngcc
elif [[ "$1" == stack && "$2" == post-config ]]; then
    echo_summary "Configuring Neutron for sdn-gcc"
    configure_sdngcc
elif [[ "$1" == stack && "$2" == extra ]] && is_sdngcc_node; then
    sudo ovs-vsctl --no-wait set Open_vSwitch . other_config:shim-law="$SDNGCC_LAW"
elif [[ "$1" == unstack ]] && is_sdngcc_node; then
    sudo ovs-vsctl --no-wait remove Open_vSwitch . other_config shim-law
fi
