"""Models that describe themselves.

A field is described by the text below it, as in ::

    class Params(OperationModel):
        limit: int = 20
        '''How many at most.'''

pydantic's own ``use_attribute_docstrings`` reads the source of every class while it is made,
which was an eighth of a gateway's start. Here the source is read when a JSON Schema is asked
for, each module's once.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


_DESCRIBED: ContextVar[bool] = ContextVar("described", default=True)


@contextmanager
def undescribed() -> Iterator[None]:
    """Have schemas say nothing but the shape: no source is read."""
    token = _DESCRIBED.set(False)
    try:
        yield
    finally:
        _DESCRIBED.reset(token)


class Documented(BaseModel):
    """Base of models that are described in place, refuse unknown keys and do not change.

    What checks values is made when the first one comes, since most operations are never called;
    in a plugin's own package it is made at once, so that an error is found where it was made.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:
        super().__pydantic_init_subclass__(**more)
        if not cls.__module__.startswith("hookgate."):
            cls.model_rebuild(raise_errors=False)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        if not _DESCRIBED.get():
            return schema
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in _texts_of(cls).items():
            field = cls.model_fields[name]
            if field.description is not None:
                continue
            for key in {name, field.alias, field.validation_alias, field.serialization_alias}:
                if isinstance(key, str) and key in properties:
                    properties[key]["description"] = text
        return schema


def _texts_of(model: type[Documented]) -> dict[str, str]:
    """Return the texts below the fields of `model`; the nearest class that has a field counts."""
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not issubclass(owner, Documented) or owner is Documented:
            continue
        found = _texts_in(owner.__module__).get(owner.__qualname__, {})
        for name in inspect.get_annotations(owner):
            texts.pop(name, None)
            if name in found and name in model.model_fields:
                texts[name] = found[name]
    return texts


_PARSING = Lock()
"""CPython 3.11 counts how deep a tree is for all threads together, so two that parse at once may
end in "AST constructor recursion depth mismatch"."""


@lru_cache(maxsize=256)
def _texts_in(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts below the fields of every class of a module, by the class's name.

    Nothing is known of classes without a source, such as those of an interactive session.
    """
    try:
        source = inspect.getsource(sys.modules[module])
        with _PARSING:
            try:
                tree = ast.parse(source)
            except SystemError:
                tree = ast.parse(source)  # somebody else's thread has parsed meanwhile
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    return dict(_classes(tree, ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            name = f"{prefix}{child.name}"
            yield name, _texts(child)
            yield from _classes(child, f"{name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _classes(child, prefix)


def _texts(node: ast.ClassDef) -> dict[str, str]:
    texts, last = {}, ""
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                last = name
                continue
            case ast.Expr(value=ast.Constant(value=str(text))) if last:
                texts[last] = inspect.cleandoc(text)
        last = ""
    return texts
