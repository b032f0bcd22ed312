package preview

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// Mistakes are what looks like one in the Antrea policies, told as the webhooks tell it. With
// manifests it is about their policies only.
func (in *Inputs) Mistakes() (out []Warning) {
	groups := map[string][]string{}
	for _, g := range in.Groups {
		groups[g.Namespace] = append(groups[g.Namespace], g.Name)
	}
	for _, g := range in.ClusterGroups {
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
		add(warnNoSuchGroup, admission.NoSuchGroup(&p, groups[p.Namespace]))
		for _, f := range admission.SelectsNobody(&p, in.selectable()) {
			reason := warnPeerNobody
			if strings.Contains(f.Field, ".appliedTo[") {
				reason = warnSelectsNobody
			}
			add(reason, []policy.FieldError{f})
		}
	}
	for _, p := range in.Policies {
		look(convert.NetworkPolicy(p))
	}
	for _, p := range in.ClusterPolicies {
		look(convert.ClusterNetworkPolicy(p))
	}
	return out
}

// withDetails adds the warnings about policies that select nobody. What was found in the appliedTo
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
		for _, e := range in.Entities {
			if !yield(admission.Entity{Namespace: e.Namespace, Labels: e.Labels}) {
				return
			}
		}
	}
}

// access is how people get at VMs.
var access = []struct {
	name string
	port int
}{{"ssh (tcp 22)", 22}, {"remote desktop (tcp 3389)", 3389}}

// amongThem names an end of flows in a sentence, or some of it and how much it is.
func amongThem(e forecast.End) string {
	names := slices.Concat(e.VMs, e.Unseen)
	switch {
	case len(names) == 0:
		return e.Text(someNames)
	case len(names) > someNames:
		return fmt.Sprintf("%d VMs, among them %s", len(names), strings.Join(names[:someNames], ", "))
	}
	return strings.Join(names, ", ")
}

// someNames is how many names stand in a sentence.
const someNames = 4

// protocolTCP is the number of TCP.
const protocolTCP = 6

// closesAccess warns of flows that close and by which somebody can get at VMs now. Nobody may use
// them; whoever does is shut out.
func closesAccess(changes []forecast.Change, before func(region string) *cloud.Snapshot) (out []PlannedNote) {
	for _, a := range access {
		var told []string
		for _, c := range changes {
			if c.Opens || len(c.To.VMs) == 0 || !c.Packets.Contain(protocolTCP, a.port) {
				continue
			}
			today := ""
			if s := before(c.Region); s != nil {
				if groups := forecast.Allowing(s, c, protocolTCP, a.port); len(groups) > 0 {
					verb := " allows today"
					if len(groups) > 1 {
						verb = " allow today"
					}
					today = ", which " + cloud.Listed(groups, false) + verb
				}
			}
			message := fmt.Sprintf("closes %s to %s from %s%s; somebody may be at work by it now: a rule that allows it, or spec.failsafe of the account, keeps it open",
				a.name, amongThem(c.To), amongThem(c.From), today)
			if key := c.Region + message; !slices.Contains(told, key) {
				told = append(told, key)
				out = append(out, PlannedNote{Region: c.Region, Reason: string(warnClosesAccess), Message: message})
			}
		}
	}
	return out
}
