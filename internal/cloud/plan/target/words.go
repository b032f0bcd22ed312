package target

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
