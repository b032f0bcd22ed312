package live

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Owner is an object that has addresses.
type Owner struct {
	// Kind is Pod, ExternalEntity, Node or Service.
	Kind, Namespace, Name string
	// Enforcer is the key of the one that enforces policies on it; empty if no one does.
	Enforcer string
}

// Owners knows the holder of each address, and its holders within the last hour.
type Owners struct {
	mu       sync.Mutex
	tenures  map[netip.Addr][]tenure
	objects  map[ref]*object
	departed []departed
}

// ref names an object, whichever enforcer it has.
type ref struct{ kind, namespace, name string }

// object is an Owner with its present addresses.
type object struct {
	Owner
	addresses []netip.Addr
}

// tenure is the time in which somebody has an address, in nanoseconds of Unix; until is zero as
// long as it goes on. The owner is shared by the addresses of an object and never changed.
type tenure struct {
	owner       *Owner
	from, until int64
}

// departed is a tenure that has ended and is to be forgotten.
type departed struct {
	address netip.Addr
	at      time.Time
}

// NewOwners returns Owners that know no one.
func NewOwners() *Owners {
	return &Owners{tenures: map[netip.Addr][]tenure{}, objects: map[ref]*object{}}
}

// Set notes which addresses an object has from now on; none if it is gone.
func (o *Owners) Set(owner Owner, addresses []netip.Addr, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(now)
	name := ref{owner.Kind, owner.Namespace, owner.Name}
	before := o.objects[name]
	if before != nil && before.Owner != owner { // another enforcer: what was is over
		o.end(before, nil, now)
		before = nil
	}
	after := &object{Owner: owner}
	for _, a := range addresses {
		if a = a.Unmap(); !slices.Contains(after.addresses, a) {
			after.addresses = append(after.addresses, a)
		}
	}
	if before != nil {
		if slices.Equal(before.addresses, after.addresses) {
			return
		}
		o.end(before, after.addresses, now)
	}
	for _, a := range after.addresses {
		if before == nil || !slices.Contains(before.addresses, a) {
			o.tenures[a] = append(o.tenures[a], tenure{owner: &after.Owner, from: now.UnixNano()})
		}
	}
	if o.objects[name] = after; len(after.addresses) == 0 {
		delete(o.objects, name)
	}
}

// end ends the tenures of an object but for some addresses.
func (o *Owners) end(x *object, but []netip.Addr, now time.Time) {
	for _, a := range x.addresses {
		if slices.Contains(but, a) {
			continue
		}
		for i := range o.tenures[a] {
			if t := &o.tenures[a][i]; *t.owner == x.Owner && t.until == 0 {
				t.until = now.UnixNano()
				o.departed = append(o.departed, departed{a, now})
			}
		}
	}
}

// forget drops what ended longer ago than flows are kept.
func (o *Owners) forget(now time.Time) {
	n := 0
	for ; n < len(o.departed) && now.Sub(o.departed[n].at) > Kept; n++ {
		a := o.departed[n].address
		o.tenures[a] = slices.DeleteFunc(o.tenures[a], func(t tenure) bool { return t.until != 0 && now.UnixNano()-t.until > int64(Kept) })
		if len(o.tenures[a]) == 0 {
			delete(o.tenures, a)
		}
	}
	o.departed = o.departed[n:]
}

// At returns the owner of an address at a time. Of several, as where networks use the same
// addresses, it is the only one with the enforcer that asks; else no one. A Node counts only where
// no one else has the address: that of its gateway is the first of its Pods' range, which some
// networks give to a Pod.
func (o *Owners) At(a netip.Addr, t time.Time, enforcer string) (Owner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all, own []Owner
	for _, x := range o.tenures[a.Unmap()] {
		// Objects are written some time after an address is used.
		if at := t.UnixNano(); x.from-at > int64(late) || x.until != 0 && at > x.until {
			continue
		}
		all = append(all, *x.owner)
		if x.owner.Enforcer == enforcer && enforcer != "" {
			own = append(own, *x.owner)
		}
	}
	for _, list := range [][]Owner{own, all} {
		if len(list) > 1 {
			list = slices.DeleteFunc(list, func(x Owner) bool { return x.Kind == "Node" })
		}
		if len(list) == 1 {
			return list[0], true
		}
	}
	return Owner{}, false
}
