package show

import (
	"fmt"
	stdmaps "maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/status"
)

// mostFindings is how many findings of a kind one screen shows; JSON has all of them.
const mostFindings = 10

// Status is a report for people, at most terminal.Screen characters wide.
func Status(r *status.Report, clusters bool, version string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	entry := func(name, text string) {
		b.WriteString(terminal.Folded(fmt.Sprintf("%-12s", name), strings.Repeat(" ", 12), terminal.Printable(text)) + "\n")
	}
	switch r.State {
	case status.Well:
		if idle := r.Policies.ByPhase[status.Idle]; idle > 0 {
			line("Nothing is wrong; %s to nothing.", terminal.Plural(idle, "policy applies", "policies apply"))
		} else {
			line("Everything is well.")
		}
	case status.UnderWay:
		line("Nothing is wrong; not everything is done yet.")
	default:
		line("%s attention.", terminal.Plural(len(r.Attention), "thing needs", "things need"))
	}
	line("")
	entry("Controller", controllerText(r, version))
	if len(r.Accounts) == 0 {
		entry("Accounts", "none")
	} else {
		line(accountRow, "Accounts", "REGION", "VMS", "GUARDED", "AGE", "STATE")
		for _, a := range r.Accounts {
			b.WriteString(accountLines(a))
		}
		for _, q := range quotaTexts(r.Accounts) {
			entry("Quotas", q)
		}
	}
	entry("Selectors", fmt.Sprintf("%d, of which ready: %d", r.Selectors.Total, r.Selectors.Ready))
	entry("VMs", vmText(r.VMs))
	if r.Agents.Total > 0 {
		entry("Agents", fmt.Sprintf("%d, of which well: %d", r.Agents.Total, r.Agents.Healthy))
	}
	entry("Policies", fmt.Sprintf("%d%s", r.Policies.Total, counts(r.Policies.ByPhase, policyPhases())))
	b.WriteString(setLines(r, clusters))
	for _, name := range slices.Sorted(stdmaps.Keys(r.Asked)) {
		entry("", fmt.Sprintf("%s: %s", name, r.Asked[name]))
	}
	findings(&b, "Needs attention", r.Attention)
	findings(&b, "Good to know", r.Notes)
	if len(r.NotRead) > 0 {
		line("\nNot read, so nothing is said about it:")
		for _, n := range r.NotRead {
			b.WriteString(terminal.Folded("  - ", "    ", terminal.Printable(n)) + "\n")
		}
	}
	return b.String()
}

// policyPhases are the phases of policies, in the order in which they are told.
func policyPhases() []status.Phase {
	return []status.Phase{status.Realized, status.Idle, status.Realizing, status.Pending, status.Planned, status.Failed, status.Suspended, status.Staged, status.NotEnforced,
		status.NotReported, v1beta1.PhaseUnknown}
}

// clusterRow is the form of a line about a member of the set.
const clusterRow = "%-26s %-10s %8s %8s  %s"

// setLines are the lines about the set: how many members are in sync or, if asked for, each of
// them.
func setLines(r *status.Report, each bool) string {
	var b strings.Builder
	if r.Hub != nil {
		fmt.Fprintf(&b, "%-12s%s\n", "Hub", terminal.Printable(r.Hub.Text()))
	}
	if m := r.Membership; m != nil {
		state := "not connected to its hub"
		if m.Connected {
			state = "connected to its hub"
		}
		fmt.Fprintf(&b, "%-12s%s, %s, with %s from there\n", "Member", terminal.Printable(m.Cluster), state, terminal.Plural(int(m.Policies), "policy", "policies"))
	}
	switch {
	case len(r.Clusters) == 0 && each && r.Membership == nil:
		fmt.Fprintf(&b, "%-12s%s\n", "Clusters", "none")
	case len(r.Clusters) == 0:
	case !each:
		synced := 0
		for _, c := range r.Clusters {
			if c.State == "InSync" {
				synced++
			}
		}
		fmt.Fprintf(&b, "%-12s%d, of which in sync: %d\n", "Clusters", len(r.Clusters), synced)
	default:
		fmt.Fprintf(&b, clusterRow+"\n", "Clusters", "STATE", "HEARD", "ENTITIES", "POLICIES")
		for _, c := range r.Clusters {
			heard, total := "never", 0
			if c.LastHeard != nil {
				heard = ago(int64(r.At.Sub(c.LastHeard.Time) / time.Second))
			}
			for _, n := range c.Policies {
				total += n
			}
			policies := fmt.Sprintf("%d%s", total, counts(c.Policies, policyPhases()))
			fmt.Fprintf(&b, clusterRow+"\n", "  "+terminal.Printable(c.Name), terminal.Printable(c.State), heard, strconv.Itoa(int(c.Entities)), policies)
			for _, p := range c.Wrong {
				text := fmt.Sprintf("%s: %s %s: %s", p.Policy, p.Phase, p.Reason, p.Message)
				if p.DesiredNodesRealized > 0 {
					text += fmt.Sprintf(" (%d of %d)", p.CurrentNodesRealized, p.DesiredNodesRealized)
				}
				b.WriteString(terminal.Folded("    - ", "      ", terminal.Printable(text)) + "\n")
			}
		}
	}
	return b.String()
}

