package inventory

import (
	"slices"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// longestRest is the longest time from a reading to the next one because events are proven to come.
// An attacker that lets only our own events pass can change what we hold unnoticed for that long.
const longestRest = time.Duration(v1alpha1.MaxRestInSeconds) * time.Second

// underwayIntervals is for how many intervals a region rests at most while a change is carried out:
// how far that is, and so what the statuses of VMs say, is seen by reading.
const underwayIntervals = 2

// schedule sets when a region is polled again after a reading that began at a time.
func (a *account) schedule(r *region, began time.Time) {
	r.known, r.next, r.rest = began, began.Add(a.interval), time.Time{}
	if len(a.shown) == 0 && told(r.snapshot) {
		r.rest = began.Add(min(time.Duration(v1alpha1.RestIntervals)*a.interval, longestRest))
	}
}

// dueAt is when a region is to be read whole. A poll waits while a call of ours that was answered
// less than an interval ago has come back as an event: as a rule, what others did before has been
// heard of. When events cease, everything is read an interval after the last call that came back,
// so that what is done without an event is found as soon as if there were none.
func (a *account) dueAt(r *region) time.Time {
	at := r.proven.Add(a.interval)
	if r.rest.Before(at) {
		at = r.rest
	}
	if soon := r.known.Add(underwayIntervals * a.interval); a.underway && soon.Before(at) {
		at = soon
	}
	if at.Before(r.next) {
		return r.next
	}
	return at
}

// fails notes that a reading of the region has failed, and that it is to be read again at a time.
func (r *region) fails(again time.Time) {
	if r.known.Before(r.rest) && r.known.Before(r.proven) {
		r.known = r.proven // what changed before was read because of its event
	}
	r.failures++
	r.next, r.rest = again, time.Time{}
}

// told reports whether events tell of all that a snapshot shows. What belongs to another account is
// changed there, and the groups of a service's interface by calls of that service.
func told(s *cloud.Snapshot) bool {
	foreign := func(owner string) bool { return owner != "" && owner != s.OwnerID }
	return !slices.ContainsFunc(s.Networks, func(n cloud.Network) bool { return foreign(n.OwnerID) }) &&
		!slices.ContainsFunc(s.Peerings, func(p cloud.Peering) bool { return foreign(p.A.OwnerID) || foreign(p.B.OwnerID) }) &&
		!slices.ContainsFunc(s.Interfaces, func(n cloud.Interface) bool { return foreign(n.OwnerID) || n.VMID == "" && len(n.GroupIDs) > 0 }) &&
		!slices.ContainsFunc(s.Groups, func(g cloud.Group) bool { return foreign(g.OwnerID) }) &&
		!slices.ContainsFunc(s.PrefixLists, func(l cloud.PrefixList) bool { return foreign(l.OwnerID) })
}
