package flowscmd

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows/judge"
)

// no is the answer "there are some", as an exit code.
func (n Needs) no() error { return terminal.ErrNo }

// print prints a table, and what it is to be read with to standard error.
func (n Needs) print(cmd *cobra.Command, a *Answer) error {
	for _, note := range a.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n.Printable(note))
	}
	out := n.Window(cmd.OutOrStdout())
	if len(a.Flows) == 0 {
		_, err := fmt.Fprintln(out, "None.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LAST\tFROM\tTO\tPORT\tSEEN\tBY\tCONNECTIONS\tBYTES\tDIFFERS\tTHEN")
	for i := range a.Flows {
		x := &a.Flows[i]
		cells := []string{
			x.Last.UTC().Format("01-02 15:04"), sideText(x, true), sideText(x, false), portText(x), seenText(x), ByText(&x.By), fmt.Sprint(x.Connections),
			bytesText(x.Bytes + x.ReplyBytes), string(x.Differs), thenText(x.Effect),
		}
		for c := range cells {
			cells[c] = n.Printable(cells[c])
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if a.More > 0 {
		if _, err := fmt.Fprintf(out, "and %d more: --limit 0 shows all\n", a.More); err != nil {
			return err
		}
	}
	return nil
}

// sideText names an end, and the address if the name does not tell it.
func sideText(x *Flow, client bool) string {
	end, address, service := &x.To, x.Server, x.ServerService
	if client {
		end, address, service = &x.From, x.Client, x.ClientService
	}
	name := nameOf(end)
	if name == address.String() && service != "" {
		return name + " (" + service + ")"
	}
	return name
}

func portText(x *Flow) string {
	text := strings.ToLower(x.Protocol)
	if x.Port != 0 {
		text += fmt.Sprintf("/%d", x.Port)
	}
	if x.Guessed {
		text += "?"
	}
	return text
}

// seenText says what happened, and on which side it was seen.
func seenText(x *Flow) string {
	word := "dropped"
	if x.Accepted {
		word = "accepted"
	}
	if x.ReplyDropped {
		word = "answer dropped"
	}
	return word + " " + x.Direction
}

// thenText says what becomes of a flow once all policies are enforced.
func thenText(e judge.Effect) string {
	switch e {
	case judge.WouldCut:
		return "cut"
	case judge.WouldOpen:
		return "open"
	case judge.CannotTell:
		return "?"
	}
	return ""
}

// ByText says for people what decided.
func ByText(by *judge.By) string {
	switch by.Cause {
	case judge.ByPolicy:
		return explain.RuleText(*by.Rule)
	case judge.ByIsolation:
		return "isolated by " + explain.PoliciesText(by.Policies)
	case judge.ByNative:
		return groupText("own group", by)
	case judge.ByGroups:
		return groupText("group", by) + ", policies not in force"
	case judge.ByFailsafe:
		return "failsafe flow of " + by.Account
	case judge.ByACL:
		return fmt.Sprintf("network ACL %s, entry %d", by.ACL.ACL, by.ACL.Entry)
	case judge.ByNobody:
		return "nothing filters there"
	}
	return "unknown: " + whyText(by.Why)
}

func groupText(what string, by *judge.By) string {
	if by.Group == nil {
		return "no rule of any " + what
	}
	name := by.Group.Name
	if name == "" {
		name = by.Group.ID
	}
	return fmt.Sprintf("%s %s, %s", what, name, by.GroupRule)
}

// whyText says why nothing can be said.
func whyText(why string) string {
	switch why {
	case judge.WhyNotRead:
		return "the interface is in no account that was read"
	case judge.WhySharedVM:
		return "several entities stand for the VM"
	case judge.WhyProtocol:
		return "policies know nothing of the protocol"
	case judge.WhyDepends:
		return "it depends on what names or lists stand for"
	case judge.WhyGuessed:
		return "which end began it is a guess"
	}
	return why
}

// protocolName is the name that people know, or the number.
func protocolName(p uint8) string {
	switch p {
	case cloud.TCP:
		return "TCP"
	case cloud.UDP:
		return "UDP"
	case cloud.SCTP:
		return "SCTP"
	case cloud.ICMP:
		return "ICMP"
	case cloud.ICMPv6:
		return "ICMPv6"
	}
	return fmt.Sprint(p)
}

// bytesText is a number of bytes in three digits.
func bytesText(n uint64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	value, unit := float64(n), 0
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if unit == 0 || value >= 99.95 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
