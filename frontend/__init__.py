"""The browser app and the view that serves its shell."""
