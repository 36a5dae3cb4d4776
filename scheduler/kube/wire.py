"""Lists and watch events from bytes, so that one bad object costs only itself.

For reflectors and the reconciler.  The usual case is one typed decode of a whole page; only if that fails are its
objects decoded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from scheduler.model.api import ObjectMeta


class ObjectKey(NamedTuple):
    """What names an object, and in which version it was seen."""

    uid: str
    namespace: str
    name: str
    version: str = ""

    @property
    def name_key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_HasMetadata)


class ListMeta(msgspec.Struct, rename={"version": "resourceVersion", "next_page": "continue"}):
    """The metadata of a list."""

    version: str = ""
    next_page: str = ""


class _RawPage(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct):
    """The least that is read of an object."""

    metadata: ObjectMeta = ObjectMeta()


class WatchFailure(msgspec.Struct):
    """The Status object of an ERROR event."""

    code: int = 0


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    version: str
    next_page: str
    refused: list[tuple[ObjectKey, str]]


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One line of a watch; `obj` is None for a bookmark, an error and what cannot be decoded."""

    type: str
    key: ObjectKey | None = None
    obj: T | None = None
    problem: str = ""
    error: WatchFailure | None = None
    raw: bytes = b""


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _page_type(kind: type) -> type:
    """Return the list type of an object type."""
    fields = [("metadata", ListMeta, msgspec.field(default_factory=ListMeta)), ("items", list[kind] | None, None)]  # type: ignore[valid-type]
    return msgspec.defstruct(f"{kind.__name__}List", fields)


def key_in(meta: ObjectMeta) -> ObjectKey:
    """Return the key of an object."""
    return ObjectKey(meta.uid or meta.name, meta.namespace, meta.name, meta.resource_version)


def decode_page(body: bytes, kind: type[T]) -> Page[T]:
    """Return one page of a list; raises msgspec.MsgspecError only if it is no list at all."""
    try:
        typed = _decoder(_page_type(kind)).decode(body)
    except msgspec.MsgspecError:
        return _piecewise(body, kind)
    _check_list(typed.metadata)
    return Page(typed.items or [], typed.metadata.version, typed.metadata.next_page, [])


def watch_event(line: bytes, kind: type[T]) -> WatchEvent[T]:
    """Return one line as an event; never raises."""
    try:
        event = _decoder(_RawEvent).decode(line)
        raw = bytes(event.object)
        if event.type == "ERROR":
            return WatchEvent("ERROR", error=_decoder(WatchFailure).decode(raw), raw=raw)
        if event.type == "BOOKMARK":
            return WatchEvent("BOOKMARK", key=key_in(_decoder(_Named).decode(raw).metadata))
    except msgspec.MsgspecError as error:
        return WatchEvent("", problem=str(error))
    try:
        obj: T = _decoder(kind).decode(raw)
    except msgspec.MsgspecError as error:
        return WatchEvent(event.type, key=_key_of_raw(raw), problem=str(error))
    return WatchEvent(event.type, key=key_in(obj.metadata), obj=obj)


def _piecewise(body: bytes, kind: type[T]) -> Page[T]:
    """Return a page whose objects are decoded one by one."""
    page = _decoder(_RawPage).decode(body)
    _check_list(page.metadata)
    items: list[T] = []
    refused: list[tuple[ObjectKey, str]] = []
    for raw in page.items or ():
        try:
            items.append(_decoder(kind).decode(raw))
        except msgspec.MsgspecError as error:
            refused.append((_key_of_raw(bytes(raw)) or ObjectKey("", "", ""), str(error)))
    return Page(items, page.metadata.version, page.metadata.next_page, refused)


def _check_list(meta: ListMeta) -> None:
    """Raise if the JSON is not the API server's: taken for an empty list, it would remove everything there is."""
    if not meta.version:
        raise msgspec.ValidationError("the answer is no list of the API server: it has no metadata.resourceVersion")


def _key_of_raw(raw: bytes) -> ObjectKey | None:
    """Return the key of an object that cannot be decoded as a whole, if at least that can be read."""
    try:
        return key_in(_decoder(_Named).decode(raw).metadata)
    except msgspec.MsgspecError:
        return None
