package plan

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Outlook is what a plan would do to one VM.
type Outlook struct {
	// Guarded, Members and Returned are the interfaces that would be taken over or change their class, become peers of others, and be
	// given back.
	Guarded, Members, Returned int
	// Groups counts the new security groups that its interfaces would hold, Ingress and Egress their rules.
	Groups, Ingress, Egress int
	// Enforced are the policies that would be enforced, Refused the messages about the others.
	Enforced int
	Refused  []string
}

// Outlooks returns what the plan of the result would do to each of its VMs.
func (r *Result) Outlooks() map[VMRef]Outlook {
	type name struct{ region, network, group string }
	rules := map[name][2]int{}
	edits := map[string]Step{} // the last edit of an interface
	for _, s := range r.Plan.Steps {
		switch {
		case s.Op.Kind == cloud.OpAddRules && s.Op.Target == "":
			key := name{s.Scope.Region, s.Network, s.Op.Group.Name}
			n := rules[key]
			for _, rule := range s.Op.Rules {
				n[indexOf(rule.Direction)]++
			}
			rules[key] = n
		case s.Op.Kind == cloud.OpSetInterfaceGroups:
			edits[s.Scope.Region+"/"+s.Op.Target] = s
		}
	}
	out := make(map[VMRef]Outlook, len(r.VMs))
	for _, vm := range r.VMs {
		var o Outlook
		groups := map[name]bool{}
		for _, n := range vm.Interfaces {
			edit, edited := edits[vm.VM.Region+"/"+n.ID]
			switch {
			case !edited:
				continue
			case n.State == Guarded:
				o.Guarded++
			case n.State == Member:
				o.Members++
			default:
				o.Returned++
			}
			for _, g := range edit.Op.GroupNames {
				groups[name{vm.VM.Region, edit.Network, g}] = true
			}
		}
		for g := range groups {
			o.Groups, o.Ingress, o.Egress = o.Groups+1, o.Ingress+rules[g][0], o.Egress+rules[g][1]
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
	o.Groups, o.Ingress, o.Egress = o.Groups+p.Groups, o.Ingress+p.Ingress, o.Egress+p.Egress
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
	if o.Groups > 0 {
		parts = append(parts, fmt.Sprintf("in new groups: %d ingress and %d egress rules", o.Ingress, o.Egress))
	}
	if len(parts) == 0 {
		parts = append(parts, "no interface would change")
	}
	add(o.Enforced, "policies to enforce: %d")
	if len(o.Refused) > 0 {
		parts = append(parts, fmt.Sprintf("refused: %d, %s", len(o.Refused), o.Refused[0]))
	}
	return strings.Join(parts, "; ")
}
