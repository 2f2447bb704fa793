"""Is a file right, and what does it cost: compared with Keras, block by block, timed."""
