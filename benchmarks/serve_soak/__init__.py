"""A long mixed load on the server: are answers right, and does memory stay the same?"""
