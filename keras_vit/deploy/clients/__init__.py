"""Programs that run a `.tflite` file by itself, knowing it only by its TFLite Metadata."""
