package agent

import (
	"github.com/nephele-io/nephele/internal/platform/errtext"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// saving is a write to the disk that is under way.
type saving struct {
	results chan error
	running bool
}

// saveSoon writes what is kept to the disk, if it is time for that, and does not wait until that is
// done.
func (a *Agent) saveSoon() {
	now := a.options.Clock.Now()
	if a.saving.running || !a.options.Store.Due(now) {
		return
	}
	a.saving.running = true
	go func() { a.saving.results <- recovered.Call(func() error { return a.options.Store.Save(now, false) }) }()
}

func (a *Agent) wasSaved(err error) {
	a.saving.running = false
	a.memory.trimAt = a.options.Clock.Now().Add(trimAfter)
	if err != nil {
		a.options.Log.Error(err, "What is enforced cannot be kept for a restart of the host")
	}
	a.board.change(func(s *Status) { s.Faults.Store = errtext.Of(err) })
}

// save writes what is kept to the disk, if it is time for that, and waits until it is there.
func (a *Agent) save(now bool) { a.wasSaved(a.options.Store.Save(a.options.Clock.Now(), now)) }
