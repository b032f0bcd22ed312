package realize

import "sync/atomic"

// signals are the reasons for a worker to look. A token stays until it is taken: a change that
// comes while a round is running leads to one more round. They may be given at any time.
type signals struct {
	// wake is for the computed objects, touched for the account, and sighted says that
	// something about it may have been read. Each has room for one token.
	wake, touched, sighted chan struct{}
	// news counts how often something about the account may have changed, and unmoved is the
	// count at which it was the same as in the last round; see worker.accountChanged.
	news, unmoved atomic.Uint64
}

func newSignals() *signals {
	return &signals{wake: make(chan struct{}, 1), touched: make(chan struct{}, 1), sighted: make(chan struct{}, 1)}
}

// touch says that something about the account may have changed.
func (s *signals) touch() {
	s.news.Add(1)
	put(s.touched)
	put(s.sighted)
}

// drain takes the tokens of changes and reports whether there were any.
func (s *signals) drain() (found bool) {
	for _, c := range []chan struct{}{s.wake, s.touched} {
		select {
		case <-c:
			found = true
		default:
		}
	}
	return found
}

// put leaves a token unless there is one.
func put(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
