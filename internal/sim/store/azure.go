package store

import (
	"fmt"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
)

// fillAzure makes the Azure side of the world; without a state it is empty.
func (w *Store) fillAzure(s *azure.State, settings azure.Settings) (err error) {
	if s == nil {
		s = &azure.State{}
	}
	w.azure, err = azure.New(*s, settings, w.guid)
	return err
}

// guid makes up an id in the form of a GUID. The caller holds the write lock, or is alone.
func (w *Store) guid() string {
	d := w.digest()
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}

// ChangeAzure runs f under the same lock as every mutation of the world, and then the hooks with a
// Mutation of this subscription, location and action. f must check everything before it changes
// anything.
func (w *Store) ChangeAzure(subscription, location, action string, f func(c *azure.Cloud, now time.Time) (touched []string, err error)) error {
	return w.mutate(scope{subscription, location}, action, func(now time.Time) ([]string, error) { return f(w.azure, now) })
}

// ReadAzure runs f beside other reads, after what is due has happened. f may only call what
// azure.Cloud marks as a read.
func (w *Store) ReadAzure(f func(c *azure.Cloud, now time.Time)) {
	w.read(func(now time.Time) { f(w.azure, now) })
}
