# SPDX-License-Identifier: Apache-2.0
"""Datagrams of real sFlow agents, recorded in network namespaces: each behind its length in two bytes, packed by zlib.

``HSFLOWD``: host-sflow 2.1.25, mod_pcap on a veth of ifIndex 4, "l2": it names the data source only.
``OPENVSWITCH``: Open vSwitch 3.1 with two bridges, of datapath ids 1 and 2: it tells OpenFlow numbers.
"""

import base64
import struct
import zlib


def unpack(text: str) -> list[bytes]:
    """Return the datagrams of a recording."""
    data, found = zlib.decompress(base64.b64decode(text)), []
    while data:
        length = struct.unpack_from("!H", data)[0]
        found.append(data[2 : 2 + length])
        data = data[2 + length :]
    return found


OPENVSWITCH = unpack(
    "eNrd1D1o1VAUB/CTm+Q1/dDX50tsF6GoiJRSahXs4NDFDlqkg9QijoJLlUKXbi26dugkQged3UShdBHEpUOhpRSdFJVCLbXgpA7i896T+/Ak7x"
    "YUco6QC+fdvBtukh85+aufABDq8uZ1QTrqAGMTeg50KV23zJoC/3P6P1rW81ldp2yBd2IIDh/RY/3Tq6vHXhMaephjO5t7rKf3hTZy3wvNKzT+"
    "YQD4X/SWLrtVmxq/9NqBeRBz3dlzzXWYsvermPXrnTvN9ZZhn7PlmD5bbgs1hcWbTP0xTWdNocPk28dasnsOMaXn/8KkGEyKmmayJsVhUq7ujw"
    "GujOS6P3Z0/+mCuz8uYffHJez+uDTd/yjX/V76bWP3+7nvPSpYrFo6czgjjgRyOSjelH2L01lTIJDLPoMp87XNZE2+WC4nANf6crmcOHL5TMG5"
    "nJQwl5MS5nJSllwOBxy5PAneeDMTzf9NI9Xdv6fnDtv5YPU2u/Fct6NxzP6ldA6O2z0Lk713Vi6qwQ/w/O73CC77QXB1dRRGa2/79eU9XerZA2"
    "j3v+6en2MZxBUS1zCD6zW6+sRdFeK6xODaQFcs7mojrjEG1xa6auKuiLgmGFzb6KqKu9qJ6yaD6x26KjIuZ1recKRlB1HfZlAfGPWbb+Jvs5O4"
    "7jG4fqBrX9zVRVxzxbvGPXR9EncdIa77DC6Fro/irqPEtcjgCtH1XtxVJa6HDK4qurb/Y1pOOdKym6ifMKjrqN4Uf5s14nrK4IrRtSHuOkZcLx"
    "hcPehaF3fVieslg+skul6Ju2LiWmNw9aNrVdyVENcWg2sAXSsyrt/oqUIh"
)

HSFLOWD = unpack(
    "eNrFl11oVEcUx8/eezd3d43rRiWuNfUjPriuSXBDVg0G3ZVNXfCjUURCiZDaaNCaaDCGKBqzfYgUBMVoS4lQH/xKJGLb+NEiEtSHPESwmLYmqe"
    "i2olKMCCKp0mrPzM6am8nVnRG9HZiZO+fMnZnfnP+d2YWjAGDHbHM5nTawNR0hzwBaZ6IGDXMjewbWVgDUAawd5HlTPrUTfynzpxH7qlF3k3YV"
    "DOklS8b2m/xkDOWCySpxFc76oVUqB9mzwmoXgP4zWxEmvQ+LLADvXqwbEraJLhiW9F4sitj7XWDr6WQr+ZA4MWcaFnU6kV8l5tNvYlExNAdNDS"
    "CeGlK0jev9DYuljDkEMGmOeT9ip75dqafXf8GiAPOCF4XXicHT3xwiW9cC9vv/EPBPnVexWzANtJc/kf11zMdwqFOvobEH21ESqz++SahlRnvj"
    "sNHtG6bSzdt95s7IqUsX1dgU9wPDWm5gURIOXN4X9u2Ihx3dOAe4McdZ/K8AjG4D/58bwa97wN26EtLc9zCECU1CwXJY3J2hbgvUAXRcMoz7Kx"
    "Y+1njOK3SkTb/O9kSpqwJYVxNvWVezouUYreMtrC+JwZg5eYF5eQUFues/y60LFgZByzJR7iSAAxH2VlK5Y1MrdyLxxZhy9wgqNzsxHniHvl+l"
    "KJFfJS+n3JjBF5NQbixF+w3KzYqY9yN26nsr5Xbdp8o9AfanE8jerF3Tgd3mDoJ9ejHZiwkdqEbV126mXLVy9nDlbi+hym2uLTdR7tdVNvuAY4"
    "Ry5z29EvbHo2HXvjJsj8M8YFBuN8zSK8B/oQncfSc55fZBdOtBNRbKBTi730y5tvSjGMtFOcZl2NJba9G28F0ol/l6hp/9MzyJbJpwHI0wOrwP"
    "PTmby07dZO/uZ3dKZvI+We2tPD9XybsDP1QNOqBY1bRnOSEIZcw87yJfCo7013Nwqo/bL9a/l2S418a9/l6j313qe62ttRpg5uDr77UsMk+m2b"
    "1mj5icDjhL9jQ2m0kE6NfsEohAsPfci5PiEfh4OonAjc5kBI4Vkgg82fXeIpBkUzi28SJsfdP+jUqw+Snbj5azqRzbZCG29R90SbAVUrY2y9k0"
    "js0nxHZ44LEEWxFlO2E5m51jyxdi6/9SRpMRyvat5WxpHFuRENuzBZ0SbMsp2yFr2ExPUfy1nh3gTlGdI/9IhLz/+O2/JcjLKPkey6Pq4NhKRN"
    "h+j/SWS7BtoWxbLWdzcmyfCLEVa6USbLWUbbPlbC6OrUKMLd0nwbaNslVbzjaKY6sWY/N4JNjqKFuV5WzpHFu9GNuUMxJs9ZTt8//xFMVTJXsZ"
    "d4qO5si/ECIv390oQb6TkldaHlU3x7ZXiO3ctZAEWxNlW2M52xiO7SsRtltLglsk2A5QthWWs3k4tiNibFGZm72ZspVYzpbBsbUJsT3yyvz3+4"
    "6y5VvONpZj6xBjm+2VYPuesgWsYfsPrJciYA=="
)
