def lengths(words): ...  # runs in Node: Python only needs something of this name to pickle
