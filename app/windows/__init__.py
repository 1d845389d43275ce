"""What is arranged: the window, its pages and its dialogs."""
