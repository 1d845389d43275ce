"""The input and output of a search: queries, filters and results."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.core import Filters, Passage, Scope
from engine.retrieval.breadth import Breadth
from engine.retrieval.calibration import Strength
from engine.retrieval.followups import ABOUT_THE_ANSWER

ANYWHERE = Filters()
NO_STRENGTH = Strength()


@dataclass(frozen=True, slots=True)
class Query:
    """A search for `text` in one collection, or in all; `limit` None means the number of passages of the settings.

    `asked` is the text whose words filter the search, if that is another one. `breadth` None is the broadest.
    `together`, `inherits`, `above`, `told`, `own` and `questions` as in `followups.Subject`.
    """

    text: str
    collection: str | None = None
    limit: int | None = None
    filters: Filters = ANYWHERE
    asked: str = ""
    breadth: Breadth | None = None
    together: str = ""
    inherits: bool = False
    above: tuple[Passage, ...] = ()
    told: str = ""
    own: str = ""
    questions: str = ""

    @property
    def by_itself(self) -> Query:
        """The same query as if there were no answer above it."""
        if not self.own:
            return replace(self, above=())
        return Query(self.own, self.collection, self.limit, self.filters, breadth=self.breadth)


@dataclass(frozen=True, slots=True)
class Place:
    """A collection and filters, and a description for users of those found in the question's own words."""

    collection: str | None = None
    filters: Filters = ANYWHERE
    recognised: tuple[str, ...] = ()


NOWHERE_SAID = Place()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages best first, how much of the library they come from, and how well the best of each ranking fits.

    If one document is read through (`Scope.reads_through`), they are in the order of its text. `recognised`: the
    filters in force from the query's own words, as in `Scope`; `surely`: the place without filters that may have been
    misread. `asks_whole`: all of the document was asked for. `follows` describes for users how it relates to the
    conversation. `is_by_itself`: it is the result of `Query.by_itself`.
    """

    passages: tuple[Passage, ...]
    scope: Scope
    strength: Strength = NO_STRENGTH
    recognised: tuple[str, ...] = ()
    surely: Place = NOWHERE_SAID
    asks_whole: bool = False
    follows: str = ""
    is_by_itself: bool = False

    @property
    def told(self) -> Scope:
        """The scope as it is shown to users."""
        follows = (self.follows,) if self.follows else ()
        return replace(self.scope, recognised=(*follows, *self.scope.recognised))

    @property
    def has_given_up(self) -> bool:
        """Whether the query's own words set filters, and the search ran without them."""
        return bool(self.scope.recognised) and not self.recognised

    @property
    def stands_above(self) -> bool:
        """Whether nothing was searched for."""
        return self.follows == ABOUT_THE_ANSWER

    @property
    def is_doubtful(self) -> bool:
        """Whether some filter words may have another meaning: a type, a date or "notes.txt" may, other names hardly.

        A question that asks for all of a document has meant it.
        """
        return bool(self.doubtful) and not self.asks_whole

    @property
    def doubtful(self) -> tuple[str, ...]:
        return tuple(told for told in self.recognised if told not in self.surely.recognised)
