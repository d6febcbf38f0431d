"""What all models of a scenario share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """Keys in camelCase as in Kubernetes; no key that is not known; no value of another type."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        strict=True,
        use_attribute_docstrings=True,
    )
