"""Parsers: one module per family of formats, told apart by content, run in child processes with limits.

A family is a module with `parse(path, limits) -> ParsedDocument`; it raises a `DocumentUnreadable` whose
sentence says what is wrong with the file. To add one: write the module, name it in `families.FAMILIES`,
and let `sniff` recognise the content if it does not yet. Nothing outside of this package parses anything,
and this package is only imported by `child` (parsers) and by the indexer (`pool`).
"""
