package flowscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

const (
	// followEvery is how often --follow asks. Agents report every two seconds.
	followEvery = 2 * time.Second
	// mostLive is how many flows an answer of the controller has at most.
	mostLive = 5000
)

// Asker has the controller answer a FlowQuery.
type Asker func(context.Context, *v1alpha1.FlowQuery) error

// live asks the controller what its agents have seen.
func (o *options) live(cmd *cobra.Command, n Needs) error {
	spec, err := o.query(cmd, n.Now())
	if err != nil {
		return err
	}
	ask, err := n.Ask(cmd)
	if err != nil {
		return err
	}
	if o.follow {
		return o.followLive(cmd, n, ask, spec)
	}
	q := &v1alpha1.FlowQuery{Spec: *spec}
	if err := ask(cmd.Context(), q); err != nil {
		return err
	}
	slices.SortStableFunc(q.Status.Flows, func(a, b v1alpha1.SeenFlow) int { return b.Last.Compare(a.Last.Time) })
	if o.output == "json" {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		err = e.Encode(q.Status)
	} else {
		err = n.printLive(cmd, &q.Status)
	}
	if err == nil && o.differs && len(q.Status.Flows) > 0 {
		return n.no()
	}
	return err
}

// query is the question that the flags ask.
func (o *options) query(cmd *cobra.Command, now time.Time) (*v1alpha1.FlowQuerySpec, error) {
	for _, name := range []string{"affected", "rules", "unused", "minutes", "filename", "snapshot"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return nil, fmt.Errorf("--%s: it is about flow logs; give --logs, or leave it out to see what agents have reported", name)
		}
	}
	limit := o.limit
	switch {
	case o.denied && o.accepted:
		return nil, errors.New("--denied and --accepted: give one of them")
	case o.output != "table" && o.output != "json":
		return nil, fmt.Errorf("--output %q: want table or json", o.output)
	case limit < 0:
		return nil, fmt.Errorf("--limit %d: want 0 or more", limit)
	case limit == 0 || limit > mostLive:
		limit = mostLive
	}
	since, err := ParseSince("--since", o.since, now)
	if err != nil {
		return nil, err
	}
	spec := &v1alpha1.FlowQuerySpec{From: o.from, To: o.to, Port: int32(o.port), Policy: o.policy, Differs: o.differs, Limit: int32(limit)}
	if !since.IsZero() {
		spec.Since = &metav1.MicroTime{Time: since}
	}
	switch {
	case o.denied:
		spec.Verdict = "Denied"
	case o.accepted:
		spec.Verdict = "Allow"
	}
	return spec, nil
}

// followLive tells what is new until the command is stopped: what was seen before, and then what
// was added to it.
func (o *options) followLive(cmd *cobra.Command, n Needs, ask Asker, spec *v1alpha1.FlowQuerySpec) error {
	told := map[string]v1alpha1.SeenFlow{}
	spec.Limit = mostLive
	if spec.Since == nil {
		spec.Since = &metav1.MicroTime{Time: n.Now().Add(-time.Minute)}
	}
	spec.After = "0"
	out, header := cmd.OutOrStdout(), false
	for {
		q := &v1alpha1.FlowQuery{Spec: *spec}
		if err := ask(cmd.Context(), q); err != nil {
			if cmd.Context().Err() != nil {
				return nil
			}
			return err
		}
		if q.Status.More > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %d flows are left out, too many came at once; ask for less\n", q.Status.More)
		}
		slices.SortStableFunc(q.Status.Flows, func(a, b v1alpha1.SeenFlow) int { return a.Last.Compare(b.Last.Time) })
		for _, x := range q.Status.Flows {
			added, isNew := since(told, x)
			if !isNew {
				continue
			}
			if o.output == "json" {
				b, err := json.Marshal(added)
				if err != nil {
					return err
				}
				fmt.Fprintln(out, string(b))
				continue
			}
			if !header {
				fmt.Fprintln(out, strings.Join(liveColumns(), "  "))
				header = true
			}
			fmt.Fprintln(out, strings.TrimRight(strings.Join(n.liveCells(&added), "  "), " "))
		}
		for k, x := range told { // the controller tells of a window again for a minute at most
			if n.Now().Sub(x.Last.Time) > 5*time.Minute {
				delete(told, k)
			}
		}
		spec.After, spec.Since = q.Status.Next, nil
		select {
		case <-cmd.Context().Done():
			return nil
		case <-n.After(followEvery):
		}
	}
}

// since returns what was added to a flow since it was told; the controller tells all of a window
// each time. It is false if nothing was.
func since(told map[string]v1alpha1.SeenFlow, x v1alpha1.SeenFlow) (v1alpha1.SeenFlow, bool) {
	before := v1alpha1.TrafficCause{}
	if x.Before != nil {
		before = *x.Before
	}
	key := fmt.Sprint(x.First, x.Enforcer, x.Direction, x.From, x.To, x.Service, x.ServicePort, x.Protocol, x.Port, x.Verdict, x.By, x.Differs, before)
	former, added := told[key], x
	told[key] = x
	added.Connections, added.Ended = x.Connections-former.Connections, x.Ended-former.Ended
	added.Packets, added.Bytes = x.Packets-former.Packets, x.Bytes-former.Bytes
	added.ReplyPackets, added.ReplyBytes = x.ReplyPackets-former.ReplyPackets, x.ReplyBytes-former.ReplyBytes
	return added, added.Connections > 0 || added.Ended > 0
}

