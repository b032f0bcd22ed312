package store

import (
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// SetEffects changes Options.Effects for edits from now on, on both clouds. Edits that are on their
// way are in force with that.
func (w *Store) SetEffects(d effect.Delay) error {
	if err := d.Check(); err != nil {
		return err
	}
	w.state.Lock()
	defer w.state.Unlock()
	w.effects.Set(d)
	return nil
}

// wholes are what edits in a region are about; nil if edits take no time.
func (w *Store) wholes(at scope) map[string]effect.Parts {
	d := w.regions[at]
	if d == nil || !w.effects.Keeps() {
		return nil
	}
	return packet.Wholes(&d.Resources)
}