func controllerText(r *status.Report, version string) string {
	c := r.Controller
	text := "none works"
	if c.Holder != "" {
		text = c.Holder
		if c.Renewed != nil {
			text += fmt.Sprintf(", last heard of %s ago", ago(int64(r.At.Sub(c.Renewed.Time)/time.Second)))
		}
	}
	if c.Version != "" {
		text += "; version " + c.Version
	}
	return text + "; this command: " + version
}

// accountRow is the form of a line about an account.
const accountRow = "%-26s %-15s %5s %7s %5s  %s"

// accountLines are the lines of an account: one per region.
func accountLines(a status.Account) string {
	var b strings.Builder
	state := a.Reason
	switch {
	case a.Deleting:
		state = "Releasing"
	case a.Ready == "True":
		state = "Ready"
	}
	for _, flag := range []struct {
		on   bool
		text string
	}{{a.Mode != "enforce", string(a.Mode)}, {a.Waiting, "WAITS"}, {a.BreakGlass, "GLASS"}, {a.Drift, "drift"}} {
		if flag.on {
			state += "," + flag.text
		}
	}
	regions := a.Regions
	if len(regions) == 0 {
		regions = []status.Region{{Name: "-"}}
	}
	for i, r := range regions {
		name, guarded, shown := a.Name, fmt.Sprint(a.GuardedVMs), state
		if i > 0 {
			name, guarded, shown = "", "", ""
		}
		old := "never"
		if r.AgeSeconds != nil {
			old = ago(*r.AgeSeconds)
		}
		if r.Error != "" {
			old += "!"
		}
		row := fmt.Sprintf(accountRow, terminal.Cut(terminal.Printable("  "+name), 26), terminal.Cut(terminal.Printable(r.Name), 15), fmt.Sprint(r.VMs), guarded, old, shown)
		b.WriteString(terminal.Cut(strings.TrimRight(row, " "), terminal.Screen) + "\n")
	}
	return b.String()
}

// quotaTexts say with which limits accounts are planned, once for all that have the same.
func quotaTexts(accounts []status.Account) []string {
	by := map[string][]string{}
	for _, a := range accounts {
		q := a.Quotas
		text := fmt.Sprintf("%d rules a group, %d groups an interface (most held: %d), %d groups a region", q.RulesPerGroup, q.GroupsPerInterface, q.MostGroups, q.GroupsPerRegion)
		by[text] = append(by[text], a.Name)
	}
	var out []string
	for _, text := range slices.Sorted(stdmaps.Keys(by)) {
		if len(by) == 1 {
			return []string{text}
		}
		out = append(out, fmt.Sprintf("%s: %s", strings.Join(by[text][:min(3, len(by[text]))], ", "), text))
	}
	return out[:min(3, len(out))]
}

func vmText(v status.VMs) string {
	text := fmt.Sprintf("%d%s", v.Total, counts(v.ByMode, slices.Sorted(stdmaps.Keys(v.ByMode))))
	if v.Policies > 0 {
		text += fmt.Sprintf("; with policies: %d, of which all are realized on %d", v.Policies, v.Realized)
	}
	if v.Refused > 0 {
		text += fmt.Sprintf("; with refusals: %d", v.Refused)
	}
	if v.Waiting > 0 {
		text += fmt.Sprintf("; waiting for a confirmation: %d", v.Waiting)
	}
	return text
}

// counts says of a total what it is made of, in the order of keys; empty if there is nothing.
func counts[K ~string](n map[K]int, order []K) string {
	var parts []string
	for _, k := range order {
		if n[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k], string(k)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func findings(b *strings.Builder, title string, all []status.Finding) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, f := range all[:min(len(all), mostFindings)] {
		b.WriteString(terminal.Folded("  - ", "    ", terminal.Printable(f.About+": "+f.Message)) + "\n")
		if f.Do != "" {
			b.WriteString(terminal.Folded("    to do: ", "    ", terminal.Printable(f.Do)) + "\n")
		}
	}
	if more := len(all) - mostFindings; more > 0 {
		fmt.Fprintf(b, "  and %d more (-o json has all of them)\n", more)
	}
}

// ago is a number of seconds for people.
func ago(seconds int64) string {
	d := time.Duration(max(seconds, 0)) * time.Second
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
