package live

import analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"

// tapMost is how many entries wait at most for whoever takes them.
const tapMost = 50_000

// Tap returns a channel of all that is taken in from now on, as somebody sees it who may see
// everything. What is not taken out in time is lost, and counted. There is one tap; it is made
// before the first report.
func (s *Store) Tap() <-chan analysis.SeenFlow {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tap = make(chan analysis.SeenFlow, tapMost)
	return s.tap
}

// pour hands an entry to the tap.
func (s *Store) pour(w *window, k key, r *row) {
	if s.tap == nil {
		return
	}
	x, _ := (&filter{sight: Sight{All: true}}).see(w.entry(k, r))
	select {
	case s.tap <- x:
	default:
		s.losses.Unlogged++
	}
}
