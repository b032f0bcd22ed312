package agent

import (
	"time"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
)

// audit is what is known of changes by others: of our table, and of filters beside it.
type audit struct {
	// generation is that after the last write of our own, and audited when it was.
	generation uint32
	audited    time.Time
	// surveyed is the generation at which the filters of others were read; unsurveyed tells that
	// they must be read in any case.
	surveyed   uint32
	unsurveyed bool
	// filters holds the filters of others that the log has told, without their numbers of rules.
	filters []kernel.Filter
}

// foreign reports whether somebody else may have changed our table.
func (u *audit) foreign(t Table, now time.Time) bool {
	generation, err := t.Generation()
	changed := err != nil || generation != u.generation
	return changed && (!t.Owned() || now.Sub(u.audited) >= auditInterval)
}

// wrote notes the generation after a write of our own, which is one change, and reports whether it
// is known. What others have changed at the same moment is still to be looked at.
func (u *audit) wrote(t Table, w kernel.Written) bool {
	before := u.generation
	if w.Messages > 0 {
		before++
	}
	now, err := t.Generation()
	u.generation = now
	u.unsurveyed = u.unsurveyed || err != nil || now != before
	return err == nil
}

// due reports whether the filters of others must be read: somebody else has changed something
// since, or reading them has failed.
func (u *audit) due(t Table) bool {
	generation, err := t.Generation()
	if err != nil {
		return true
	}
	if !u.unsurveyed && (generation == u.generation || generation == u.surveyed) {
		return false
	}
	u.surveyed = generation
	return true
}
