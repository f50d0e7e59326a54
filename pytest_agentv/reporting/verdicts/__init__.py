"""What a run may claim: cases read from results, baselines, gates, and the lines that tell of them."""
