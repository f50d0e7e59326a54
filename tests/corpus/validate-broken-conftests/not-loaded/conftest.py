raise RuntimeError('loaded')
