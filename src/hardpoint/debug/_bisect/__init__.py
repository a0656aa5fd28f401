"""Bisect: one run of the program (`trial`), the runs and their memory (`trials`), minimal sets (`minimize`)."""
