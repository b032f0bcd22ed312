package network

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// Rest is for how long a freed address is nobody's, if others are free: what others know of its
	// former owner, such as connections and members of groups, is forgotten meanwhile.
	Rest = time.Minute
	// mostAddresses is how many addresses of a range are used: of 64 bits there are too many.
	mostAddresses = 1 << 16
	// mostLeases bounds the interfaces that have addresses, mostResting the addresses that rest.
	mostLeases, mostResting = 4096, 1 << 14
	// mostTold is of how many Pods an error tells.
	mostTold = 20
)

// Key identifies an interface of a Pod, as the runtime names it.
type Key struct {
	Container string `json:"container"`
	Interface string `json:"interface"`
}

// Lease is what an interface of a Pod has.
type Lease struct {
	Key
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name,omitempty"`
	Addresses []netip.Addr `json:"addresses"`
	// Made is when it was given.
	Made time.Time `json:"made,omitzero"`
}

func (l *Lease) pod() string {
	if l.Namespace == "" {
		return "container " + cut(l.Container)
	}
	return l.Namespace + "/" + l.Name
}

// Resting is an address that was freed.
type Resting struct {
	Address netip.Addr `json:"address"`
	Since   time.Time  `json:"since"`
}

// Kept is what outlives a process.
type Kept struct {
	Leases  []Lease   `json:"leases,omitempty"`
	Resting []Resting `json:"resting,omitempty"`
}

// span are the addresses of a range that can be given.
type span struct {
	prefix netip.Prefix
	// used has a bit for each address, from the first of the range on.
	used []uint64
	size int
	// next is where the search begins, so that what was freed is not what is taken next.
	next int
}

func newSpan(p netip.Prefix) *span {
	size := mostAddresses
	if host := p.Addr().BitLen() - p.Bits(); host < bits.Len(mostAddresses)-1 {
		size = 1 << host
	}
	return &span{prefix: p, size: size, used: make([]uint64, (size+63)/64), next: 2 % size}
}

// reserved reports whether a place is never given: that of the Node, which policies take for the
// Node; the one before it; and the last one of IPv4, which some take for broadcast.
func (s *span) reserved(i int) bool {
	return i <= 1 || s.prefix.Addr().Is4() && s.size < mostAddresses && i == s.size-1
}

// free counts the addresses that can be given at all.
func (s *span) free() int {
	switch {
	case s.prefix.Addr().Is4() && s.size < mostAddresses:
		return max(s.size-3, 0)
	}
	return max(s.size-2, 0)
}

func (s *span) set(i int, to bool) {
	if to {
		s.used[i/64] |= 1 << (i % 64)
	} else {
		s.used[i/64] &^= 1 << (i % 64)
	}
}

func (s *span) has(i int) bool { return s.reserved(i) || s.used[i/64]&(1<<(i%64)) != 0 }

// at is the place of an address; false if it is none that can be given.
func (s *span) at(a netip.Addr) (int, bool) {
	if !s.prefix.Contains(a) {
		return 0, false
	}
	raw, first := a.As16(), s.prefix.Addr().As16()
	var n uint64
	for i := range raw {
		n = n<<8 | uint64(raw[i]-first[i]) // the first one has no bits of the host
		if n >= uint64(s.size) {
			return 0, false
		}
	}
	return int(n), true
}

// address is the one at a place.
func (s *span) address(i int) netip.Addr {
	raw := s.prefix.Addr().As16()
	for at := 15; i > 0; at, i = at-1, i>>8 {
		raw[at] |= byte(i)
	}
	a := netip.AddrFrom16(raw)
	if s.prefix.Addr().Is4() {
		a = a.Unmap()
	}
	return a
}

// Pool gives interfaces of Pods their addresses. It is not safe for concurrent use.
type Pool struct {
	spans   []*span
	leases  map[Key]*Lease
	resting map[netip.Addr]time.Time
}

// NewPool returns a pool without ranges.
func NewPool() *Pool {
	return &Pool{leases: map[Key]*Lease{}, resting: map[netip.Addr]time.Time{}}
}

// Restore takes in what was kept, and what is not in the pool yet of what was found.
func (p *Pool) Restore(k Kept) {
	for i := range k.Leases {
		l := k.Leases[i]
		if p.leases[l.Key] != nil || len(p.leases) >= mostLeases || l.Container == "" || l.Interface == "" || len(l.Addresses) == 0 {
			continue
		}
		if slices.ContainsFunc(l.Addresses, func(a netip.Addr) bool { return !a.IsValid() || p.Holder(a) != nil }) {
			continue
		}
		l.Addresses = slices.Clone(l.Addresses)
		p.leases[l.Key] = &l
		p.mark(l.Addresses, true)
	}
	for _, r := range k.Resting {
		if r.Address.IsValid() && p.Holder(r.Address) == nil {
			p.rest(r.Address, r.Since)
		}
	}
}

// Kept is what is to be kept, in one order.
func (p *Pool) Kept() Kept {
	out := Kept{Leases: p.Leases()}
	for _, a := range slices.SortedFunc(maps.Keys(p.resting), netip.Addr.Compare) {
		out.Resting = append(out.Resting, Resting{a, p.resting[a]})
	}
	return out
}

// Leases are those in use, in the order of their containers.
func (p *Pool) Leases() []Lease {
	var out []Lease
	for _, l := range p.leases {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Lease) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Interface, b.Interface))
	})
	return out
}

// SetRanges sets the ranges of addresses. An interface keeps its address, even if that is in no
// range any more.
func (p *Pool) SetRanges(ranges []netip.Prefix) {
	if slices.EqualFunc(p.spans, ranges, func(s *span, r netip.Prefix) bool { return s.prefix == r.Masked() }) {
		return
	}
	p.spans = nil
	for _, r := range ranges {
		p.spans = append(p.spans, newSpan(r.Masked()))
	}
	for _, l := range p.leases {
		p.mark(l.Addresses, true)
	}
}

