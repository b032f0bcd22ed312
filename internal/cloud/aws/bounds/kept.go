package bounds

import (
	"sync"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Kept counts what is known of the regions of an account, so that all of them together stay below
// the bound. Methods are safe for concurrent use.
type Kept struct {
	max int
	mu  sync.Mutex
	// last is what the latest reading of each region left, reading what has been read since in
	// readings that are not over.
	last, reading map[string]int
}

// NewKept returns what is kept of an account that may have so many objects.
func NewKept(bound int) *Kept {
	return &Kept{max: bound, last: map[string]int{}, reading: map[string]int{}}
}

// Add counts what a reading of a region has found; it fails if that is too much with what is known
// of the other regions.
func (k *Kept) Add(region string, n int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reading[region] += n
	return k.check(region, k.reading[region])
}

// check fails if the account has too much with n in a region. The caller holds the lock.
func (k *Kept) check(region string, n int) error {
	for other, found := range k.last {
		if other != region {
			n += max(found, k.reading[other])
		}
	}
	for other, found := range k.reading {
		if _, before := k.last[other]; other != region && !before {
			n += found
		}
	}
	if n > k.max {
		return &cloud.BoundError{What: "the account has", Bound: int64(k.max), Unit: "objects", Flag: FlagObjects}
	}
	return nil
}

// Begin starts the reading of a region.
func (k *Kept) Begin(region string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reading[region] = 0
}

// End ends it. What was found is what is known of the region from now on, unless the reading has
// failed.
func (k *Kept) End(region string, well bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if well {
		k.last[region] = k.reading[region]
	}
	delete(k.reading, region)
}

// Renew counts a snapshot that a reading of parts has added to. It fails if that has made it too
// large.
func (k *Kept) Renew(region string, s *cloud.Snapshot) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.last[region] + k.reading[region] // too much where parts have replaced others
	delete(k.reading, region)
	if k.check(region, n) != nil {
		n = weigh(s)
	}
	if err := k.check(region, n); err != nil {
		return err
	}
	k.last[region] = n
	return nil
}

// objectBytes is what one object may take in memory; larger ones count as several.
const objectBytes = 1 << 10

// What parts of objects take in memory, about.
const (
	tagBytes  = 64 // beyond its text
	ruleBytes = 192
	ListBytes = 32 // an address, a prefix or the header of a string
)

// Objects is the number that an object counts as which takes this much beyond what every object
// takes.
func Objects(bytes int) int { return 1 + bytes/objectBytes }

func tagsBytes(tags map[string]string) (n int) {
	for k, v := range tags {
		n += tagBytes + len(k) + len(v)
	}
	return n
}

func textBytes(texts ...string) (n int) {
	for _, t := range texts {
		n += len(t)
	}
	return n
}

// targetsOf counts the listeners, target groups and targets of a load balancer. Groups of several
// listeners are kept once, and count again.
func targetsOf(s *cloud.Service) int {
	n := len(s.Listeners)
	for _, l := range s.Listeners {
		for _, g := range l.Groups {
			n += 1 + len(g.Targets)
		}
	}
	return n
}

// Weight is the number of objects that one of a snapshot counts as.
func Weight(object any) int {
	switch x := object.(type) {
	case *cloud.Network:
		return Objects(textBytes(x.ID, x.Name, x.OwnerID) + len(x.CIDRs)*ListBytes + tagsBytes(x.Tags))
	case *cloud.Peering:
		return Objects(textBytes(x.ID, x.A.NetworkID, x.A.OwnerID, x.A.Region, x.B.NetworkID, x.B.OwnerID, x.B.Region) + (len(x.A.CIDRs)+len(x.B.CIDRs))*ListBytes)
	case *cloud.VM:
		return Objects(textBytes(x.ID, x.Name, x.NetworkID) + tagsBytes(x.Tags) + textBytes(x.Interfaces...) + len(x.Interfaces)*ListBytes)
	case *cloud.Interface:
		return Objects(textBytes(x.ID, x.NetworkID, x.SubnetID, x.OwnerID, x.VMID, x.MAC, x.Description, x.DNSName, x.Requester, x.Type) + textBytes(x.GroupIDs...) +
			(len(x.PrivateIPs)+len(x.Prefixes)+len(x.PublicIPs)+len(x.GroupIDs))*ListBytes + tagsBytes(x.Tags))
	case *cloud.Group:
		n := textBytes(x.ID, x.Name, x.NetworkID, x.OwnerID, x.Description) + tagsBytes(x.Tags)
		for i := range x.Rules {
			r := &x.Rules[i]
			n += ruleBytes + textBytes(r.ID, r.Description, r.Peer.GroupID, r.Peer.GroupOwner, r.Peer.PrefixListID)
		}
		return Objects(n)
	case *cloud.PrefixList:
		return Objects(textBytes(x.ID, x.Name, x.OwnerID) + len(x.Entries)*ListBytes)
	case *cloud.Service:
		return Objects(textBytes(x.ID, x.Name, x.NetworkID, x.DNSName, x.Fixed, x.Ambiguous) + textBytes(x.Interfaces...) + textBytes(x.GroupIDs...) +
			(len(x.Interfaces)+len(x.GroupIDs)+len(x.Private)+len(x.Public)+len(x.Ports)+targetsOf(x))*ListBytes + tagsBytes(x.Tags))
	case *cloud.Reference:
		return Objects(textBytes(x.GroupID, x.NetworkID, x.OwnerID, x.PeeringID))
	}
	return 1
}

// weigh is the number of objects that a snapshot counts as.
func weigh(s *cloud.Snapshot) int {
	return Sum(s.Networks) + Sum(s.Peerings) + Sum(s.VMs) + Sum(s.Interfaces) + Sum(s.Groups) + Sum(s.PrefixLists) + Sum(s.References)
}

// Sum is the weight of all.
func Sum[T any](all []T) (n int) {
	for i := range all {
		n += Weight(&all[i])
	}
	return n
}
