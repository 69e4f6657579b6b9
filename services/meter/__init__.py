"""meter"""
