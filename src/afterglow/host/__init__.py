"""The host: many models and many requests at once, on the devices of one machine."""
