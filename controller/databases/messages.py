# SPDX-License-Identifier: Apache-2.0
"""What a message of a database has to look like before it is taken in: shapes, no meanings.

python-ovs keeps what it can read of an update and writes the whole table into the text of an error. So a message that
has not the shape of its kind ends the connection, and only an update, or the answer that brings the tables, is long.
"""

import re
from typing import Any, Optional

SHORT = 65_536  # characters of any message that brings no rows
_UPDATES = {"update": 2, "update2": 2, "update3": 3}  # parameters, the last of which are the rows by table
_CHANGES = frozenset({"old", "new", "initial", "insert", "modify", "delete"})
_UUID = re.compile("[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def fault(message: Any, size: int) -> Optional[str]:
    """Return what is wrong with a message of so many characters, None where nothing is."""
    if not isinstance(message, dict):
        return "a message that is no object"
    method, result = message.get("method"), message.get("result")
    if isinstance(method, str) and method in _UPDATES:
        params = message.get("params")
        if not isinstance(params, list) or len(params) != _UPDATES[method]:
            return f"an {method} without its {_UPDATES[method]} parameters"
        return _fault_of_tables(params[-1])
    if size <= SHORT:
        return None
    if method is not None:
        return f"a message of more than {SHORT} characters that is no update"
    found = _fault_of_tables(result[2] if isinstance(result, list) and len(result) == 3 else result)
    return found and f"an answer of more than {SHORT} characters with {found}"


def _fault_of_tables(tables: Any) -> Optional[str]:
    """Return what is wrong with rows by table."""
    if not isinstance(tables, dict):
        return "rows that are in no table"
    for rows in tables.values():
        if not isinstance(rows, dict):
            return "a table whose rows have no names"
        for name, row in rows.items():
            if not _UUID.fullmatch(name):
                return "a row whose name is no UUID"
            if not isinstance(row, dict) or not row.keys() <= _CHANGES:
                return "a row that neither comes, changes nor goes"
            for columns in row.values():
                if columns is not None and not isinstance(columns, dict):
                    return "a row whose columns have no names"
    return None
