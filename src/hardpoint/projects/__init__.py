"""Device and operator projects: ``hardpoint new``, and the commands that build, test and check them."""
