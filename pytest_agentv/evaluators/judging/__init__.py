"""What judges that are models have in common: questions, replies, rubrics."""
