package intent

// Once keeps what was found out, by what was asked. The zero value knows nothing.
type Once[K comparable, V any] map[K]V

// Get returns what is known, or else finds it out.
func (o *Once[K, V]) Get(key K, find func() V) V {
	v, known := (*o)[key]
	if !known {
		v = find()
		if *o == nil {
			*o = Once[K, V]{}
		}
		(*o)[key] = v
	}
	return v
}