func (p *Pool) mark(list []netip.Addr, used bool) {
	for _, a := range list {
		for _, s := range p.spans {
			if i, in := s.at(a); in {
				s.set(i, used)
			}
		}
	}
}

// Holder is the lease of an address; nil if it is free.
func (p *Pool) Holder(a netip.Addr) *Lease {
	for _, l := range p.leases {
		if slices.Contains(l.Addresses, a) {
			return l
		}
	}
	return nil
}

// Get returns what an interface has; nil for nothing.
func (p *Pool) Get(k Key) *Lease { return p.leases[k] }

// errNoRange: there is nothing to give.
var errNoRange = errors.New("the Node has no range of addresses for Pods (spec.podCIDRs)")

// Assign gives an interface one address of each family that there are ranges of. An interface that
// has addresses keeps them. Function held returns another holder of an address, such as a Pod that
// another plugin has made; empty for none.
func (p *Pool) Assign(l Lease, held func(netip.Addr) string, now time.Time) (*Lease, error) {
	if there := p.leases[l.Key]; there != nil {
		return there, nil
	}
	if len(p.leases) >= mostLeases {
		return nil, fmt.Errorf("%d interfaces have addresses, and no more get any", mostLeases)
	}
	if len(p.spans) == 0 {
		return nil, errNoRange
	}
	l.Addresses, l.Made = nil, now
	for _, six := range []bool{false, true} {
		var of []*span
		for _, s := range p.spans {
			if s.prefix.Addr().Is6() == six {
				of = append(of, s)
			}
		}
		if len(of) == 0 {
			continue
		}
		a, ok := p.take(of, held, now)
		if !ok {
			return nil, p.exhausted(of, held)
		}
		l.Addresses = append(l.Addresses, a)
	}
	for _, a := range l.Addresses {
		delete(p.resting, a)
	}
	p.mark(l.Addresses, true)
	p.leases[l.Key] = &l
	return &l, nil
}

// take finds an address: one that does not rest, or else the one that has rested longest.
func (p *Pool) take(of []*span, held func(netip.Addr) string, now time.Time) (best netip.Addr, found bool) {
	var since time.Time
	for _, s := range of {
		for n := range s.size {
			i := (s.next + n) % s.size
			if s.has(i) {
				continue
			}
			a := s.address(i)
			if held(a) != "" {
				continue
			}
			freed, rests := p.resting[a]
			if !rests || now.Sub(freed) >= Rest {
				s.next = (i + 1) % s.size
				return a, true
			}
			if !found || freed.Before(since) {
				best, since, found = a, freed, true
			}
		}
	}
	return best, found
}

// exhausted is the error that names the holders of the addresses.
func (p *Pool) exhausted(of []*span, held func(netip.Addr) string) error {
	var ranges, who []string
	for _, s := range of {
		ranges = append(ranges, s.prefix.String())
		for i := range s.size {
			if other := held(s.address(i)); other != "" && !s.has(i) {
				who = append(who, other)
			}
		}
		for _, l := range p.leases {
			if slices.ContainsFunc(l.Addresses, s.prefix.Contains) {
				who = append(who, l.pod())
			}
		}
	}
	slices.Sort(who)
	who = slices.Compact(who)
	if len(who) == 0 {
		return fmt.Errorf("%s is too small: it has no address for a Pod", strings.Join(ranges, ", "))
	}
	return fmt.Errorf("no address is free in %s: %d have them: %s", strings.Join(ranges, ", "), len(who), list(who))
}

func list(who []string) string {
	text := strings.Join(who[:min(len(who), mostTold)], ", ")
	if more := len(who) - mostTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Free takes the addresses of an interface back. They rest from now on.
func (p *Pool) Free(k Key, now time.Time) bool {
	l := p.leases[k]
	if l == nil {
		return false
	}
	delete(p.leases, k)
	p.mark(l.Addresses, false)
	for _, a := range l.Addresses {
		p.rest(a, now)
	}
	return true
}

// rest keeps an address from being reused for a while. Addresses whose time is over are forgotten
// when there are many.
func (p *Pool) rest(a netip.Addr, since time.Time) {
	if len(p.resting) >= mostResting {
		maps.DeleteFunc(p.resting, func(_ netip.Addr, freed time.Time) bool { return since.Sub(freed) >= Rest })
	}
	if len(p.resting) < mostResting {
		p.resting[a] = since
	}
}

// Rested forgets the addresses that have rested enough, and those that were freed in the future:
// the clock was set back.
func (p *Pool) Rested(now time.Time) {
	maps.DeleteFunc(p.resting, func(_ netip.Addr, freed time.Time) bool {
		since := now.Sub(freed)
		return since >= Rest || since < -Rest
	})
}

// Usage is how many addresses of a range are given, and how many there are.
type Usage struct {
	Range     netip.Prefix `json:"range"`
	Used      int          `json:"used"`
	Addresses int          `json:"addresses"`
	Resting   int          `json:"resting"`
}

// Usage tells of each range.
func (p *Pool) Usage() []Usage {
	var out []Usage
	for _, s := range p.spans {
		u := Usage{Range: s.prefix, Addresses: s.free()}
		for _, l := range p.leases {
			for _, a := range l.Addresses {
				if _, in := s.at(a); in {
					u.Used++
				}
			}
		}
		for a := range p.resting {
			if _, in := s.at(a); in {
				u.Resting++
			}
		}
		out = append(out, u)
	}
	return out
}
