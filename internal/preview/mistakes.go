package preview

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// Mistakes are what looks like one in the Antrea policies, told as the webhooks tell it. With
// manifests it is about their policies only.
func (in *Inputs) Mistakes() (out []Warning) {
	groups := map[string][]string{}
	for _, g := range in.Objects.Groups {
		groups[g.Namespace] = append(groups[g.Namespace], g.Name)
	}
	for _, g := range in.Objects.ClusterGroups {
		groups[""] = append(groups[""], g.Name)
	}
	look := func(p policy.Policy) {
		if len(in.Documents) > 0 && in.Documents[objectKey(v1beta1.GroupName, kindOf(p), p.Namespace, p.Name)] == nil {
			return
		}
		name := plan.PolicyRef{Kind: v1beta2.NetworkPolicyType(p.Kind), Namespace: p.Namespace, Name: p.Name}.String()
		add := func(reason WarningReason, found []policy.FieldError) {
			for _, f := range found {
				out = append(out, Warning{reason, name + ": " + f.Error()})
			}
		}
		add(warnHostBits, admission.HostBits(&p))
		add(warnOpensManagement, joined(admission.OpensManagement(&p)))
		add(warnOpensToInternet, joined(admission.OpensToInternet(&p)))
		add(warnOneFamily, joined(admission.OneFamily(&p)))
		add(warnNoSuchGroup, admission.NoSuchGroup(&p, groups[p.Namespace]))
		for _, f := range admission.SelectsNobody(&p, in.selectable()) {
			reason := warnPeerNobody
			if strings.Contains(f.Field, ".appliedTo[") {
				reason = warnSelectsNobody
			}
			add(reason, []policy.FieldError{f})
		}
	}
	for _, p := range in.Objects.Policies {
		look(convert.NetworkPolicy(p))
	}
	for _, p := range in.Objects.ClusterPolicies {
		look(convert.ClusterNetworkPolicy(p))
	}
	for _, k := range in.Objects.K8sPolicies {
		p := convert.KubernetesNetworkPolicy(k)
		for _, f := range admission.HostBits(&p) { // of one that an older API server has stored
			out = append(out, Warning{warnHostBits, plan.PolicyRef{Kind: v1beta2.K8sNetworkPolicy, Namespace: p.Namespace, Name: p.Name}.String() + ": " + f.Error()})
		}
	}
	return out
}

// withDetails adds the warnings about policies that select no one. What was found in the appliedTo
// of one is said with it.
func withDetails(found []Warning, nobody []string) []Warning {
	for _, text := range nobody {
		policy, _, _ := strings.Cut(text, ": ")
		found = slices.DeleteFunc(found, func(w Warning) bool {
			detail, same := strings.CutPrefix(w.Message, policy+": ")
			if same = same && w.Reason == warnSelectsNobody; same {
				text += "; " + detail
			}
			return same
		})
		found = append(found, Warning{warnSelectsNobody, text})
	}
	return found
}

func kindOf(p policy.Policy) string {
	if p.Namespace == "" {
		return "ClusterNetworkPolicy"
	}
	return "NetworkPolicy"
}

// selectable are the entities as selectors see them.
func (in *Inputs) selectable() iter.Seq[admission.Entity] {
	return func(yield func(admission.Entity) bool) {
		for _, e := range in.Objects.Entities {
			if !yield(admission.Entity{Namespace: e.Namespace, Labels: e.Labels}) {
				return
			}
		}
	}
}

// someNames is how many names stand in a sentence.
const someNames = 4

// joined puts what is said of several rules of a policy into one: the first has the words, and
// represents all.
func joined(found []policy.FieldError) []policy.FieldError {
	if len(found) < 2 {
		return found
	}
	fields := make([]string, len(found))
	for i, f := range found {
		fields[i] = f.Field
	}
	one := found[0]
	one.Field = strings.TrimSpace(cloud.Listed(fields, false))
	return []policy.FieldError{one}
}

// changesOfAccess are the flows that a plan opens to VMs from the Internet, and those that it
// closes and by which somebody may be at work now: one warning each, whatever it is about.
func changesOfAccess(changes []forecast.Change, before func(region string) *cloud.Snapshot) (out []analysis.PlanNote) {
	add := func(reason WarningReason, region, message string) {
		if message != "" {
			out = append(out, analysis.PlanNote{Region: region, Reason: string(reason), Message: message})
		}
	}
	var regions []string
	for _, c := range changes {
		if !slices.Contains(regions, c.Region) {
			regions = append(regions, c.Region)
		}
	}
	for _, region := range regions {
		var doors, others, closes clauses
		for _, c := range changes {
			switch {
			case c.Region != region || len(c.To.VMs) == 0:
			case !c.Opens:
				for _, d := range admission.Doors() {
					if c.Packets.Contain(cloud.TCP, int(d.Port)) {
						closes.add(d.Name, c.To, c.From, todayBy(before(region), c, int(d.Port)))
					}
				}
			case fromInternet(c.From):
				for _, d := range admission.Doors() {
					if c.Packets.Contain(cloud.TCP, int(d.Port)) {
						doors.add(d.Name, c.To, c.From, nil)
					}
				}
				if !onlyDoors(c.Packets) {
					others.add(c.Packets.Text, c.To, c.From, nil)
				}
			}
		}
		add(warnOpensManagement, region, doors.text("opens ", "; any host in the Internet may try to get in: name the blocks of the administrators of the machines"))
		add(warnOpensToInternet, region, others.text("opens ", " to anybody in the Internet"))
		add(warnClosesAccess, region, closes.text("closes ", "; somebody may be at work by it now: a rule that allows it, or spec.failsafe of the account, keeps it open"))
	}
	return out
}

