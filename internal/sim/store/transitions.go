package store

import (
	"maps"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// later registers a transition of an object from its present state after a delay.
func (w *Store) later(now time.Time, delay time.Duration, in scope, id, from, to string) {
	t := aws.Transition{At: now.Add(delay), Account: in.account, Region: in.region, ID: id, From: from, To: to}
	i := len(w.due)
	for i > 0 && w.due[i-1].At.After(t.At) {
		i--
	}
	w.due = slices.Insert(w.due, i, t)
}

// settle makes the transitions that are due. The caller holds the write lock.
func (w *Store) settle(now time.Time) {
	w.azure.Settle(now)
	n := 0
	for n < len(w.due) && !w.due[n].At.After(now) {
		if w.apply(w.due[n]) {
			for _, h := range w.turns {
				h.f(w.due[n])
			}
		}
		n++
	}
	if n > 0 {
		w.due = slices.Delete(w.due, 0, n)
		w.packets.Store(nil)
	}
}

// apply makes one transition and reports whether the object was still waiting for it.
func (w *Store) apply(t aws.Transition) bool {
	d, ok := w.regions[scope{t.Account, t.Region}]
	if !ok {
		return false
	}
	switch aws.ResourceType(t.ID) {
	case "vpc":
		if v := d.VPCs[t.ID]; v != nil && v.State == t.From {
			v.State = t.To
			return true
		}
	case "prefix-list":
		if p := d.PrefixLists[t.ID]; p != nil && p.State == t.From {
			p.State = t.To
			if p.State == aws.DeleteComplete {
				delete(d.PrefixLists, t.ID)
			}
			return true
		}
	case "instance":
		if i := d.Instances[t.ID]; i != nil && i.State.String() == t.From {
			d.turn(i, t.To)
			return true
		}
	}
	return false
}

// turn brings an instance into the named state; terminated takes its interfaces away, gone its
// record.
func (d *holdings) turn(i *aws.Instance, to string) {
	if to == aws.StateGone {
		delete(d.Instances, i.ID)
		maps.DeleteFunc(d.runTokens, func(_ string, t aws.RunToken) bool { return slices.Contains(t.Instances, i.ID) })
		return
	}
	i.State, _ = aws.ParseInstanceState(to)
	if i.State != aws.Terminated {
		return
	}
	i.VPCID, i.SubnetID = "", ""
	for _, n := range d.Attached(i.ID) {
		if n.Attachment.DeleteOnTermination {
			delete(d.NICs, n.ID)
			continue
		}
		n.Attachment, n.Status = nil, aws.StatusAvailable
	}
}
