package review_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
	"github.com/nephele-io/nephele/internal/seed"
)

// TestSidesAgreeWithReach: for a map of the set a member says of every workload and every address
// what a question about the two says of the workload's own end, also where somebody of its own
// cluster has that address; of what it does not know it says nothing.
func TestSidesAgreeWithReach(t *testing.T) {
	seed := seed.Of(t)
	seen := map[string]int{}
	for n := range uint64(15) {
		r := rand.New(rand.NewPCG(seed+n, 35))
		w := randomComputation(seed+n, 90).World(false)
		q := &setmap.Question{Packets: setmap.Packets{Except: true}, Own: []wire.Ref{{Kind: wire.Pod, Namespace: "nowhere", Name: "none"}}}
		ends := [][]*reach.Endpoint{nil}
		at := map[policy.EntityRef]int{}
		for i := range w.Endpoints {
			e := &w.Endpoints[i]
			kind := map[policy.EntityKind]wire.Kind{policy.KindPod: wire.Pod, policy.KindExternalEntity: wire.Machine, policy.KindNode: wire.Node}[e.Kind]
			if k, known := at[e.EntityRef]; known {
				ends[k] = append(ends[k], e)
			} else if kind != "" && r.IntN(3) > 0 {
				at[e.EntityRef] = len(q.Own)
				q.Own, ends = append(q.Own, wire.Ref{Kind: kind, Namespace: e.Namespace, Name: e.EntityRef.Name}), append(ends, []*reach.Endpoint{e})
			}
			if len(e.Addresses) > 0 && r.IntN(8) == 0 {
				q.To = append(q.To, e.Addresses[0])
			}
		}
		for i := range 20 {
			q.To = append(q.To, netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)), byte(200 + i)}), netip.MustParseAddr(fmt.Sprintf("fd00::%d:%x", r.IntN(4), 0xff00+i)))
		}
		slices.SortFunc(q.To, netip.Addr.Compare)
		q.To = slices.Compact(q.To)
		q.From = q.To
		raw, err := review.Sides(w, q)
		if err != nil {
			t.Fatal(err)
		}
		a, err := setmap.ParseAnswer(raw, q)
		if err != nil {
			t.Fatalf("world %d: %v", seed+n, err)
		}
		if a.Of[0] != -1 {
			t.Errorf("an unknown workload has hold %d", a.Of[0])
		}
		said := func(rows []setmap.Row, from, to, protocol, port int) []string {
			got := map[string]bool{}
			for _, row := range rows {
				if within(a.Sets[row[0]], from) && within(a.Sets[row[1]], to) && holdsPacket(a.Packets[row[2]], protocol, port) {
					got[a.Decisions[row[3]].Outcome] = true
				}
			}
			return slices.Sorted(maps.Keys(got))
		}
		for range 150 {
			i, k := 1+r.IntN(len(q.Own)-1), r.IntN(len(q.To))
			other := q.To[k]
			mine := reach.Party{Chosen: func(e *reach.Endpoint) bool { return slices.Contains(ends[i], e) }}
			theirs := reach.Party{Addresses: addrset.Of(other), Chosen: func(e *reach.Endpoint) bool { return e.All().Contains(other) }}
			for _, service := range [][2]int{{6, 80}, {6, 443}, {17, 53}} {
				for egress, rows := range map[bool][]setmap.Row{true: a.Out, false: a.In} {
					question := reach.Question{From: mine, To: theirs, Refused: true}
					from, to := i, k
					if !egress {
						question.From, question.To, from, to = theirs, mine, k, i
					}
					want := map[string]bool{}
					for _, f := range w.Reach(question) {
						own, decided := f.From, f.Egress.Outcome
						theirs := f.To
						if !egress {
							own, decided, theirs = f.To, f.Ingress.Outcome, f.From
						}
						of := slices.ContainsFunc(own.Members, func(m reach.Member) bool {
							return slices.ContainsFunc(m.Addresses, func(x netip.Addr) bool { return x.Is4() == other.Is4() }) || !m.Blocks.Empty()
						})
						meant := slices.ContainsFunc(theirs.Members, func(m reach.Member) bool { return slices.Contains(m.Addresses, other) || m.Blocks.Contains(other) }) ||
							slices.ContainsFunc(theirs.Addresses, func(p netip.Prefix) bool { return p.Contains(other) })
						if of && meant && carries(f, service[0], service[1]) {
							want[string(decided)] = true
						}
					}
					got := said(rows, from, to, service[0], service[1])
					if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
						t.Fatalf("world %d: %v and %s, egress %t, %v: %v, want %v", seed+n, q.Own[i], other, egress, service, got, slices.Sorted(maps.Keys(want)))
					}
					for _, o := range got {
						seen[o]++
					}
				}
			}
		}
	}
	t.Log(seen)
	for _, o := range []string{"Allow", "Drop"} {
		if seen[o] < 100 {
			t.Errorf("%d of %s", seen[o], o)
		}
	}
}

// carries reports whether flows carry packets of a protocol and port.
func carries(f reach.Flows, protocol, port int) bool {
	named := false
	for _, s := range f.Possible {
		named = named || s.Protocol == protocol
	}
	for _, s := range f.Services {
		if s.Protocol == protocol && int(s.From) <= port && port <= int(s.To) || s.Protocol == cloud.AnyProtocol && !named {
			return true
		}
	}
	return false
}

func within(runs []int, place int) bool {
	for i := 0; i < len(runs); i += 2 {
		if runs[i] <= place && place <= runs[i+1] {
			return true
		}
	}
	return false
}

func holdsPacket(p setmap.Packets, protocol, port int) bool {
	return slices.ContainsFunc(p.Ranges, func(r []int) bool { return r[0] == protocol && r[1] <= port && port <= r[2] }) != p.Except
}
