package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Summary says in words what a plan counts.
func Summary(s analysis.PlanSummary) string {
	if s.Steps == 0 {
		return "nothing to do"
	}
	replaced := ""
	if s.RulesReplaced > 0 {
		replaced = fmt.Sprintf("%d to replace, ", s.RulesReplaced)
	}
	return fmt.Sprintf("%s to create, %d to change, %d to delete; %s to add, %s%d to remove; %s to set in %s; %s; %s",
		cloud.Counted(int(s.GroupsCreated), "group"), s.GroupsChanged, s.GroupsDeleted, cloud.Counted(int(s.RulesAdded), "rule"), replaced, s.RulesRemoved,
		cloud.Counted(int(s.Interfaces), "interface"), cloud.Counted(int(s.InterfaceEdits), "edit"), cloud.Counted(int(s.Tagged), "tag edit"), cloud.Counted(int(s.Steps), "operation"))
}

// Describe returns a plan with what it tells by itself.
func Describe(p plan.Plan) analysis.PlanDocument { return NewDescriber(Setting{}).Describe(p) }

// Print writes a plan for people, in the form they know from Terraform: + for what comes, ~ for
// what changes, - for what goes. Interfaces that are changed alike one after the other are one
// line, unless all are wanted.
func Print(w io.Writer, d analysis.PlanDocument, all bool) error {
	var b strings.Builder
	region := ""
	for i := 0; i < len(d.Steps); {
		st := &d.Steps[i]
		if st.Region != region {
			region = st.Region
			fmt.Fprintf(&b, "region %s\n", region)
		}
		same := []analysis.PlanStep{*st}
		for i++; i < len(d.Steps) && !all && alike(st, &d.Steps[i]); i++ {
			same = append(same, d.Steps[i])
		}
		printStep(&b, &d, same, all)
	}
	fmt.Fprintf(&b, "Plan: %s.\n", Summary(d.Summary))
	if d.Partial {
		b.WriteString("A further plan follows when this one is done.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// alike reports whether two interfaces get the same groups in place of the same ones, for the same
// reason.
func alike(s, o *analysis.PlanStep) bool {
	return s.Kind == string(cloud.OpSetInterfaceGroups) && o.Kind == s.Kind && o.Region == s.Region && o.Network == s.Network && o.Reason == s.Reason &&
		slices.Equal(s.GroupsBefore, o.GroupsBefore) && slices.Equal(s.Groups, o.Groups) && slices.Equal(s.Policies, o.Policies)
}

// printStep prints a step, or several that are alike.
func printStep(b *strings.Builder, d *analysis.PlanDocument, same []analysis.PlanStep, all bool) {
	st := &same[0]
	switch cloud.OpKind(st.Kind) {
	case cloud.OpCreateGroup:
		known := ""
		if st.NameKnownWhenApplied {
			known = " (name known when applied)"
		}
		fmt.Fprintf(b, "  + security group %s%s in %s", st.Name, known, st.Network)
	case cloud.OpDeleteGroup:
		fmt.Fprintf(b, "  - security group %s", named(d, subject(st)))
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules, cloud.OpSetRules:
		fmt.Fprintf(b, "  ~ security group %s", named(d, subject(st)))
	case cloud.OpSetInterfaceGroups:
		fmt.Fprintf(b, "  ~ %s: groups ", interfaces(same, all))
		if len(st.GroupsBefore) > 0 {
			fmt.Fprintf(b, "%s -> %s", groups(d, st.GroupsBefore), groups(d, st.Groups))
		} else {
			fmt.Fprintf(b, "= %s", groups(d, st.Groups))
		}
	case cloud.OpTag:
		fmt.Fprintf(b, "  + tags on %s", tagged(st, all))
	case cloud.OpUntag:
		fmt.Fprintf(b, "  - tags on %s", tagged(st, all))
	}
	if text := why(st, all); text != "" {
		fmt.Fprintf(b, "  # %s", text)
	}
	b.WriteByte('\n')
	printContents(b, st)
}

// printContents prints the rules and tags of a step.
func printContents(b *strings.Builder, s *analysis.PlanStep) {
	sign := "+"
	if s.Kind == string(cloud.OpRemoveRules) || s.Kind == string(cloud.OpUntag) {
		sign = "-"
	}
	for _, r := range s.Removed {
		fmt.Fprintf(b, "      - %s\n", r.Text)
	}
	for i, r := range s.Rules {
		mark := ""
		if r.Failsafe {
			mark = "  # failsafe"
		}
		if s.Kind == string(cloud.OpReplaceRules) {
			fmt.Fprintf(b, "      ~ %s -> %s%s\n", s.Replaced[i].Text, r.Text, mark)
			continue
		}
		fmt.Fprintf(b, "      %s %s%s\n", sign, r.Text, mark)
	}
	if s.Kind == string(cloud.OpCreateGroup) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		if sign == "-" {
			fmt.Fprintf(b, "      - %s\n", k)
		} else {
			fmt.Fprintf(b, "      + %s = %q\n", k, s.Tags[k])
		}
	}
}

// why is the reason with the policies.
func why(s *analysis.PlanStep, all bool) string {
	parts := make([]string, 0, 2)
	if s.Reason != "" {
		parts = append(parts, s.Reason)
	}
	if len(s.Policies) > 0 {
		names := make([]string, len(s.Policies))
		for i, p := range s.Policies {
			_, names[i], _ = strings.Cut(p, " ") // without the kind
		}
		parts = append(parts, "for "+cloud.Listed(names, all))
	}
	return strings.Join(parts, ", ")
}

// interfaces names the interfaces of steps and their VMs.
func interfaces(alike []analysis.PlanStep, all bool) string {
	if len(alike) == 1 {
		return "interface " + subject(&alike[0]) + of(alike[0].VMs, all)
	}
	var ids, vms []string
	for _, st := range alike {
		ids, vms = append(ids, st.Target), append(vms, st.VMs...)
	}
	if len(vms) < len(ids) { // some have no VM, or no setting tells
		return "interfaces " + cloud.Listed(ids, all)
	}
	return fmt.Sprintf("%d interfaces%s", len(alike), of(vms, all))
}

func of(vms []string, all bool) string {
	if len(vms) == 0 {
		return ""
	}
	names := make([]string, len(vms))
	for i, name := range vms {
		names[i] = strings.ReplaceAll(name, "\n", `\n`) // or it would be a line of the plan
	}
	slices.Sort(names)
	return " of " + cloud.Listed(slices.Compact(names), all)
}

// tagged names what is tagged.
func tagged(s *analysis.PlanStep, all bool) string {
	switch {
	case len(s.Others) == 0:
		return subject(s) + of(s.VMs, all)
	case all:
		return strings.Join(append([]string{subject(s)}, s.Others...), ", ") + of(s.VMs, all)
	case len(s.VMs) == 0:
		return fmt.Sprintf("%s and %d more", subject(s), len(s.Others))
	}
	return fmt.Sprintf("%d interfaces%s", len(s.Others)+1, of(s.VMs, all))
}

// named is a group's ID with its name.
func named(d *analysis.PlanDocument, group string) string {
	if name := d.GroupNames[group]; name != "" {
		return group + " (" + name + ")"
	}
	return group
}

func groups(d *analysis.PlanDocument, ids []string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = named(d, id)
	}
	return strings.Join(out, ", ")
}

// Cut says what somebody loses.
func Cut(c plan.Cut) string {
	who := c.Interface
	if c.VMID != "" {
		who = c.VMID + " (" + c.Interface + ")"
	}
	return cut(who, c)
}

// CutIn is Cut with what people call the interfaces of a region as it was seen.
func CutIn(seen *cloud.Snapshot, c plan.Cut) string {
	lost := make([]string, len(c.Lost))
	for i, id := range c.Lost {
		lost[i] = seen.Called(id)
	}
	c.Lost = lost
	return cloud.ShortIDs(cut(seen.Called(c.Interface), c))
}

func cut(who string, c plan.Cut) string {
	return fmt.Sprintf("%s loses what the rule %q of its group %s allows it, because policies take %s out of the group that the rule names",
		who, c.Rule, c.Group, cloud.Listed(c.Lost, false))
}

// Unguarded says on how many a policy is refused, and the reason of the first.
func Unguarded(all []plan.UnguardedService) string {
	what := cloud.Counted(len(all), "native service")
	switch n := len(slices.DeleteFunc(slices.Clone(all), func(u plan.UnguardedService) bool { return u.Why.Code != plan.InterfaceUnguarded })); n {
	case 0:
	case len(all):
		what = cloud.Counted(n, "network interface")
	default:
		what = fmt.Sprintf("%s and %s", cloud.Counted(len(all)-n, "native service"), cloud.Counted(n, "network interface"))
	}
	return fmt.Sprintf("not enforced on %s: %s", what, all[0].Message)
}
