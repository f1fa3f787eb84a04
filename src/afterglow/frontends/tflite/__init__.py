"""The TFLite front end: `.tflite` files as definitions of TFLite's builtin ops.

Only what reads a file (`reader.py`) needs the library `tflite`; importers do not.
"""
