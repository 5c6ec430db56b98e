# SPDX-License-Identifier: Apache-2.0
"""The web page: a few files that hold no data; what they show they ask for, with the operator's token if one is set."""

import pathlib

import falcon

from sdngcc.controller.rest.resource import Head

FOLDER = pathlib.Path(__file__).with_name("static")
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing but the page's own files, no inline script or style, in nobody's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


class _File(Head):
    """One file of the page."""

    def __init__(self, path: pathlib.Path) -> None:
        self._type = TYPES[path.suffix]
        self._bytes = path.read_bytes()

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Send the file."""
        response.content_type = self._type
        response.set_header("Content-Security-Policy", POLICY)
        response.data = self._bytes


def add_to(app: falcon.App) -> None:
    """Serve the page at / and its files under /page."""
    app.add_route("/", _File(FOLDER / "index.html"))
    for path in sorted(FOLDER.iterdir()):
        app.add_route(f"/page/{path.name}", _File(path))
