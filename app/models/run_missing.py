"""Files of a question that the library does not have any more: looked for where they lay, for they may have come back.

A folder that is taken out of the library and added again comes back as other documents. What lies where a file lay is
that file; what is still to be read waits; of all others it is known only for sure once another file has answered.
"""

from __future__ import annotations

from engine.protocol import PathState

# So many in a row mean that a folder is missing, and not that the user has deleted files.
MOST_GONE = 20


class MissingFiles:
    """The missing files of one question, each with the reason why it was not answered.

    Attributes:
        gone: Nothing is at their paths that could be asked.
        unread: They are in the library and wait to be indexed.
    """

    def __init__(self) -> None:
        self.gone: dict[str, str] = {}
        self.unread: dict[str, str] = {}
        self._wanted: dict[str, str] = {}
        self._sought: dict[str, str] = {}
        # A file that was found and is missing again is not looked for for ever.
        self._found = set[tuple[str, int]]()
        self._has_sought_unread = False

    def note(self, file_id: str, reason: str) -> None:
        """A file is missing, and is to be looked for."""
        self._wanted[file_id] = reason

    def is_sought(self, file_id: str) -> bool:
        """Whether a file is being looked for, or is to be."""
        return file_id in self._wanted or file_id in self._sought

    @property
    def are_sought(self) -> bool:
        return bool(self._wanted or self._sought)

    @property
    def sought(self) -> tuple[str, ...]:
        """Those that are being looked for, in the order in which that was begun."""
        return tuple(self._sought)

    def begin_search(self) -> tuple[str, ...]:
        """Those to look for now; none while others are being looked for."""
        if self._sought:
            return ()
        self._sought, self._wanted = self._wanted, {}
        return self.sought

    def end_search(self) -> tuple[str, ...]:
        """Abandons the search for those that were being looked for."""
        ended, self._sought = self.sought, {}
        return ended

    def settle(self, file_id: str, state: PathState) -> bool:
        """What lies where a file lay; whether it can be asked now."""
        reason = self._sought.pop(file_id)
        document_id = state.document_id
        if state.state == "read" and document_id is not None and (file_id, document_id) not in self._found:
            self._found.add((file_id, document_id))
            self._has_sought_unread = False
            return True
        (self.unread if state.state in ("waiting", "resting") else self.gone)[file_id] = reason
        return False

    def seek_unread(self) -> bool:
        """Has the waiting ones looked for again; False if that was done and none could be asked."""
        if self._has_sought_unread or not self.unread:
            return False
        self._has_sought_unread = True
        self._wanted |= self.unread
        self.unread = {}
        return True

    def take_gone(self) -> dict[str, str]:
        """Those that are gone, which are not tracked any more."""
        gone, self.gone = self.gone, {}
        return gone
