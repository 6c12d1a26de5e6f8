-- For the session that detaches: rather come back later than queue up in front of writers.
SET lock_timeout = '10s'
