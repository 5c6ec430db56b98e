# SPDX-License-Identifier: Apache-2.0
"""Mininet topologies with one Open vSwitch bridge per hypervisor and a marking fabric."""

from sdngcc.topologies.dumbbell import Dumbbell
from sdngcc.topologies.parking_lot import ParkingLot
from sdngcc.topologies.racks import Racks
from sdngcc.topologies.spines import Spines
from sdngcc.topologies.star import Star

TOPOLOGIES = {"dumbbell": Dumbbell, "parking-lot": ParkingLot, "racks": Racks, "spines": Spines, "star": Star}
