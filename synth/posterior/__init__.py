"""What published counts tell of homes: the estimate, its rounding, and draws from its posterior."""
