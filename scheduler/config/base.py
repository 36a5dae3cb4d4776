"""ConfigurationModel: the base of every part of the configuration.

For the modules beside it, and for the arguments of plugins.
"""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ConfigurationModel(BaseModel):
    """Base of all parts: strict and immutable; camelCase in files, snake case in Python."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
    )