// printLive prints a table, and what it is to be read with to standard error.
func (n Needs) printLive(cmd *cobra.Command, a *v1alpha1.FlowQueryStatus) error {
	for _, note := range liveNotes(a, n.Now()) {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n.Printable(note))
	}
	out := n.Window(cmd.OutOrStdout())
	if len(a.Flows) == 0 {
		_, err := fmt.Fprintln(out, "None.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(liveColumns(), "\t"))
	for i := range a.Flows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(n.liveCells(&a.Flows[i]), "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if a.More > 0 {
		return more(out, a.More)
	}
	return nil
}

func more(out io.Writer, n int64) error {
	_, err := fmt.Fprintf(out, "and %d more: ask for less, or give a larger --limit, at most %d\n", n, mostLive)
	return err
}

// liveNotes are what the table does not show.
func liveNotes(a *v1alpha1.FlowQueryStatus, now time.Time) []string {
	var out []string
	if a.Enforcers == 0 && !a.Limited {
		out = append(out, "no agent has reported within the last hour; of machines without an agent, flow logs tell: see --logs")
	}
	if known := now.Sub(a.Since.Time); known < 59*time.Minute {
		out = append(out, fmt.Sprintf("flows are known since %s", a.Since.UTC().Format("15:04:05")))
	}
	if a.Limited {
		out = append(out, "only flows with an end in a Namespace whose network policies you may list are shown")
	}
	if slices.ContainsFunc(a.Flows, func(x v1alpha1.SeenFlow) bool { return x.Uncounted }) {
		out = append(out, "some hosts count no bytes: sysctl -w net.netfilter.nf_conntrack_acct=1 there turns it on")
	}
	if l := a.Losses; l != nil {
		for _, x := range []struct {
			n    int64
			what string
		}{
			{l.Overruns, "times a kernel dropped events of connections because too many came at once; those that went on were found afterwards"}, {l.Ends, "connections ended meanwhile: what they carried is not told"}, {l.Packets, "denied packets were not told because too many came at once"},
			{l.Connections, "connections were left out of reports"}, {l.Forgotten, "entries were forgotten before an hour had passed: --flow-memory of the controller bounds them"},
			{l.Refused, "entries of reports were malformed"},
		} {
			if x.n > 0 {
				out = append(out, fmt.Sprintf("%d %s", x.n, x.what))
			}
		}
	}
	return out
}

func liveColumns() []string {
	return []string{"LAST", "FROM", "TO", "PORT", "SEEN", "BY", "CONNECTIONS", "BYTES", "DIFFERS"}
}

func (n Needs) liveCells(x *v1alpha1.SeenFlow) []string {
	to := EndText(&x.To)
	port := servicePort(x.Protocol, x.Port)
	if x.Service != nil {
		to += fmt.Sprintf(" (asked %s:%d)", EndText(x.Service), x.ServicePort)
	}
	seen := map[string]string{"Allow": "accepted", "Drop": "dropped", "Reject": "rejected"}[x.Verdict]
	if seen == "" {
		seen = "ended"
	}
	seen += map[string]string{"In": " ingress", "Out": " egress", "Through": ""}[x.Direction]
	bytes := ""
	if !x.Uncounted || x.Bytes+x.ReplyBytes > 0 {
		bytes = bytesText(uint64(x.Bytes + x.ReplyBytes))
	}
	cells := []string{x.Last.UTC().Format("15:04:05"), EndText(&x.From), to, port, seen, CauseText(x), fmt.Sprint(max(x.Connections, x.Ended)), bytes, x.Differs}
	for i := range cells {
		cells[i] = n.Printable(cells[i])
	}
	return cells
}

// EndText names an end for people.
func EndText(e *v1alpha1.FlowEnd) string {
	switch {
	case e.Name == "":
		return e.Address
	case e.Namespace == "":
		return strings.ToLower(e.Kind) + "/" + e.Name
	}
	return e.Namespace + "/" + e.Name
}

// CauseText says for people what decided, and what had let it pass before.
func CauseText(x *v1alpha1.SeenFlow) string {
	text := causeText(&x.By, x.Hidden)
	if x.Before != nil {
		text += "; before it " + causeText(x.Before, x.Before.Name == "")
	}
	return text
}

func causeText(by *v1alpha1.TrafficCause, hidden bool) string {
	policy := strings.TrimPrefix(by.Namespace+"/"+by.Name, "/")
	if kind := strings.TrimPrefix(by.Type, "K8s"); by.Name != "" {
		policy = kind + " " + policy
	}
	if hidden {
		policy = "a policy that you may not read"
	}
	switch by.Cause {
	case "Policy":
		if by.Rule != "" {
			return fmt.Sprintf("%s, rule %q", policy, by.Rule)
		}
		if hidden || by.Type == "K8sNetworkPolicy" {
			return policy
		}
		return fmt.Sprintf("%s, rule %d", policy, by.Index)
	case "Isolation":
		return strings.TrimSpace("isolated by " + policy)
	case "Native":
		return "no policy"
	case "Group", "NetworkACL":
		return by.Why
	case "Failsafe":
		return fmt.Sprintf("failsafe flow %q", by.Rule)
	case "Frame":
		return "let pass for all"
	case "Related":
		return "belongs to another connection"
	case "Itself":
		return "a Pod reaches itself"
	case "NoPod":
		return "no Pod that is known has the address"
	case "Routed":
		return "only passes through the host"
	}
	return "unknown: " + by.Why
}
