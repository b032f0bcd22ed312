package archive

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/flows/live"
)

const (
	// slot is the time that one file is about.
	slot = 10 * time.Minute
	// timeout is how long after a slot it is written: enforcers that could not reach the
	// controller send what waits within that time.
	timeout = 11 * time.Minute
	// interval is how often it is looked whether a slot is over.
	interval = time.Minute
)

// Source is what files are made from; a live.Store.
type Source interface {
	Minutes(since, until time.Time) []*live.Entry
}

// Keep writes what the source has seen until ctx ends, and then what is left. What cannot be
// written is tried again as long as the source knows it.
func (a *Archive) Keep(ctx context.Context, s Source, clk clock.WithTicker, log logr.Logger) {
	k := keeper{archive: a, source: s, written: clk.Now().UTC().Truncate(time.Minute)}
	a.Hold(func(time.Time) { a.written = k.written })
	tick := clk.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := k.end(clk.Now()); err != nil {
				log.Error(err, "What was seen of traffic last is not kept")
			}
			return
		case <-tick.C():
			if err := k.step(clk.Now()); err != nil {
				log.Error(err, "What was seen of traffic is not kept, trying again")
			}
		}
	}
}

// keeper knows how far it has been written.
type keeper struct {
	archive *Archive
	source  Source
	written time.Time
}

// step writes the slots that are over.
func (k *keeper) step(now time.Time) error {
	for until := k.written.Add(slot).Truncate(slot); !now.Before(until.Add(timeout)); until = until.Add(slot) {
		if err := k.write(until); err != nil {
			if oldest := now.UTC().Add(-live.Kept).Truncate(time.Minute); k.written.Before(oldest) {
				k.written = oldest // no one knows any more what was before
			}
			return err
		}
	}
	return nil
}

// end writes what is left.
func (k *keeper) end(now time.Time) error {
	return k.write(now.UTC().Add(time.Minute).Truncate(time.Minute))
}

func (k *keeper) write(until time.Time) error {
	k.archive.keeping.Lock()
	defer k.archive.keeping.Unlock()
	defer func() { k.archive.written = k.written }()
	err := k.archive.Write(k.source.Minutes(k.written, until), k.written, until)
	if err == nil {
		k.written = until
	}
	return err
}

// Hold calls do while nothing is written, with until when all that the source has seen is.
func (a *Archive) Hold(do func(written time.Time)) {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	do(a.written)
}

// Late keeps entries of a time that is written already.
func (a *Archive) Late(entries []*live.Entry) error {
	slots := map[time.Time][]*live.Entry{}
	for _, e := range entries {
		at := e.Start.UTC().Truncate(slot)
		slots[at] = append(slots[at], e)
	}
	var errs []error
	for _, at := range slices.SortedFunc(maps.Keys(slots), time.Time.Compare) {
		errs = append(errs, a.Write(slots[at], at, at.Add(slot)))
	}
	return errors.Join(errs...)
}
