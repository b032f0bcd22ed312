package explain_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// asked is a question, as in "a/web > 10.0.0.1 TCP 80", and what the fields of the answer have to
// hold, as summary puts them in one line.
type asked struct{ manifests, question, want string }

// answers asks about manifests, without reading the same ones again for every question.
func answers(t *testing.T, around string, cases map[string]asked) {
	t.Helper()
	read := map[string]*preview.Computation{}
	for name, c := range cases {
		if read[c.manifests] == nil {
			read[c.manifests] = preview.Compute(previewtest.Inputs(t, around+c.manifests))
		}
		t.Run(name, func(t *testing.T) {
			got, err := read[c.manifests].Computed.Answer(parse(t, c.question))
			if err != nil {
				t.Fatal(err)
			}
			if text := summary(got); text != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.question, text, c.want)
			}
		})
	}
}

// parse reads a question: "FROM > TO TCP PORT", "FROM > TO ICMP TYPE/CODE" or "FROM > TO IGMP TYPE
// GROUP", each without the rest if there is none.
func parse(t *testing.T, text string) explain.Question {
	t.Helper()
	from, rest, _ := strings.Cut(text, " > ")
	words := append(strings.Fields(rest), "", "", "")
	q := explain.Question{From: from, To: words[0], Protocol: words[1]}
	number := func(text string) uint8 {
		n, err := strconv.ParseUint(text, 0, 8)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return uint8(n)
	}
	switch {
	case words[2] == "":
	case strings.EqualFold(q.Protocol, "IGMP"):
		q.IGMPType, q.IGMPGroup = number(words[2]), words[3]
	case strings.HasPrefix(strings.ToUpper(q.Protocol), "ICMP"):
		kind, code, _ := strings.Cut(words[2]+"/0", "/")
		n := number(kind)
		q.ICMPType, q.ICMPCode = &n, number(strings.TrimSuffix(code, "/0"))
	default:
		q.Port = words[2]
	}
	return q
}

// summary is the ends and the verdict of an answer, what would be if everything were enforced, and
// the decision at each end, with what the answer notes beside. Flows with equal decisions stand
// together before these.
func summary(x *analysis.FlowAnswer) string {
	var b strings.Builder
	b.WriteString(x.From.Title + " > " + x.To.Title)
	switch {
	case x.Protocol == "ICMP" && x.ICMPType == nil:
		b.WriteString(" echo request")
	case x.Protocol == "ICMP":
		fmt.Fprintf(&b, " type %d/%d", *x.ICMPType, *x.ICMPCode)
	case x.IGMPType != nil:
		fmt.Fprintf(&b, " type %#x about %q", *x.IGMPType, x.IGMPGroup)
	}
	b.WriteString(": " + x.Verdict)
	if x.Wanted != x.Verdict {
		b.WriteString(" (wanted " + x.Wanted + ")")
	}
	if x.Service != nil {
		fmt.Fprintf(&b, "; service %s/%s:", x.Service.Namespace, x.Service.Name)
		for _, k := range x.Service.Backends {
			fmt.Fprintf(&b, " %s:%d", k.Address, k.Port)
			if k.Kind != "" {
				b.WriteString(" (" + k.Kind + " " + qualified(k.Namespace, k.Name) + ")")
			}
		}
	}
	decisions(&b, x.Egress, x.AtService, x.Ingress)
	former := ""
	for _, f := range x.Flows {
		var of strings.Builder
		of.WriteString(" " + f.Verdict)
		decisions(&of, f.Egress, f.AtService, f.Ingress)
		if of.String() != former {
			b.WriteString(former)
			former = of.String()
		}
		fmt.Fprintf(&b, "; %s > %s", f.From, f.To)
		if f.Backend != nil {
			fmt.Fprintf(&b, " at %s:%d", f.Backend.Address, f.Backend.Port)
		}
	}
	b.WriteString(former)
	if x.Reason != "" {
		b.WriteString("; because " + x.Reason)
	}
	if x.Path != nil {
		for _, r := range x.Path.Remarks {
			b.WriteString("; remark " + r)
		}
	}
	for _, n := range x.Notes {
		b.WriteString("; note " + n)
	}
	return b.String()
}

func decisions(b *strings.Builder, egress, service, ingress *analysis.Decision) {
	for _, d := range []struct {
		at string
		*analysis.Decision
	}{{"out", egress}, {"service", service}, {"in", ingress}} {
		if d.Decision != nil {
			b.WriteString("; " + d.at + " " + decision(d.Decision))
		}
	}
}

// decision is all that a decision says.
func decision(d *analysis.Decision) string {
	out := d.Outcome
	say := func(what, text string) {
		if text != "" {
			out += " " + what + text
		}
	}
	if d.DecidedBy != nil {
		say("by ", rule(d.DecidedBy))
	}
	say("", d.Default)
	for _, p := range d.IsolatedBy {
		say("of ", policy(p))
	}
	for i := range d.Passed {
		say("after ", rule(&d.Passed[i]))
	}
	for i := range d.Uncertain {
		say("perhaps by ", rule(&d.Uncertain[i]))
	}
	say("of ", strings.Join(d.Possible, "|"))
	say("by failsafe of account ", d.Failsafe)
	say("by failsafe of host ", d.HostFailsafe)
	say("not enforced: ", d.NotEnforced)
	for _, p := range d.Policies {
		say(p.State+" ", policy(p.Policy))
		say("", p.Why)
	}
	say("differs: ", d.Differs)
	for _, g := range []struct {
		of string
		*analysis.Groups
	}{{"groups ", d.Groups}, {"own groups ", d.Native}} {
		switch {
		case g.Groups == nil:
		case g.Group != nil:
			say(g.of, g.Outcome+" "+g.Group.ID+" "+g.Rule)
		default:
			say(g.of, g.Outcome)
		}
	}
	if d.IfEnforced != nil {
		say("", "(if enforced "+decision(d.IfEnforced)+")")
	}
	return out
}

func policy(p analysis.Policy) string {
	return p.Type + " " + qualified(p.Namespace, p.Name)
}

func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func rule(r *analysis.Rule) string {
	out := fmt.Sprintf("%s %s[%d]", policy(r.Policy), r.Direction, r.Index)
	if r.Name != "" {
		out += " " + r.Name
	}
	if r.TierPriority != 0 {
		out += fmt.Sprintf(" at %d/%g", r.TierPriority, r.Priority)
	}
	if r.L7Protocols {
		out += " as far as its application protocols match"
	}
	for _, e := range r.Through {
		out += " through " + e
	}
	if len(r.DependsOn) > 0 {
		out += " if " + strings.Join(r.DependsOn, " or ")
	}
	return out
}
