"""What a plan is: its parts, its documents, and the tables by which it is judged."""
