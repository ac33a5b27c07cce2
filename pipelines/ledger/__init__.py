"""The ledger of privacy: what has been spent on which data set, in a file that nobody can change unseen."""
