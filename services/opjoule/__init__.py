"""opjoule"""
