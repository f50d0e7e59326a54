"""Plain data: frozen, picklable records that know neither files nor pytest."""
