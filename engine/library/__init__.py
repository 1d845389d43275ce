"""The library: folders are scanned, files parsed in child processes, texts chunked, chunks embedded and written."""
