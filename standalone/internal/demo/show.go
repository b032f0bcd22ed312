package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	planrender "github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// This file holds what the story shows of the account, of the API's objects and of the plan.

// vmTable lists VMs with their interfaces.
func vmTable(machines []vm) string {
	var b strings.Builder
	for _, m := range machines {
		for i, n := range m.nics {
			name, id := "", ""
			if i == 0 {
				name, id = m.name, m.id
			}
			var groups []string
			for _, g := range n.Groups {
				groups = append(groups, fmt.Sprintf("%s (%s)", g.ID, g.Name))
			}
			fmt.Fprintf(&b, "  %-15s  %-19s  %-13s  %-13s  %s\n", name, id, n.ID, n.PrimaryIP().Addr, strings.Join(groups, " "))
		}
	}
	return b.String()
}

// showImported lists the VirtualMachine objects and says what became of the tags.
func (s *story) showImported(ctx context.Context) error {
	var b strings.Builder
	left := map[string]bool{}
	var unimported []string
	fmt.Fprintf(&b, "  %-19s  %-15s  %-8s  %s\n", "VIRTUALMACHINE", "NAME IN CLOUD", "STATE", "ADDRESSES")
	for _, m := range s.machines {
		var o cloudv1.VirtualMachine
		if err := s.cluster.Get(ctx, types.NamespacedName{Namespace: namespace, Name: m.id}, &o); err != nil {
			return err
		}
		var addresses []string
		for _, n := range o.Status.NetworkInterfaces {
			for _, ip := range n.IPs {
				addresses = append(addresses, ip.Address)
			}
		}
		fmt.Fprintf(&b, "  %-19s  %-15s  %-8s  %s\n", o.Name, o.Status.CloudName, o.Status.State, strings.Join(addresses, " "))
		for _, t := range o.Status.UnimportedTags {
			if text := fmt.Sprintf("%s=%q", t.Key, t.Value); !left[text] {
				left[text] = true
				unimported = append(unimported, text)
			}
		}
	}
	s.print(b.String())
	if len(unimported) > 0 {
		s.say("Tags become labels to select by. These hold blanks, which labels may not, so they were left out, and the status of the VM "+
			"says so (unimportedTags): %s. The story therefore gives the VMs a tag of its own, role, in the spec of the VirtualMachine:",
			strings.Join(unimported, ", "))
	} else {
		s.say("Tags become labels to select by. The story gives the VMs one of its own, role, in the spec of the VirtualMachine:")
	}
	return nil
}

// showPlan prints what the policies would do in the cloud, before they are applied.
func (s *story) showPlan(ctx context.Context) error {
	s.heading("The plan")
	s.say("Two policies: nobody outside 192.168.0.0/16 may use ssh (%s); switches accept management from CVP and ping from each "+
		"other only (%s). Before they are applied, this is what they will do in the cloud. Nothing is changed yet.",
		s.file(fileNoSSH), s.file(fileSwitches))
	after := s.account.server.Journal().Total()
	s.steps.Step("computing the plan")
	result, err := s.preview(ctx, s.session.RestConfig, types.NamespacedName{Namespace: namespace, Name: accountName},
		[]string{s.file(fileNoSSH), s.file(fileSwitches)})
	s.steps.Step("")
	if err != nil {
		return fmt.Errorf("compute the plan: %w", err)
	}
	var b strings.Builder
	if err := planrender.Print(&b, planrender.Describe(result.Plan), false); err != nil {
		return err
	}
	s.print(b.String())
	var refused []string
	for _, r := range result.Refusals {
		refused = append(refused, r.Message)
	}
	s.check(refused, "nothing of the policies is refused")
	var wrong []string
	if result.Plan.Empty() {
		wrong = []string{"there is nothing in the plan"}
	}
	s.planned = plannedCalls(result.Plan)
	s.say("These operations are %s. (The names of new groups are made from the identities of the policies, which they get when they "+
		"are applied; so they will differ from those above.)", numbered(s.planned, "call"))
	writes := 0
	for action, n := range count(s.account.server.Journal().Calls(after)).writes {
		writes += n
		wrong = append(wrong, fmt.Sprintf("%d calls of %s", n, action))
	}
	s.check(wrong, "%s planned, %d calls that change anything made so far", numbered(len(result.Plan.Steps), "operation"), writes)
	return nil
}

// plannedCalls is the number of calls that carry out a plan: one per operation, one more for the
// rules that the cloud puts into a new group by itself, and one more for an edit of rules in both
// directions.
func plannedCalls(p plan.Plan) int {
	n := len(p.Steps)
	for _, step := range p.Steps {
		directions := map[cloud.Direction]bool{}
		for _, r := range step.Op.Rules {
			directions[r.Direction] = true
		}
		if step.Op.Kind == cloud.OpCreateGroup || len(directions) > 1 {
			n++
		}
	}
	return n
}

// groups lists our security groups with their rules and interfaces, and what the interfaces had
// before.
func (s *story) groups() string {
	r := s.account.regionState()
	owner := map[string]string{}
	for _, m := range s.machines {
		for _, n := range m.nics {
			owner[n.ID] = m.name
		}
	}
	names := map[string]string{}
	for _, g := range r.SecurityGroups {
		names[g.ID] = g.Name
	}
	var b strings.Builder
	for _, g := range r.SecurityGroups {
		if !ours(g) {
			continue
		}
		fmt.Fprintf(&b, "  %s %s\n", g.ID, g.Name)
		for _, text := range ruleLines(g, names) {
			fmt.Fprintf(&b, "      %s\n", text)
		}
		fmt.Fprintf(&b, "      on %s\n", strings.Join(holders(r, g.ID, owner), ", "))
	}
	for _, n := range r.NetworkInterfaces {
		if former := n.Tags[tagPrefix+"former-groups"]; former != "" {
			fmt.Fprintf(&b, "  %s (%s) had %s, as its tag %sformer-groups records\n", n.ID, owner[n.ID], former, tagPrefix)
		}
	}
	return b.String()
}

// ruleLines spells the rules of a group, ingress first.
func ruleLines(g aws.SecurityGroup, names map[string]string) []string {
	var in, out []string
	for i := range g.Rules {
		rule := &g.Rules[i]
		text := rule.String()
		if rule.Group != nil && names[rule.Group.GroupID] != "" {
			text += " (" + names[rule.Group.GroupID] + ")"
		}
		if rule.Egress {
			out = append(out, "out: "+text)
		} else {
			in = append(in, "in:  "+text)
		}
	}
	slices.Sort(in)
	slices.Sort(out)
	return append(in, out...)
}

// holders names the VMs of the interfaces that hold a group.
func holders(r aws.RegionState, group string, owner map[string]string) []string {
	var out []string
	for _, n := range r.NetworkInterfaces {
		for _, g := range n.Groups {
			if g.ID == group {
				out = append(out, fmt.Sprintf("%s (%s)", n.ID, owner[n.ID]))
			}
		}
	}
	if out == nil {
		return []string{"nothing"}
	}
	return out
}
