"""Runs waiting and at work: their life, the workers that do them, schedules that submit them."""
