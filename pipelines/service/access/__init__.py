"""Who asks: tokens, sessions, providers of identities."""
