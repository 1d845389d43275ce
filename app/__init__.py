"""The window: what people see and touch; it talks to the engine over a pipe and holds no document itself."""
