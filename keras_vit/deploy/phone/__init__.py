"""Measures bundles on a phone that is connected by adb."""
