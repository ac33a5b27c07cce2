"""Release calendars: what is due, what became of it, and who is told."""
