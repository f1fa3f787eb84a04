"""The PyTorch front end: exported programs and modules, as definitions of ATen's ops.

Only what translates a program (`translate.py`) needs the library `torch`; importers do not.
"""
