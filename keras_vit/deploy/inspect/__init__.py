"""What a file is: its flatbuffer, the runtimes that run it, what each delegate takes."""
