"""Lists and watch events from bytes, so that one bad object costs only itself.

For reflectors and the reconciler.  The usual case is one typed decode of a whole page, or of a line with its object; only if
that fails are the objects decoded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from scheduler.model.api import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable


class ObjectKey(msgspec.Struct, frozen=True, gc=False):
    """What names an object, and in which version it was seen; the garbage collector need not know of it."""

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
_SIGNALS = frozenset({"BOOKMARK", "ERROR"})


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
class WatchEvent:
    """A line of a watch that is no change: a bookmark, an error, what cannot be decoded, or no event at all."""

    type: str
    key: ObjectKey | None = None
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


@cache
def _event_type(kind: type) -> type:
    """Return the type of a line of a watch of an object type."""
    return msgspec.defstruct(f"{kind.__name__}Event", [("type", str), ("object", kind)])


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


def change_reader(kind: type[T]) -> Callable[[bytes], tuple[str, T] | None]:
    """Return what reads a line of a watch that is a change: its type (ADDED, MODIFIED, DELETED), and the object.

    Of all other lines it makes None: `other_event` tells what they are.
    """
    decode = _decoder(_event_type(kind)).decode

    def read(line: bytes) -> tuple[str, T] | None:
        try:
            event = decode(line)
        except msgspec.MsgspecError:
            return None
        return None if event.type in _SIGNALS else (event.type, event.object)

    return read


def other_event(line: bytes, kind: type) -> WatchEvent:
    """Return a line that is no change as an event; never raises."""
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
        _decoder(kind).decode(raw)
    except msgspec.MsgspecError as error:
        return WatchEvent(event.type, key=_key_of_raw(raw), problem=str(error))
    return WatchEvent("", problem="the line is no event")


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
