"""The HTTP API for other applications on this computer, compatible with OpenAI's, on 127.0.0.1, off by default.

Editors, note takers and scripts support it already. Their questions wait in the same queues as those of the window, use
the same KV cache, and are answered alongside them; a model's name followed by ":files" answers from the library. Texts
of theirs are embedded as documents are.
"""