// fromInternet reports whether an end holds much of the Internet.
func fromInternet(e forecast.End) bool {
	var four, six []admission.Block
	for _, p := range e.Addresses {
		if b := (admission.Block{Prefix: p}); p.Addr().Is4() {
			four = append(four, b)
		} else {
			six = append(six, b)
		}
	}
	return admission.Wide(four) || admission.Wide(six)
}

// onlyDoors reports whether packets are nothing but those by which people get at machines.
func onlyDoors(p forecast.Packets) bool {
	return !p.Except && !slices.ContainsFunc(p.Ranges, func(r forecast.Range) bool {
		return r.Protocol != cloud.TCP || r.From != r.To || !slices.ContainsFunc(admission.Doors(), func(d admission.Door) bool { return int(d.Port) == r.From })
	})
}

// todayBy are the groups that allow a packet of flows that close.
func todayBy(before *cloud.Snapshot, c forecast.Change, port int) []string {
	if before == nil {
		return nil
	}
	return forecast.Allowing(before, c, cloud.TCP, port)
}

// clauses are the services that open, or close, with both ends, by kind.
type clauses struct {
	names []string
	by    map[string]*clause
}

type clause struct{ to, from, groups []string }

func (c *clauses) add(name string, to, from forecast.End, groups []string) {
	if c.by == nil {
		c.by = map[string]*clause{}
	}
	x := c.by[name]
	if x == nil {
		x = &clause{}
		c.by[name], c.names = x, append(c.names, name)
	}
	x.to = append(x.to, to.VMs...)
	x.groups = append(x.groups, groups...)
	if len(from.VMs)+len(from.Unseen) > 0 {
		x.from = append(append(x.from, from.VMs...), from.Unseen...)
	} else {
		x.from = append(x.from, from.Text(someNames))
	}
}

// text is one sentence of all, or nothing.
func (c *clauses) text(verb, end string) string {
	if len(c.names) == 0 {
		return ""
	}
	// What is so of the same VMs and from the same places is said once.
	var order []string
	names := map[string][]string{}
	for _, name := range c.names {
		x := c.by[name]
		text := " to " + someOf(x.to) + " from " + someOf(x.from)
		if groups := sorted(x.groups); len(groups) > 0 {
			verb := " allows today"
			if len(groups) > 1 {
				verb = " allow today"
			}
			text += ", which " + strings.TrimSpace(cloud.Listed(groups, false)) + verb
		}
		if names[text] == nil {
			order = append(order, text)
		}
		names[text] = append(names[text], name)
	}
	parts := make([]string, len(order))
	for i, text := range order {
		parts[i] = strings.Join(names[text], " and ") + text
	}
	return verb + strings.Join(parts, ", and ") + end
}

func sorted(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// someOf names some of many, each once, and says how many they are.
func someOf(names []string) string {
	seen := map[string]bool{}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { was := seen[n]; seen[n] = true; return was })
	if len(names) > someNames {
		return fmt.Sprintf("%d, among them %s", len(names), strings.Join(names[:someNames], ", "))
	}
	return strings.Join(names, ", ")
}

// losesPolicy warns of VMs that policies guard now and will not when all is done; nil if there are
// none.
func losesPolicy(p *plan.Protection, names map[string]string) []analysis.PlanNote {
	if p == nil {
		return nil
	}
	guarded := map[plan.VMRef]bool{}
	for _, r := range p.Then {
		guarded[r.VM] = true
	}
	byRegion := map[string][]string{}
	for _, r := range p.Released() {
		if !guarded[r.VM] {
			byRegion[r.VM.Region] = append(byRegion[r.VM.Region], cmp.Or(names[r.VM.ID], r.VM.ID))
		}
	}
	var out []analysis.PlanNote
	for _, region := range slices.Sorted(maps.Keys(byRegion)) {
		vms := sorted(byRegion[region])
		message := "no policy guards " + someOf(vms) + " after this: "
		if len(vms) > 1 {
			message += "their own security groups decide alone, and these may allow more"
		} else {
			message += "its own security groups decide alone, and these may allow more"
		}
		out = append(out, analysis.PlanNote{Region: region, Reason: string(warnLosesPolicy), Message: message})
	}
	return out
}
