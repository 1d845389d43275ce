"""Answers for other applications on this computer: HTTP as OpenAI's API has it, on 127.0.0.1, when the user wants it.

Editors, note takers and scripts speak it already. Their questions wait in the same queues as those of the window, read
the same kept KV, and are answered beside them; a model's name with ":files" behind it answers from the library. Texts
of theirs are embedded as documents are.
"""
