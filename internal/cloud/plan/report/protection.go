package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// InterfaceRef names a network interface of a VM.
type InterfaceRef struct {
	VM intent.VMRef
	ID string
	// Name is what people call the VM; it may be empty, and identifies nothing.
	Name string
}

// String names the VM as people do.
func (r InterfaceRef) String() string { return cmp.Or(r.Name, cloud.ShortIDs(r.VM.ID)) }

// Compare orders by region, VM and ID.
func (r InterfaceRef) Compare(o InterfaceRef) int {
	return cmp.Or(r.VM.Compare(o.VM), cmp.Compare(r.ID, o.ID))
}

// Protection says which interfaces policies guard. Interfaces without a VM, of services of the
// cloud, of networks and controllers that are not ours, and interfaces released in an emergency do
// not count. Neither does it count as guarded if an interface is under control only because the
// rules of its own groups refer to groups that others have given up: nothing is kept from it. All
// lists are sorted.
type Protection struct {
	// Regions are those that this is about.
	Regions []string
	// All are the interfaces that count.
	All []InterfaceRef
	// Now are those that policies guard, Then those that they will guard when nothing is left to
	// do. Where somebody has taken a guarded interface out of our groups it still counts as
	// guarded: to put that right is a repair.
	Now, Then []InterfaceRef
	// Refused are neither, because what policies want there is refused.
	Refused []InterfaceRef
}

// Released are the interfaces that policies will cease to guard.
func (p *Protection) Released() []InterfaceRef { return absent(p.Now, p.Then) }

// Guarded are the interfaces that policies will begin to guard.
func (p *Protection) Guarded() []InterfaceRef { return absent(p.Then, p.Now) }

// Hash identifies what will be guarded in an account. It is the same for all rounds of a change,
// whatever part of it is done.
func (p *Protection) Hash(account string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", account)
	for _, r := range p.Then {
		fmt.Fprintf(h, "%q %q\n", r.VM.Region, r.ID)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// absent returns what is in a and not in b. Both are sorted.
func absent(a, b []InterfaceRef) []InterfaceRef {
	var out []InterfaceRef
	for _, r := range a {
		if _, found := slices.BinarySearchFunc(b, r, InterfaceRef.Compare); !found {
			out = append(out, r)
		}
	}
	return out
}

// ProtectionOf is that of what is wanted in regions, whatever has to wait at present.
func ProtectionOf(regions []*guard.States) *Protection {
	out := &Protection{}
	for _, s := range regions {
		out.Regions = append(out.Regions, s.Region.Snap.Region)
		names := map[string]string{}
		for i := range s.Region.Snap.VMs {
			names[s.Region.Snap.VMs[i].ID] = cloud.Words(s.Region.Snap.VMs[i].Name)
		}
		for _, n := range s.NICs {
			mode := s.Region.Mode(n.NIC)
			if n.VMID == "" || n.Managed || n.Elsewhere() != nil || n.Network.Foreign != nil || mode == intent.BreakGlass {
				continue
			}
			ref := InterfaceRef{VM: intent.VMRef{Region: s.Region.Snap.Region, ID: n.VMID}, ID: n.ID, Name: names[n.VMID]}
			out.All = append(out.All, ref)
			now, wanted := protects(s.Region, n), n.VM != nil && len(n.VM.Effective) > 0
			if now {
				out.Now = append(out.Now, ref)
			}
			lasting := func(why *reason.Reason) bool { return why != nil && !n.Waiting() }
			switch refused := lasting(s.Controllable(n)); {
			case mode.Still() || lasting(n.Frozen()) || n.Blocked != "" && now:
				wanted = now
			case wanted && refused:
				out.Refused, wanted = append(out.Refused, ref), false
			case n.VM != nil && !now && len(n.VM.Policies) > 0 && mode == intent.Enforce && !wanted:
				out.Refused = append(out.Refused, ref)
			}
			if wanted {
				out.Then = append(out.Then, ref)
			}
		}
	}
	for _, list := range [][]InterfaceRef{out.All, out.Now, out.Then, out.Refused} {
		slices.SortFunc(list, InterfaceRef.Compare)
	}
	return out
}

// protects reports whether policies guard an interface as it is. One without a group of ours that
// remembers how it was has been taken out of it.
func protects(r *intent.Region, n *guard.NIC) bool {
	if !n.Record.Exists() {
		return false
	}
	for _, id := range n.Groups.Ours {
		if g := r.Groups[id]; g.Tags[cloud.TagKind] == cloud.KindClass {
			e := record.EnforcementOf(g.Tags)
			return e == nil || len(e) > 0
		}
	}
	return true
}
