"""What goes over a wire and into a store: strict JSON, schemas, content."""

# ruff: noqa: I001

from hookgate.core.domain.parts import (
    MEDIA as MEDIA,
    CONTENT_FORMS as CONTENT_FORMS,
    Raw as Raw,
    TextForm as TextForm,
    TextFrames as TextFrames,
    WirePart as WirePart,
    came_as as came_as,
    content_from_json as content_from_json,
    content_to_json as content_to_json,
    left_out as left_out,
    parts_of as parts_of,
    raws_together as raws_together,
    with_texts as with_texts,
    wrong_in_content as wrong_in_content,
)
from hookgate.core.domain.strict_json import compile_schema as compile_schema
from hookgate.core.settings.documented import Documented as Documented
from hookgate.core.domain.strict_json import (
    StrictJSONError as StrictJSONError,
    canonical as canonical,
    dumps as dumps,
    loads as loads,
    well_formed as well_formed,
)
