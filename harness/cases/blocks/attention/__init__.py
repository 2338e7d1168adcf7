"""Building blocks of attention: row layouts, masks, leaning queries, requests, sampled rows."""
