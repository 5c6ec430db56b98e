# SPDX-License-Identifier: Apache-2.0
"""What PATCH /v1/vms takes and answers."""

from typing import Annotated, Literal, Optional

import pydantic

from sdngcc.controller.rest import models


class BulkEntry(models.PolicyChange):
    """A change of one of many VMs."""

    vm: Annotated[str, pydantic.Field(min_length=1, max_length=255)] = pydantic.Field(
        description="any name of it; each VM once"
    )


class BulkChange(pydantic.BaseModel):
    """The body of PATCH: changes of many VMs."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    changes: Annotated[list[BulkEntry], pydantic.Field(min_length=1, max_length=models.BULK_MAX)]


class BulkResult(models.Answer):
    """What came of the change of one VM."""

    vm: str = pydantic.Field(description="the name that the request gave it")
    id: str
    place: str = pydantic.Field(description="<switch>:<port name>")
    status: int = pydantic.Field(description="that a PUT of this change alone would have had")
    result: Literal["stored", "refused", "unknown"]
    error: Optional[str] = None
    stored: Optional[models.StoredPolicy] = pydantic.Field(None, description="as it is now; null: not known")


class BulkAnswer(models.Answer):
    """What came of the changes of many VMs, in the order of the request."""

    results: list[BulkResult]
    stored: models.Count
    refused: models.Count
    unknown: models.Count
