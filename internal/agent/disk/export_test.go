package disk

// Hold makes the disk of a Store hang until the returned function is called.
func Hold(s *Store) (release func()) {
	s.appending <- struct{}{}
	return func() { <-s.appending }
}
