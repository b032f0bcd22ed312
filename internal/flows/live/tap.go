package live

import analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"

// maxTap bounds the entries that wait for a reader.
const maxTap = 50_000

// Tap returns a channel of all that is taken in from now on. What is not taken out in time is lost,
// and counted. Taps are made before the first report.
func (s *Store) Tap() <-chan *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	tap := make(chan *Entry, maxTap)
	s.taps = append(s.taps, tap)
	return tap
}

// Told is an entry as for a caller who may see everything.
func Told(e *Entry) analysis.SeenFlow {
	x, _ := (&filter{sight: Sight{All: true}}).see(e)
	return x
}

// pour hands an entry to the taps.
func (s *Store) pour(e *Entry) {
	for _, tap := range s.taps {
		select {
		case tap <- e:
		default:
			s.losses.Unlogged++
		}
	}
}
