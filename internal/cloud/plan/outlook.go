package plan

import (
	"fmt"
	"maps"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

// Outlook is what a plan would do to one VM, or to several.
type Outlook struct {
	// Guarded, Members and Returned are the interfaces that would be taken over or change their class, become peers of others, and be
	// given back.
	Guarded, Members, Returned int
	// Enforced are the policies that would be enforced, Refused the messages about the others.
	Enforced int
	Refused  []string

	// groups are the groups of ours that the interfaces would hold and whose rules would be others.
	groups map[groupName]groupOutlook
}

// groupName is a group that exists, by its ID, or one that the plan creates, by "+" and its name.
type groupName struct{ region, network, key string }

// groupOutlook counts the rules that a group would get and lose, by direction.
type groupOutlook struct{ added, removed [2]int }

// outlookOfGroups returns what would become of the rules of groups. A rule that a plan adds and removes again does not count.
func (p Plan) outlookOfGroups() map[groupName]groupOutlook {
	net := map[groupName]map[cloud.Rule]int{}
	count := func(s Step, rules []cloud.Rule, n int) {
		name := groupName{region: s.Scope.Region, key: s.Op.Target}
		if s.Op.Target == "" {
			name.network, name.key = s.Network, "+"+s.Op.Group.Name
		}
		if net[name] == nil {
			net[name] = map[cloud.Rule]int{}
		}
		for _, r := range rules {
			net[name][r.Key()] += n
		}
	}
	for _, s := range p.Steps {
		switch s.Op.Kind {
		case cloud.OpAddRules:
			count(s, s.Op.Rules, 1)
		case cloud.OpRemoveRules:
			count(s, s.Op.Rules, -1)
		case cloud.OpReplaceRules:
			count(s, s.Op.Replaced, -1)
			count(s, s.Op.Rules, 1)
		}
	}
	out := map[groupName]groupOutlook{}
	for name, rules := range net {
		var o groupOutlook
		for key, n := range rules {
			d := 0
			if key.Direction == cloud.Egress {
				d = 1
			}
			switch {
			case n > 0:
				o.added[d]++
			case n < 0:
				o.removed[d]++
			}
		}
		out[name] = o
	}
	return out
}

// Outlooks returns what the plan of the result would do to each of its VMs.
func (r *Result) Outlooks() map[intent.VMRef]Outlook {
	rules := r.Plan.outlookOfGroups()
	edits := map[string]Step{} // the last edit of an interface
	for _, s := range r.Plan.Steps {
		if s.Op.Kind == cloud.OpSetInterfaceGroups {
			edits[s.Scope.Region+"/"+s.Op.Target] = s
		}
	}
	out := make(map[intent.VMRef]Outlook, len(r.VMs))
	for _, vm := range r.VMs {
		o := Outlook{groups: map[groupName]groupOutlook{}}
		for _, n := range vm.Interfaces {
			for _, key := range n.Groups {
				name := groupName{region: vm.VM.Region, key: key}
				if strings.HasPrefix(key, "+") {
					name.network = n.Network
				}
				if change, found := rules[name]; found {
					o.groups[name] = change
				}
			}
			_, edited := edits[vm.VM.Region+"/"+n.ID]
			switch {
			case !edited:
			case n.State == target.Guarded:
				o.Guarded++
			case n.State == target.Member:
				o.Members++
			default:
				o.Returned++
			}
		}
		for _, p := range vm.Policies {
			switch {
			case p.Message != "":
				o.Refused = append(o.Refused, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")+": "+p.Message)
			default:
				o.Enforced++
			}
		}
		out[vm.VM] = o
	}
	return out
}

// Add counts another VM's outlook to o.
func (o *Outlook) Add(p Outlook) {
	o.Guarded, o.Members, o.Returned = o.Guarded+p.Guarded, o.Members+p.Members, o.Returned+p.Returned
	if o.groups == nil {
		o.groups = map[groupName]groupOutlook{}
	}
	maps.Copy(o.groups, p.groups) // VMs of a class share theirs
	o.Enforced += p.Enforced
	o.Refused = append(o.Refused, p.Refused...)
}

// String says it in words, with the first refusal.
func (o Outlook) String() string {
	var parts []string
	add := func(n int, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	add(o.Guarded, "interfaces to take over or to change: %d")
	add(o.Members, "interfaces that become peers only: %d")
	add(o.Returned, "interfaces to give back: %d")
	created, ingress, egress, added, removed := 0, 0, 0, 0, 0
	for name, g := range o.groups {
		if strings.HasPrefix(name.key, "+") {
			created, ingress, egress = created+1, ingress+g.added[0], egress+g.added[1]
			continue
		}
		added, removed = added+g.added[0]+g.added[1], removed+g.removed[0]+g.removed[1]
	}
	if created > 0 {
		parts = append(parts, fmt.Sprintf("in new groups: %d ingress and %d egress rules", ingress, egress))
	}
	add(added, "in groups that exist, rules to add: %d")
	add(removed, "in groups that exist, rules to remove: %d")
	if len(parts) == 0 {
		parts = append(parts, "neither an interface nor a rule would change")
	}
	add(o.Enforced, "policies to enforce: %d")
	if len(o.Refused) > 0 {
		parts = append(parts, fmt.Sprintf("refused: %d, %s", len(o.Refused), o.Refused[0]))
	}
	return strings.Join(parts, "; ")
}
