"""What any server of the Open Inference Protocol answers."""
