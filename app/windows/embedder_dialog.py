"""Downloads and chooses the embedding model, and says in advance what that means for the library."""

from __future__ import annotations

from app.widgets.embedder_row import EmbedderRow
from app.windows.hub_folder_dialog import HubFolderDialog, Words

SETTING = "embedder.model"


class EmbedderDialog(HubFolderDialog):
    """A dialog whose `chosen` carries "" for the model that comes with Ragdoll."""

    setting = SETTING
    row_type = EmbedderRow

    def _words(self) -> Words:
        return Words(
            title=self.tr("Embedding model"),
            heading=self.tr("Another embedding model"),
            consequence=self.tr(
                "All files are re-indexed in the background. That takes about as long as indexing them did, and longer "
                "with a larger model. The current model is used until then, and you can go back. Languages other than "
                "English are found by meaning only with a multilingual model."
            ),
            others=self.tr(
                "Any other model for sentence-transformers: OWNER/NAME or its link on the hub, a folder that contains "
                "it, or the name of one on this computer."
            ),
            field=self.tr("Name, link or folder of the embedding model"),
            none=self.tr("the built-in one"),
            use_none=self.tr("Use the built-in one"),
        )
