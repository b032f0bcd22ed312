package aws

import (
	"maps"
	"slices"
	"time"
)

// Transition is a state change that the cloud makes by itself at a later time.
type Transition struct {
	At      time.Time `json:"at"`
	Account string    `json:"account"`
	Region  string    `json:"region"`
	ID      string    `json:"id"`
	From    string    `json:"from"` // made only if the object is still in this state
	To      string    `json:"to"`
}

// later registers a transition of an object from its present state after a delay.
func (w *World) later(now time.Time, delay time.Duration, in scope, id, from, to string) {
	t := Transition{now.Add(delay), in.account, in.region, id, from, to}
	i := len(w.due)
	for i > 0 && w.due[i-1].At.After(t.At) {
		i--
	}
	w.due = slices.Insert(w.due, i, t)
}

// settle makes the transitions that are due. The caller holds the write lock.
func (w *World) settle(now time.Time) {
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
		w.index.Store(nil)
	}
}

// apply makes one transition and reports whether the object was still waiting for it.
func (w *World) apply(t Transition) bool {
	d, ok := w.regions[scope{t.Account, t.Region}]
	if !ok {
		return false
	}
	switch ResourceType(t.ID) {
	case "vpc":
		if v := d.vpcs[t.ID]; v != nil && v.State == t.From {
			v.State = t.To
			return true
		}
	case "prefix-list":
		if p := d.prefixLists[t.ID]; p != nil && p.State == t.From {
			p.State = t.To
			if p.State == deleteComplete {
				delete(d.prefixLists, t.ID)
			}
			return true
		}
	case "instance":
		if i := d.instances[t.ID]; i != nil && i.State.String() == t.From {
			d.turn(i, t.To)
			return true
		}
	}
	return false
}

// turn brings an instance into the named state; terminated takes its interfaces away, gone its
// record.
func (d *regionData) turn(i *Instance, to string) {
	if to == stateGone {
		delete(d.instances, i.ID)
		maps.DeleteFunc(d.runTokens, func(_ string, t runToken) bool { return slices.Contains(t.Instances, i.ID) })
		return
	}
	i.State, _ = ParseInstanceState(to)
	if i.State != Terminated {
		return
	}
	i.VPCID, i.SubnetID = "", ""
	for _, n := range d.attached(i.ID) {
		if n.Attachment.DeleteOnTermination {
			delete(d.nics, n.ID)
			continue
		}
		n.Attachment, n.Status = nil, StatusAvailable
	}
}
