"""What importers of several formats emit alike: functions of values, blind to a model's dialect."""
