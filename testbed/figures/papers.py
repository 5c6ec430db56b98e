# SPDX-License-Identifier: Apache-2.0
"""The papers' values that figures mark, by experiment, each with where it stands.

Values that a paper gives in words ("negligible", "almost 50%") carry the words; parts and ratios are of what the words
say they are of.
"""

from __future__ import annotations

from typing import Dict

from sdngcc.testbed.figures.marks import Paper

PAPERS: Dict[str, Dict[str, Paper]] = {
    "unfair": {
        "dctcp, with ECN": Paper(0.40, "SDN-GCC, Fig. 1b", "-60% of the fair share"),
        "udp, with ECN": Paper(0.28, "SDN-GCC, Fig. 1b", "-72% of the fair share"),
    },
    # The optimum that the paper gives for each period, Mb/s.
    "share": {
        "competitors": Paper(0, "SDN-GCC, section VIII.B"),
        "all": Paper(250, "SDN-GCC, section VIII.B"),
        "tagged": Paper(1000, "SDN-GCC, section VIII.B"),
    },
    # What sources oscillate about, by number of senders, Mb/s.
    "scale": {
        "8": Paper(125, "SDN-GCC, section VIII.B"),
        "16": Paper(62.5, "SDN-GCC, section VIII.B"),
        "32": Paper(31.25, "SDN-GCC, section VIII.B"),
    },
    # The same as of share, and the optimum over all three periods, Mb/s.
    "echo": {
        "competitors": Paper(0, "HyGenICC, section VIII.B"),
        "all": Paper(250, "HyGenICC, section VIII.B"),
        "tagged": Paper(1000, "HyGenICC, section VIII.B"),
        "mean": Paper(416, "HyGenICC, section VIII.B"),
    },
    "burst-latency": {
        "eyeq": Paper(55, "EyeQ, section 2.2", "about 55 us with EyeQ"),
        "none": Paper(550, "EyeQ, section 2.2", "median and 99th percentile increase by over 10x"),
    },
    # Mb/s; F1 alone, beside F2, and once B1 sends to B3 too.
    "spare": {
        "F1 alone": Paper(10000, "EyeQ, Fig. 1"), "F1 beside F2": Paper(2000, "EyeQ, Fig. 1"),
        "F2 beside F1": Paper(8000, "EyeQ, Fig. 1"), "F1 once B1 splits": Paper(5000, "EyeQ, Fig. 1"),
        "F2 once B1 splits": Paper(5000, "EyeQ, Fig. 1"), "F3 once B1 splits": Paper(5000, "EyeQ, Fig. 1"),
    },
    "converge": {"worst": Paper(6, "EyeQ, section 3.4", "30 iterations of 200 us")},
    "shuffle": {"last": Paper(210 / 180, "EyeQ, section 5.2", "final completion increases from 180 s to 210 s")},
    "memcached": {
        "unprotected": Paper(269 / 288, "EyeQ, section 5.2", "269k of 288k requests/s"),
        "protected": Paper(1, "EyeQ, section 5.2", "288k requests/s"),
        "law alone": Paper(1, "EyeQ, section 5.2", "EyeQ does not affect total throughput"),
        "p99.9 protected, us": Paper(750, "EyeQ, section 5.2", "750 us at 144k requests/s"),
        "p99 unprotected / alone": Paper(1000, "EyeQ, section 5.2", "over three orders of magnitude"),
    },
    "ecn-mix": {
        "without": Paper(0.142, "vCC, Fig. 11a"), "with": Paper(1.038, "vCC, Fig. 11b"),
        "Jain without": Paper(0.921, "vCC, Fig. 11a"), "Jain with": Paper(0.994, "vCC, Fig. 11b"),
    },
    # Of one flow without ECN, of nine flows with it.
    "ecn-red": {"nine": Paper(0.45, "vCC, Fig. 6", "at most 45%")},
    # Percent of the link.
    "rwnd": {
        "without ECN": Paper(2.3, "vCC, Fig. 10"), "with ECN": Paper(0, "vCC, Fig. 10"),
        "with virtual ECN": Paper(0, "vCC, Fig. 10"),
    },
    "port-share": {"ratio": Paper(3, "vCC, section 4", "3 times as much per preferred flow")},
    # The well-behaved VM's part.
    "udp-flood": {
        "none": Paper(0, "Seawall, Fig. 9a", "negligible"), "seawall": Paper(0.5, "Seawall, Fig. 9a", "half"),
    },
    # What selfish traffic has, by flows or destinations without Seawall, and with it.
    "many-flows": {
        "1": Paper(1 / 2, "Seawall, Fig. 9b"), "2": Paper(2 / 3, "Seawall, Fig. 9b"),
        "66": Paper(1, "Seawall, Fig. 9b", "the well-behaved has almost none"),
        "seawall": Paper(1 / 2, "Seawall, Fig. 9b", "approximately even"),
    },
    "many-dsts": {"seawall": Paper(1 / 2, "Seawall, Fig. 10", "approximately half, independent of the number")},
    # The well-behaved VM's part, by class.
    "classes": {
        "1": Paper(1 / 9, "Seawall, section 4.2", "N tunnels have N parts"),
        "2": Paper(1 / 2, "Seawall, section 4.3"), "3": Paper(1 / 2, "Seawall, section 4.3"),
    },
    # When maps and reduce end, and what all are active for, units of time.
    "schedule": {
        "map, alike": Paper(15, "Seawall, Fig. 3"), "reduce, alike": Paper(15, "Seawall, Fig. 3"),
        "map, tasks": Paper(6, "Seawall, Fig. 3"), "reduce, tasks": Paper(15, "Seawall, Fig. 3"),
        "alike": Paper(90, "Seawall, Fig. 3"), "tasks": Paper(45, "Seawall, Fig. 3"),
        "shortest": Paper(30, "Seawall, Fig. 3"),
    },
    # Mb/s.
    "line-rate": {"none": Paper(979, "Seawall, Table 1"), "seawall": Paper(947, "Seawall, Table 1")},
    # Of what it is without protection.
    "web": {
        "latency": Paper(0.5, "Seawall, Fig. 11", "latency better by almost 50%"),
        "throughput": Paper(1, "Seawall, Fig. 11", "roughly the same throughput"),
    },
    # Of what it is alone.
    "interference": {
        "LS p99": Paper(4, "SCC, Fig. 1b", "tail latency increases by more than 300%"),
        "LS mean": Paper(1.5, "SCC, Fig. 1b", "average latency increases by more than 50%"),
        "DS": Paper(4, "SCC, Fig. 1c", "up to 4x for medium and higher loads"),
        "CS": Paper(2, "SCC, Fig. 1d", "more than 2x at higher loads"),
    },
    # Of what it is without SCC.
    "divisions": {
        "CS, CS alone": Paper(1, "SCC, Fig. 3a", "the same with and without"),
        "CS, DS and CS": Paper(0.83, "SCC, Fig. 3a", "improved by 17%"),
        "CS, DS, CS and LS": Paper(0.47, "SCC, Fig. 3a", "improved by 53%"),
        "CS, DS, CS and LS, 30% each": Paper(0.6, "SCC, section VI", "improved by 40%"),
        "DS, DS and CS": Paper(0.5, "SCC, Fig. 3b", "reduced by 2x"),
        "DS, DS, CS and LS, 30% each": Paper(1 / 3.2, "SCC, section VI", "reduced by 3.2x"),
        "LS, DS, CS and LS, 30% each": Paper(0.6, "SCC, section VI", "latency reduced by up to 40%"),
        "heavier tenant": Paper(0, "SCC, Fig. 8b", "almost all deadlines met"),
    },
    "divisions-load": {
        "DS, load 80%": Paper(0.25, "SCC, Fig. 4", "4x better at higher loads"),
        "CS, load 80%": Paper(0.2, "SCC, Fig. 4", "5x better at higher loads"),
    },
}


def paper(experiment: str, name: str) -> Paper:
    """Return a value of a paper."""
    return PAPERS[experiment][name]
