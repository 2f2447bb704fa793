"""The fuzzer: `driver` knows nothing of kinds, `kinds` nothing of processes, see ../fuzz.py."""
