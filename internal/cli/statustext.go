package cli

import (
	"fmt"
	stdmaps "maps"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/status"
)

// mostFindings is how many findings of a kind one screen shows; JSON has all of them.
const mostFindings = 10

// statusText is a report for people, at most screen characters wide.
func statusText(r *status.Report) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	entry := func(name, text string) {
		b.WriteString(folded(fmt.Sprintf("%-12s", name), strings.Repeat(" ", 12), terminal.Printable(text)) + "\n")
	}
	switch r.State {
	case status.Well:
		if idle := r.Policies.ByPhase[status.Idle]; idle > 0 {
			line("Nothing is wrong; %s to nothing.", plural(idle, "policy applies", "policies apply"))
		} else {
			line("Everything is well.")
		}
	case status.UnderWay:
		line("Nothing is wrong; not everything is done yet.")
	default:
		line("%s attention.", plural(len(r.Attention), "thing needs", "things need"))
	}
	line("")
	entry("Controller", controllerText(r))
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
	entry("Policies", fmt.Sprintf("%d%s", r.Policies.Total, counts(r.Policies.ByPhase, []status.Phase{status.Realized, status.Idle, status.Realizing, status.Pending,
		status.Planned, status.Failed, status.Suspended, status.Staged, status.NotEnforced, status.NotReported})))
	for _, name := range slices.Sorted(stdmaps.Keys(r.Asked)) {
		entry("", fmt.Sprintf("%s: %s", name, r.Asked[name]))
	}
	findings(&b, "Needs attention", r.Attention)
	findings(&b, "Good to know", r.Notes)
	if len(r.NotRead) > 0 {
		line("\nNot read, so nothing is said about it:")
		for _, n := range r.NotRead {
			b.WriteString(folded("  - ", "    ", terminal.Printable(n)) + "\n")
		}
	}
	return b.String()
}

func controllerText(r *status.Report) string {
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
	return text + "; this command: " + Version()
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
		row := fmt.Sprintf(accountRow, cut(terminal.Printable("  "+name), 26), cut(terminal.Printable(r.Name), 15), fmt.Sprint(r.VMs), guarded, old, shown)
		b.WriteString(cut(strings.TrimRight(row, " "), screen) + "\n")
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
		b.WriteString(folded("  - ", "    ", terminal.Printable(f.About+": "+f.Message)) + "\n")
		if f.Do != "" {
			b.WriteString(folded("    to do: ", "    ", terminal.Printable(f.Do)) + "\n")
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

// plural is a number with the right word.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
