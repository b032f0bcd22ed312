package live

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Owner is somebody who has addresses.
type Owner struct {
	// Kind is Pod, ExternalEntity, Node or Service.
	Kind, Namespace, Name string
	// Enforcer is the key of the one that enforces policies on it; empty if nobody does.
	Enforcer string
}

// Owners knows who has which address, and who had it within the last hour.
type Owners struct {
	mu       sync.Mutex
	tenures  map[netip.Addr][]tenure
	has      map[Owner][]netip.Addr
	keyed    map[ref]Owner
	departed []departed
}

// ref names an object, whichever enforcer it has.
type ref struct{ kind, namespace, name string }

// tenure is the time in which somebody has an address; until is zero as long as it goes on.
type tenure struct {
	owner       Owner
	from, until time.Time
}

// departed is a tenure that has ended and is to be forgotten.
type departed struct {
	address netip.Addr
	at      time.Time
}

// NewOwners returns Owners that know nobody.
func NewOwners() *Owners {
	return &Owners{tenures: map[netip.Addr][]tenure{}, has: map[Owner][]netip.Addr{}, keyed: map[ref]Owner{}}
}

// Set notes which addresses an object has from now on; none if it is gone.
func (o *Owners) Set(owner Owner, addresses []netip.Addr, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(now)
	name := ref{owner.Kind, owner.Namespace, owner.Name}
	before, known := o.keyed[name]
	if known && before != owner { // another enforcer: what was is over
		o.change(before, nil, now)
	}
	o.change(owner, addresses, now)
	if len(addresses) > 0 {
		o.keyed[name] = owner
	} else {
		delete(o.keyed, name)
	}
}

func (o *Owners) change(owner Owner, addresses []netip.Addr, now time.Time) {
	before := o.has[owner]
	for _, a := range before {
		if slices.Contains(addresses, a) {
			continue
		}
		for i := range o.tenures[a] {
			if t := &o.tenures[a][i]; t.owner == owner && t.until.IsZero() {
				t.until = now
				o.departed = append(o.departed, departed{a, now})
			}
		}
	}
	var kept []netip.Addr
	for _, a := range addresses {
		if a = a.Unmap(); slices.Contains(kept, a) {
			continue
		}
		kept = append(kept, a)
		if !slices.Contains(before, a) {
			o.tenures[a] = append(o.tenures[a], tenure{owner: owner, from: now})
		}
	}
	if len(kept) == 0 {
		delete(o.has, owner)
		return
	}
	o.has[owner] = kept
}

// forget drops what ended longer ago than flows are kept.
func (o *Owners) forget(now time.Time) {
	n := 0
	for ; n < len(o.departed) && now.Sub(o.departed[n].at) > Kept; n++ {
		a := o.departed[n].address
		o.tenures[a] = slices.DeleteFunc(o.tenures[a], func(t tenure) bool { return !t.until.IsZero() && now.Sub(t.until) > Kept })
		if len(o.tenures[a]) == 0 {
			delete(o.tenures, a)
		}
	}
	o.departed = o.departed[n:]
}

// At returns the owner of an address at a time. Of several, as where networks use the same
// addresses, it is the only one with the enforcer that asks; else nobody.
func (o *Owners) At(a netip.Addr, t time.Time, enforcer string) (Owner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all, own []Owner
	for _, x := range o.tenures[a.Unmap()] {
		// Objects are written some time after an address is used.
		if x.from.Sub(t) > late || !x.until.IsZero() && t.Sub(x.until) > 0 {
			continue
		}
		all = append(all, x.owner)
		if x.owner.Enforcer == enforcer && enforcer != "" {
			own = append(own, x.owner)
		}
	}
	for _, list := range [][]Owner{own, all} {
		if len(list) == 1 {
			return list[0], true
		}
	}
	return Owner{}, false
}
