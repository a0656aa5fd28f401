"""Projects of a chip team and of an operator's author: ``hardpoint new``, and what builds, tests and checks them."""
