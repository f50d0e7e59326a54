"""The shared parts of model judges: questions, replies, rubrics."""
