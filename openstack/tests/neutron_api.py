# SPDX-License-Identifier: Apache-2.0
"""The real Neutron API with sqlite and without Keystone; run by Neutron's own Python.

    python neutron_api.py SETTINGS DATABASE PORT

SETTINGS is Neutron's configuration, DATABASE an empty sqlite file's name. It serves neutron.wsgi.api by wsgiref.
"""

import os
import socketserver
import sys
from wsgiref import simple_server

import sqlalchemy
from neutron.db.migration.models import head


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """A thread for each request."""

    daemon_threads = True


def main():
    """Serve until killed."""
    settings, database, port = sys.argv[1:]
    head.get_metadata().create_all(sqlalchemy.create_engine(f"sqlite:///{database}"))
    os.environ["OS_NEUTRON_CONFIG_DIR"], os.environ["OS_NEUTRON_CONFIG_FILES"] = os.path.split(settings)
    del sys.argv[1:]
    from neutron.wsgi.api import application

    with simple_server.make_server("127.0.0.1", int(port), application, Server) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
