"""Devices of plugins: granted, refused and given back as the device manager must."""
