package policytest

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// Replay is a subscriber: it keeps, for every enforcer key and for a receiver of everything (key
// ""), what that receiver would hold after applying every delta as an agent does.
type Replay struct {
	views map[string]*view
	// store is what the publisher must remember to serve keys that enter a span.
	members [2]map[string]map[policy.EntityRef]*policy.Member
	spans   [2]map[string]map[string]bool
	objects map[string]*policy.ComputedPolicy
	uids    [2]map[string]string
}

// view is what one receiver holds: policies by UID, members of groups by role, name and identity.
type view struct {
	policies map[string]*policy.ComputedPolicy
	groups   [2]map[string]map[string]*policy.Member
}

// NewReplay returns a subscriber with receivers for the keys.
func NewReplay(keys []string) *Replay {
	r := &Replay{views: map[string]*view{}, objects: map[string]*policy.ComputedPolicy{}}
	for role := range r.members {
		r.members[role] = map[string]map[policy.EntityRef]*policy.Member{}
		r.spans[role] = map[string]map[string]bool{}
		r.uids[role] = map[string]string{}
	}
	for _, k := range append([]string{""}, keys...) {
		v := &view{policies: map[string]*policy.ComputedPolicy{}}
		for role := range v.groups {
			v.groups[role] = map[string]map[string]*policy.Member{}
		}
		r.views[k] = v
	}
	return r
}

func identity(role policy.GroupRole, m *policy.Member) string {
	var ips []string
	for _, a := range m.As(role).IPs {
		ips = append(ips, a.String())
	}
	return fmt.Sprintf("%s:%s/%s %s", m.Kind, m.Namespace, m.Name, strings.Join(ips, ","))
}

