package plan

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// Several tenants may share an account. The work of a plan grows with the number of kinds of VMs
// that policies distinguish. A tenant with too many kinds must not block the planning of all
// others: then policies of that tenant are left out, the newest first, and everything else is
// planned. A tenant is one namespace of policies, or all policies without a namespace.
//
// How long a plan takes depends on the machine: near the limit a policy may be left out in one
// round and planned in the next. Both are safe, and what is in force stays in force.

// mostLighter is how many times it is tried again with fewer policies.
const mostLighter = 5

// lighter returns what is to be planned where the input takes too much work: without some policies
// of the tenant that tells apart the most kinds of VMs, which is left half of these. With all,
// nobody else is left more than that, either: a tenant may have many namespaces. It is false if no
// policy is left that could go. The same input always loses the same policies; what is in force
// stays the longest, so that the next round leaves out what this one has left out.
func lighter(in Input, all bool) (Input, bool) {
	k := newKindCounter(in)
	counts := map[string]int{}
	first, most := "", 0
	for _, ns := range slices.Sorted(maps.Keys(k.tenants)) {
		if counts[ns] = k.count(k.tenants[ns]); counts[ns] > most {
			first, most = ns, counts[ns]
		}
	}
	if most == 0 || all && most == 1 {
		return in, false
	}
	in.Heavy = maps.Clone(in.Heavy)
	if in.Heavy == nil {
		in.Heavy = map[string]int{}
	}
	for ns, own := range k.tenants {
		if ns == first || all && counts[ns] > most/2 {
			kinds := k.count(k.all[ns])
			for _, p := range k.beyond(own, most/2) {
				in.Heavy[p.head.Ref.UID] = kinds
			}
		}
	}
	return in, true
}

// beyond are the policies of a tenant that go so that the others tell apart no more kinds: as few
// as possible, for the more are left, the more kinds there are.
func (k *kindCounter) beyond(own []source, kinds int) []source {
	slices.SortFunc(own, func(a, b source) int {
		return cmp.Or(b2i(k.inForce(b))-b2i(k.inForce(a)), intent.ComparePolicies(a.head, b.head))
	})
	return own[sort.Search(len(own), func(n int) bool { return k.count(own[:n+1]) > kinds }):]
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// source is a policy as it is given, with what is read of it first.
type source struct {
	*v1beta2.NetworkPolicy
	head *intent.Policy
}

// kindCounter counts kinds of VMs.
type kindCounter struct {
	// tenants are the policies that are not left out, by namespace.
	tenants map[string][]source
	// all are those that are left out because of the work they take, too.
	all map[string][]source
	// members are the VMs of each group, once for each.
	members map[string][]VMRef
	// enforced are the short names of the policies that groups of ours say are in force; unknown is
	// set if one does not say that of its own.
	enforced map[string]bool
	unknown  bool
}

func newKindCounter(in Input) *kindCounter {
	k := &kindCounter{tenants: map[string][]source{}, all: map[string][]source{}, members: map[string][]VMRef{}, enforced: map[string]bool{}}
	for _, p := range in.Policies {
		s := source{p, intent.Head(p)}
		ns := s.head.Ref.Namespace
		if _, faulty := in.Faulty[s.head.Ref.UID]; faulty {
			continue
		}
		k.all[ns] = append(k.all[ns], s)
		if _, heavy := in.Heavy[s.head.Ref.UID]; !heavy {
			k.tenants[ns] = append(k.tenants[ns], s)
		}
	}
	add := func(group string, members []v1beta2.GroupMember) {
		for i := range members {
			e := intent.EntityOf(&members[i])
			ref, ok := in.Entities[e]
			if !ok {
				ref, ok = in.Services[e]
			}
			if ok {
				k.members[group] = append(k.members[group], ref)
			}
		}
	}
	for _, g := range in.AppliedToGroups {
		add("to "+g.Name, g.GroupMembers)
	}
	for _, g := range in.AddressGroups {
		add("of "+g.Name, g.GroupMembers)
	}
	for _, r := range in.Regions {
		for i := range r.Snapshot.Groups {
			g := &r.Snapshot.Groups[i]
			if !g.OwnedBy(in.ClusterID) || g.Tags[cloud.TagAccount] != in.Account || g.Tags[cloud.TagKind] != cloud.KindClass {
				continue
			}
			e := record.EnforcementOf(g.Tags)
			k.unknown = k.unknown || e == nil
			maps.Copy(k.enforced, e)
		}
	}
	return k
}

// inForce reports whether a policy is in force somewhere, as far as the groups of ours say.
func (k *kindCounter) inForce(p source) bool {
	return k.unknown || k.enforced[record.Shortened(p.head.Ref.UID)]
}

// count is how many kinds of VMs policies tell apart: sets of groups that VMs are in.
func (k *kindCounter) count(policies []source) int {
	groups := map[string]bool{}
	for _, p := range policies {
		for _, g := range p.AppliedToGroups {
			groups["to "+g] = true
		}
		for i := range p.Rules {
			r := &p.Rules[i]
			for _, g := range r.AppliedToGroups {
				groups["to "+g] = true
			}
			for _, g := range slices.Concat(r.From.AddressGroups, r.To.AddressGroups) {
				groups["of "+g] = true
			}
		}
	}
	in := map[VMRef]*strings.Builder{}
	for i, g := range slices.Sorted(maps.Keys(groups)) {
		for _, vm := range k.members[g] {
			if in[vm] == nil {
				in[vm] = &strings.Builder{}
				in[vm].WriteString(vm.Region)
			}
			in[vm].WriteString(" " + strconv.Itoa(i))
		}
	}
	kinds := map[string]bool{}
	for _, signature := range in {
		kinds[signature.String()] = true
	}
	return len(kinds)
}
