"""How much of a GPU cluster can be allocated before fragments are all that is left: the openb trace on the real engine."""
