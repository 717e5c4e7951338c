"""What settings, and the files that an operator writes, are read and written with."""

# ruff: noqa: I001

from hookgate.core.settings.key_file import (
    read_key_file as read_key_file,
)
from hookgate.core.settings.paths import (
    expanded as expanded,
    users_home as users_home,
)
from hookgate.core.settings.schema import (
    HomePath as HomePath,
    PathText as PathText,
)
from hookgate.core.settings.secret_store import (
    MASK as MASK,
    MIN_MASKED as MIN_MASKED,
    looks_secret as looks_secret,
    redact_json as redact_json,
    variable_of as variable_of,
)
from hookgate.core.settings.sections import (
    nearest as nearest,
    section_of as section_of,
)
from hookgate.core.settings.toml_lines import (
    locate as locate,
)
from hookgate.core.settings.values import (
    SetValue as SetValue,
    is_within as is_within,
    set_values as set_values,
    values_of as values_of,
)
from hookgate.core.settings.whole_file import (
    write_whole as write_whole,
)
from hookgate.core.settings.words import (
    dotted as dotted,
    problems_of as problems_of,
)
