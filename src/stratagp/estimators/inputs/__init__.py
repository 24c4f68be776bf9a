"""How what users hand over becomes points that kernels see: tables, images, lists of objects, views."""
