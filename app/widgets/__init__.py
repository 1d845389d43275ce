"""How things are shown: one module per idea, each taking values or one model and telling by signals what was wished."""
