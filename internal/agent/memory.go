package agent

import (
	"runtime/debug"
	"time"

	"github.com/nephele-io/nephele/internal/platform/program"
)

// memory is when the process gives memory back.
type memory struct {
	// trimAt is when all of it is given back, zero for not at all.
	trimAt time.Time
	// gaveBack is when pages of the program were given back.
	gaveBack time.Time
}

// giveBack gives memory back when it is time for that.
func (m *memory) giveBack(now time.Time) {
	switch {
	case !m.trimAt.IsZero() && !now.Before(m.trimAt):
		m.trimAt, m.gaveBack = time.Time{}, now
		go func() { // which takes a while
			debug.FreeOSMemory()
			program.GiveBack()
		}()
	case now.Sub(m.gaveBack).Abs() >= giveBackInterval:
		m.gaveBack = now
		go program.GiveBack()
	}
}
