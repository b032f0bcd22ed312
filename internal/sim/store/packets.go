package store

import (
	"net/netip"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
)

// judge decides about packets among the present resources. It is made when it is first asked for,
// and dropped by every change. The caller holds a lock.
func (w *Store) judge() *packet.Judge {
	if x := w.packets.Load(); x != nil {
		return x
	}
	var all []*aws.Resources
	for _, d := range w.regions {
		all = append(all, &d.Resources)
	}
	x := packet.New(all, w.peerings, w.effects)
	w.packets.Store(x)
	return x
}

// Allowed is Judge.Allowed of the present resources.
func (w *Store) Allowed(f packet.Flow) (v packet.Verdict, err error) {
	w.read(func(time.Time) { v, err = w.judge().Allowed(f) })
	return v, err
}

// Passes is Judge.Passes of the present resources.
func (w *Store) Passes(f packet.Flow) (passes bool, err error) {
	w.read(func(time.Time) { passes, err = w.judge().Passes(f) })
	return passes, err
}

// Through is Judge.Through of the present resources.
func (w *Store) Through(f packet.Flow) (out packet.Passage, ok bool, err error) {
	w.read(func(time.Time) { out, ok, err = w.judge().Through(f) })
	return out, ok, err
}

// LookUp is Judge.LookUp of the present resources.
func (w *Store) LookUp(host string) (out []netip.Addr) {
	w.read(func(time.Time) { out = w.judge().LookUp(host) })
	return out
}
