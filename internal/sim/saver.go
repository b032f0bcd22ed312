package sim

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/statefile"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

// saver keeps a file equal to the world: every mutation is in the file before its call is answered,
// as a real cloud forgets nothing that it has confirmed. Calls that end while a write is under way
// share the next one.
type saver struct {
	world *simworld.World
	path  string
	// latest is the number of the latest mutation.
	latest atomic.Uint64
	stop   func()

	writing sync.Mutex
	saved   uint64 // latest mutation that is in the file; guarded by writing
}

// newSaver writes the file for the first time, so that a path that cannot be written is known at
// once.
func newSaver(w *simworld.World, path string) (*saver, error) {
	s := &saver{world: w, path: path}
	if err := statefile.Save(w, path); err != nil {
		return nil, fmt.Errorf("save the state: %w", err)
	}
	s.stop = w.OnMutation(func(m aws.Mutation) { s.latest.Store(m.Seq) })
	return s, nil
}

// flush returns when every mutation that was made before the call is in the file. The first caller
// writes for all callers that wait behind it.
func (s *saver) flush() error {
	wanted := s.latest.Load()
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.saved >= wanted {
		return nil
	}
	now := s.latest.Load()
	if err := statefile.Save(s.world, s.path); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	s.saved = now
	return nil
}

// close stops watching the world and writes the file once more: with what the admin endpoints
// changed, too.
func (s *saver) close() error {
	s.stop()
	if err := statefile.Save(s.world, s.path); err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return nil
}
