"""A gateway with all that comes with hookgate, as a value for other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hookgate.builtin_plugins import BUILTIN, TOOLS
from hookgate.core.domain.ports import FACES
from hookgate.core.host import Host
from hookgate.core.runtime import Runtime

if TYPE_CHECKING:
    from hookgate.core.settings.schema import Settings
from hookgate.kit.content.faces import Faces
from hookgate.sessions import offer_in_process


def _offer(host: Host) -> None:
    offer_in_process(host)
    host.provide(FACES, Faces(host))


class Gateway(Runtime):
    """A gateway with the builtin plugins.

    Use it in a script or a test::

        async with Gateway() as gateway:
            turn = await gateway.chat("what is 17*23?")
            print(turn.answer)

    or put it into an aiohttp application of your own::

        parent.add_subapp("/ai", gateway.app())
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        builtin: Sequence[str] = BUILTIN,
        plugins: Sequence[object] = (),
        disabled: Sequence[str] = (),
        read_settings: Callable[[], Settings] | None = None,
        for_command: bool = False,
        listens: bool = False,
    ) -> None:
        """See `hookgate.core.runtime.Runtime`; `builtin` is all that there is."""
        super().__init__(
            settings,
            builtin=builtin,
            plugins=plugins,
            disabled=disabled,
            read_settings=read_settings,
            for_command=for_command,
            listens=listens,
            reserved_tools=TOOLS,
            offer=_offer,
        )
