"""Bisect: one run of the program (`trial`), all runs and their outcomes (`history`), minimal sets (`minimize`)."""
