"""Files of a question that are no longer in the library: looked up by their paths, because they may be back.

A folder that is removed from the library and added again gets new document ids. A document at the same path is taken
as the same file; one that is still to be read waits; any other counts as gone once another file has answered.
"""

from __future__ import annotations

from engine.protocol import PathState

# So many in a row mean that a folder is missing, and not that the user has deleted files.
MOST_GONE = 20


class MissingFiles:
    """The missing files of one question, each with the reason why it was not answered.

    Attributes:
        gone: Nothing at their paths can be asked.
        unread: They are in the library and wait to be indexed.
    """

    def __init__(self) -> None:
        self.gone: dict[str, str] = {}
        self.unread: dict[str, str] = {}
        self._wanted: dict[str, str] = {}
        self._sought: dict[str, str] = {}
        # Files and documents that were found once, so that they are not looked up endlessly.
        self._found = set[tuple[str, int]]()
        self._has_sought_unread = False

    def note(self, file_id: str, reason: str) -> None:
        """Notes that a file is missing and has to be looked up."""
        self._wanted[file_id] = reason

    def is_sought(self, file_id: str) -> bool:
        """Returns whether a file is being looked up, or will be."""
        return file_id in self._wanted or file_id in self._sought

    @property
    def are_sought(self) -> bool:
        return bool(self._wanted or self._sought)

    @property
    def sought(self) -> tuple[str, ...]:
        """Returns the files that are being looked up, in order."""
        return tuple(self._sought)

    def begin_search(self) -> tuple[str, ...]:
        """Returns the files to look up now; none while others are being looked up."""
        if self._sought:
            return ()
        self._sought, self._wanted = self._wanted, {}
        return self.sought

    def end_search(self) -> tuple[str, ...]:
        """Abandons the search, and returns the files that were being looked up."""
        ended, self._sought = self.sought, {}
        return ended

    def settle(self, file_id: str, state: PathState) -> bool:
        """Notes what is at a file's path now; returns whether it can be asked."""
        reason = self._sought.pop(file_id)
        document_id = state.document_id
        if state.state == "read" and document_id is not None and (file_id, document_id) not in self._found:
            self._found.add((file_id, document_id))
            self._has_sought_unread = False
            return True
        (self.unread if state.state in ("waiting", "resting") else self.gone)[file_id] = reason
        return False

    def seek_unread(self) -> bool:
        """Queues the waiting ones to be looked up again; returns False if that was done and none could be asked."""
        if self._has_sought_unread or not self.unread:
            return False
        self._has_sought_unread = True
        self._wanted |= self.unread
        self.unread = {}
        return True

    def take_gone(self) -> dict[str, str]:
        """Returns the files that are gone, and no longer tracks them."""
        gone, self.gone = self.gone, {}
        return gone