// Apply takes over a delta. It returns an error where a strict receiver would give up.
func (r *Replay) Apply(d *policy.Delta) error {
	for _, list := range [][]policy.GroupDelta{d.AddressGroups, d.AppliedToGroups} {
		if !slices.IsSortedFunc(list, func(a, b policy.GroupDelta) int { return strings.Compare(a.Name, b.Name) }) {
			return fmt.Errorf("groups are not sorted")
		}
		for i := range list {
			if err := r.group(&list[i]); err != nil {
				return err
			}
		}
	}
	for i := range d.Policies {
		if err := r.policy(&d.Policies[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replay) group(g *policy.GroupDelta) error {
	known := r.members[g.Role][g.Name]
	if (g.Change == policy.Added) != (known == nil) {
		return fmt.Errorf("group %s: change %d, known before: %t", g.Name, g.Change, known != nil)
	}
	span := r.spans[g.Role][g.Name]
	if g.Change == policy.Updated && len(g.Added)+len(g.Removed)+len(g.SpanAdded)+len(g.SpanRemoved) == 0 && r.uids[g.Role][g.Name] == g.UID {
		return fmt.Errorf("group %s: an empty change", g.Name)
	}
	r.uids[g.Role][g.Name] = g.UID
	if g.Change == policy.Added {
		known, span = map[policy.EntityRef]*policy.Member{}, map[string]bool{}
		r.members[g.Role][g.Name], r.spans[g.Role][g.Name] = known, span
	}
	for _, m := range g.Removed {
		if known[m.EntityRef] == nil {
			return fmt.Errorf("group %s: removes %s, which it does not have", g.Name, identity(g.Role, m))
		}
		delete(known, m.EntityRef)
	}
	for _, m := range g.Added {
		known[m.EntityRef] = m
	}
	for key, v := range r.views {
		was := key == "" && g.Change != policy.Added || span[key]
		is := was || slices.Contains(g.SpanAdded, key) || key == "" && g.Change != policy.Removed
		if slices.Contains(g.SpanRemoved, key) || g.Change == policy.Removed {
			is = false
		}
		if err := v.group(g, key, was, is, known); err != nil {
			return err
		}
	}
	for _, k := range g.SpanAdded {
		if span[k] {
			return fmt.Errorf("group %s: %s enters the span twice", g.Name, k)
		}
		span[k] = true
	}
	for _, k := range g.SpanRemoved {
		if !span[k] {
			return fmt.Errorf("group %s: %s leaves the span it is not in", g.Name, k)
		}
		delete(span, k)
	}
	if g.Change == policy.Removed {
		if len(span) > 0 {
			return fmt.Errorf("group %s: removed, but still spans %v", g.Name, sortedKeys(span))
		}
		delete(r.members[g.Role], g.Name)
		delete(r.spans[g.Role], g.Name)
		delete(r.uids[g.Role], g.Name)
	}
	return nil
}

// group applies what one receiver gets of a change: everything, a patch, or the deletion.
func (v *view) group(g *policy.GroupDelta, key string, was, is bool, all map[policy.EntityRef]*policy.Member) error {
	mine := v.groups[g.Role][g.Name]
	if was != (mine != nil) {
		return fmt.Errorf("group %s at %q: was in span: %t, held: %t", g.Name, key, was, mine != nil)
	}
	switch {
	case !is:
		delete(v.groups[g.Role], g.Name)
	case !was:
		mine = map[string]*policy.Member{}
		for _, m := range all {
			if g.Role == policy.AddressGroup || key == "" || m.On(key) {
				mine[identity(g.Role, m)] = m
			}
		}
		v.groups[g.Role][g.Name] = mine
	default:
		added, removed := g.For(key)
		for _, m := range added {
			mine[identity(g.Role, m)] = m
		}
		for _, m := range removed {
			if mine[identity(g.Role, m)] == nil {
				return fmt.Errorf("group %s at %q: patch removes %s, which is not held", g.Name, key, identity(g.Role, m))
			}
			delete(mine, identity(g.Role, m))
		}
	}
	return nil
}

func (r *Replay) policy(p *policy.PolicyDelta) error {
	uid := p.Policy.Source.UID
	known := r.objects[uid]
	if known != p.Old {
		return fmt.Errorf("policy %s: the old value is not the one handed out before", uid)
	}
	if (p.Change == policy.Added) != (known == nil) {
		return fmt.Errorf("policy %s: change %d, known before: %t", uid, p.Change, known != nil)
	}
	if p.Change == policy.Removed {
		delete(r.objects, uid)
	} else {
		r.objects[uid] = p.Policy
	}
	for key, v := range r.views {
		_, was := v.policies[uid]
		is := was || key == "" || slices.Contains(p.SpanAdded, key)
		if slices.Contains(p.SpanAdded, key) && was || slices.Contains(p.SpanRemoved, key) && !was {
			return fmt.Errorf("policy %s: span change of %q does not fit", uid, key)
		}
		if p.Change == policy.Removed && was && key != "" && !slices.Contains(p.SpanRemoved, key) {
			return fmt.Errorf("policy %s: removed, but %q is not told", uid, key)
		}
		if slices.Contains(p.SpanRemoved, key) || p.Change == policy.Removed {
			is = false
		}
		if is {
			v.policies[uid] = p.Policy
		} else {
			delete(v.policies, uid)
		}
	}
	return nil
}

// Dump renders what every receiver holds.
func (r *Replay) Dump() string {
	var out strings.Builder
	keys := map[string]bool{}
	for k := range r.views {
		keys[k] = true
	}
	for _, key := range sortedKeys(keys) {
		v := r.views[key]
		var lines []string
		for uid, p := range v.policies {
			lines = append(lines, fmt.Sprintf("policy %s %v", uid, WirePolicy(p)))
		}
		for role, groups := range v.groups {
			for name, members := range groups {
				lines = append(lines, groupLine(role, name, members))
			}
		}
		sort.Strings(lines)
		fmt.Fprintf(&out, "== %q\n%s\n", key, strings.Join(lines, "\n"))
	}
	for role, uids := range r.uids {
		for _, name := range slices.Sorted(maps.Keys(uids)) {
			fmt.Fprintf(&out, "%d %s is %s\n", role, name, uids[name])
		}
	}
	return out.String()
}

func groupLine(role int, name string, members map[string]*policy.Member) string {
	ids := []string{}
	for id, m := range members {
		ids = append(ids, fmt.Sprintf("%s %v", id, m.Ports))
	}
	sort.Strings(ids)
	return fmt.Sprintf("group %d %s %s", role, name, strings.Join(ids, "; "))
}

// Serve returns what receivers with these keys must hold according to a listing, in the form of
// Replay.Dump.
func Serve(l *policy.Listing, keys []string) string {
	r := NewReplay(keys)
	for key, v := range r.views {
		for _, p := range l.Policies {
			if key == "" || slices.Contains(p.Span, key) {
				v.policies[p.Source.UID] = p.ComputedPolicy
			}
		}
		for role, list := range [][]policy.ComputedGroup{l.AddressGroups, l.AppliedToGroups} {
			for _, g := range list {
				r.uids[role][g.Name] = g.UID
				if key != "" && !slices.Contains(g.Span, key) {
					continue
				}
				mine := map[string]*policy.Member{}
				for _, m := range g.Members {
					if policy.GroupRole(role) == policy.AddressGroup || key == "" || m.On(key) {
						mine[identity(policy.GroupRole(role), m)] = m
					}
				}
				v.groups[role][g.Name] = mine
			}
		}
	}
	return r.Dump()
}
