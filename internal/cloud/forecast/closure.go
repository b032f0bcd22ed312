package forecast

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Closure is a direction of VMs that was open to everything and of which little is left: told by
// what is left.
type Closure struct {
	Region string
	// Egress is true for flows from the VMs, false for those to them.
	Egress bool
	// VMs are named as in End.VMs.
	VMs []string
	// Left is what stays allowed.
	Left []Rest
}

// Rest is some of what stays allowed.
type Rest struct {
	Packets string
	Other   End
}

// mostLeft is how many things may be left of a closure.
const mostLeft = 4

// Told returns the same as Reach in a form for people: closures, and the changes that none of these
// tells.
func Told(before, after *cloud.Snapshot) ([]Closure, []Change) {
	c := compare(before, after)
	var out []Closure
	at := map[string]int{}
	for _, k := range c.kinds {
		for i := range k.halves {
			x, ok := c.closure(k, i)
			if !ok {
				continue
			}
			k.halves[i].closed = true
			var b strings.Builder
			for _, r := range x.Left {
				b.WriteString(r.Packets + "|" + r.Other.key() + "|")
			}
			key := b.String()
			if x.Egress {
				key += "egress"
			}
			if j, known := at[key]; known {
				out[j].VMs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(out[j].VMs, x.VMs))))
				continue
			}
			at[key] = len(out)
			out = append(out, x)
		}
	}
	return out, c.reach()
}

// closure says of a half whether it was open to everything, and how little is left of that.
func (c *comparison) closure(k *kind, half int) (Closure, bool) {
	h := &k.halves[half]
	all := families(k.addrs)
	if !h.changed || all.Empty() {
		return Closure{}, false
	}
	out := Closure{Region: c.changes.region, Egress: half == 1, VMs: c.end(k, k.addrs).VMs}
	left := map[string]int{}
	everything := false
	for i := range h.cells {
		x := &h.cells[i]
		possible := all.Intersect(flow.Family(x.service.Protocol))
		if len(x.comes)+len(x.goes) > 0 || x.opaque || !possible.Within(x.before) {
			return Closure{}, false
		}
		everything = everything || x.service.Protocol == cloud.AnyProtocol
		stays := x.after.Intersect(possible)
		if stays.Empty() {
			continue
		}
		text := packetsOf([]flow.Service{x.service}, []flow.Service{x.service}).Text
		end := c.named(k, stays)
		if j, known := left[end.key()]; known {
			out.Left[j].Packets += ", " + text
			continue
		}
		left[end.key()] = len(out.Left)
		out.Left = append(out.Left, Rest{text, end})
	}
	return out, everything && len(out.Left) <= mostLeft && len(out.VMs) > 0
}

// named is an end by the VMs in reach, if the addresses are theirs alone, or else the addresses.
func (c *comparison) named(k *kind, addrs addrset.Set) End {
	var vms []string
	rest := addrs
	for _, o := range c.kinds {
		if c.before.Reaches(k.network, o.network) && o.addrs.Overlaps(addrs) {
			vms = append(vms, c.end(o, addrs).VMs...)
			rest = rest.Minus(o.addrs)
		}
	}
	if rest.Empty() && len(vms) > 0 {
		return End{VMs: slices.Compact(slices.Sorted(slices.Values(vms)))}
	}
	return End{Addresses: addrs.Prefixes()}
}

// Text says it in a sentence without a subject: "closes everything from web-1 except udp 53 to
// 10.1.0.2".
func (x Closure) Text(limit int) string {
	near, far := "to ", " from "
	if x.Egress {
		near, far = "from ", " to "
	}
	text := "closes everything " + near + End{VMs: x.VMs}.Text(limit)
	for i, r := range x.Left {
		switch {
		case i == 0:
			text += " except "
		case i == len(x.Left)-1:
			text += " and "
		default:
			text += ", "
		}
		text += r.Packets + far + r.Other.Text(limit)
	}
	return text
}
