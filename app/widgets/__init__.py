"""How things are shown: one module per idea, each takes values or one model and reports wishes by signals."""
