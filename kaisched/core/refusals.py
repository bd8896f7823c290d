"""The reasons why a job, a task or a node is refused: those of the host, and those of plugins.

A "no" is a value: hooks answer int16 codes, 0 meaning yes. Each code has one name users see and
one sentence, and says whether freeing room could cure it (then victims may be searched) or not.
What jobs and nodes are refused for under any policy is a :class:`Refusal`; a plugin declares the
reasons of its own as :class:`PluginRefusal`, which are numbered as they are loaded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self

from kaisched.core.refusal_codes import Refusal, RefusalText
from kaisched.core.refusal_texts import TEXTS

__all__ = [
    "FIRST_OF_PLUGINS",
    "PASSING",
    "TEXTS",
    "PluginRefusal",
    "Refusal",
    "RefusalText",
    "code_named",
    "freeable_codes",
    "highest_code",
    "lasting_codes",
    "text_of",
]


class PluginRefusal(int):
    """A plugin's own reason: the code that its gates and filters answer, with its text.

    Made once, when a module of the plugin is imported, and listed in the plugin's ``refusals``.
    The codes are numbered per process, in the order of loading: they must not be stored.
    """

    text: RefusalText

    def __new__(
        cls,
        name: str,
        sentence: str,
        *,
        cure: str,
        is_freeable: bool = False,
        tried: tuple[str, ...] = (),
        is_retried: bool = False,
        is_weak: bool = False,
        is_lasting: bool = False,
    ) -> Self:
        """Declare a new reason and number it.

        Args:
            name: the name that users see, in CamelCase, unique in the host and the plugin.
            sentence: the reason; used if the plugin gives no sentence with numbers.
            cure: what a user can do about it.
            is_freeable: room that other jobs give back could cure it.
            tried: the kinds of change that the plugin's ``proposals`` may name for it.
            is_retried: a victim that it spares may be taken in the next pass of the search.
            is_weak: any other reason to spare victims is more informative.
            is_lasting: neither the end nor the start of other work could lift it.

        """
        made = super().__new__(cls, FIRST_OF_PLUGINS + len(_OF_PLUGINS))
        made.text = RefusalText(
            name, sentence, cure, is_freeable, tried, is_retried, is_weak, is_lasting=is_lasting
        )
        _OF_PLUGINS.append(made)
        return made

    def claim(self, plugin: str) -> None:
        """Assign the refusal to a plugin.

        Raises:
            ValueError: it belongs to another plugin.

        """
        if self.text.plugin not in ("", plugin):
            raise ValueError(f"refusal {self.text.name} is listed by plugin {self.text.plugin} too")
        self.text = replace(self.text, plugin=plugin)


FIRST_OF_PLUGINS: Final = 1000
_OF_PLUGINS: Final[list[PluginRefusal]] = []


def text_of(code: int) -> RefusalText:
    """Return the text of a code; an undeclared code counts as a plugin's without a text."""
    if (known := TEXTS.get(code)) is not None:
        return known
    at = code - FIRST_OF_PLUGINS
    return _OF_PLUGINS[at].text if 0 <= at < len(_OF_PLUGINS) else TEXTS[Refusal.PLUGIN]


def code_named(name: str, plugin: str = "") -> int:
    """Return the code of a name among a plugin's, or the host's; 0 if there is none."""
    if not plugin:
        return _CODE_OF_NAME.get(name, 0)
    own = (int(it) for it in _OF_PLUGINS if (it.text.plugin, it.text.name) == (plugin, name))
    return next(own, _CODE_OF_NAME.get(name, 0))


def highest_code() -> int:
    """Return the largest code in use."""
    return int(_OF_PLUGINS[-1]) if _OF_PLUGINS else int(max(Refusal))


def freeable_codes() -> list[int]:
    """Return the codes that freed room could cure, including those of loaded plugins."""
    own = [int(each) for each in _OF_PLUGINS if each.text.is_freeable]
    return [int(code) for code, text in TEXTS.items() if text.is_freeable] + own


def lasting_codes() -> list[int]:
    """Return the codes that no other work could lift, including those of loaded plugins."""
    own = [int(each) for each in _OF_PLUGINS if each.text.is_lasting]
    return [int(code) for code, text in TEXTS.items() if text.is_lasting] + own


_CODE_OF_NAME: Final = {text.name: int(code) for code, text in TEXTS.items()}
PASSING: Final = tuple(int(code) for code, text in TEXTS.items() if text.is_passing)
"""Codes of the host that end once a leaving pod is gone."""
