"""Is learning worth it?"""
