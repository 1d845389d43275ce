"""Generation: evidence and a question become an answer, token by token, through llama.cpp."""
