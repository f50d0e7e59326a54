grep -q '"candidate_answer": *"120 euros"' && echo '{"score": 1, "hits": ["names the price"], "details": {"wordCount": 2, "none": null}}'
