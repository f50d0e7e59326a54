"""The parts that all model judges share: questions, replies, rubrics."""
