"""What an app gets: the bundle and its golden case, read again; card, plot and table beside it."""
