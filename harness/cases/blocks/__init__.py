"""Building blocks that families share: rows, trees, pages, requests, plans. No family is defined here."""
