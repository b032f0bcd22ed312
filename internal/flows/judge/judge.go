package judge

import (
	"errors"
	"net/netip"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Verdict is what is expected to happen to the first packet of a connection at an interface.
type Verdict string

// The verdicts.
const (
	Allow   Verdict = "Allow"
	Drop    Verdict = "Drop"
	Unknown Verdict = "Unknown"
)

// Cause is what a verdict comes from.
type Cause string

// The causes.
const (
	// ByPolicy: a rule of a policy, By.Rule.
	ByPolicy Cause = "Policy"
	// ByIsolation: no rule allows it, and By.Policies isolate the direction.
	ByIsolation Cause = "Isolation"
	// ByNative: no policy decides, and so the groups that the interface has of its own: By.Group
	// and By.GroupRule if one of these lets it through.
	ByNative Cause = "Native"
	// ByGroups: policies say otherwise but are not enforced, or not yet: the groups decide.
	ByGroups Cause = "Groups"
	// ByFailsafe: a failsafe flow of the account By.Account.
	ByFailsafe Cause = "Failsafe"
	// ByACL: the network ACL By.ACL of the subnet of the interface.
	ByACL Cause = "NetworkACL"
	// ByNobody: nothing filters there.
	ByNobody Cause = "Nobody"
	// ByUnknown: nothing can be said, for By.Why.
	ByUnknown Cause = "Unknown"
)

// The reasons of ByUnknown.
const (
	// WhyNotRead: the interface is in no account that was read.
	WhyNotRead = "InterfaceNotRead"
	// WhySharedVM: several entities stand for the VM.
	WhySharedVM = "SeveralEntities"
	// WhyProtocol: policies know nothing of the protocol.
	WhyProtocol = "Protocol"
	// WhyDepends: it depends on names, Services or lists that only the enforcer knows.
	WhyDepends = "DependsOnNames"
	// WhyGuessed: which end began the connection is a guess, and the other way round the verdict is
	// another one.
	WhyGuessed = "BeginningGuessed"
)

// By is what decides.
type By struct {
	Cause    Cause             `json:"cause"`
	Rule     *analysis.Rule    `json:"rule,omitempty"`
	Policies []analysis.Policy `json:"policies,omitempty"`
	Group    *analysis.Group   `json:"group,omitempty"`
	// GroupRule is the rule of the group, in words.
	GroupRule string             `json:"groupRule,omitempty"`
	Account   string             `json:"account,omitempty"`
	ACL       *analysis.ACLEntry `json:"acl,omitempty"`
	Why       string             `json:"why,omitempty"`
}

// Disagreement is how what was seen differs from the verdict.
type Disagreement string

// The disagreements.
const (
	// Agrees: it does not, or nothing can be said.
	Agrees Disagreement = ""
	// Leaks: it was accepted, and the beginning of the connection was seen, and it should have been
	// dropped.
	Leaks Disagreement = "Leaks"
	// MayBeOld: it was accepted and should have been dropped, but the connection may be older than
	// what drops it: clouds let running connections go on.
	MayBeOld Disagreement = "MayBeOld"
	// Cut: it was dropped, and should have been let through.
	Cut Disagreement = "Cut"
	// RefusedByCloud: it was dropped for a reason that is neither a group nor a network ACL, which
	// the log tells.
	RefusedByCloud Disagreement = "RefusedByCloud"
)

// Effect is what becomes of what was seen once all policies are enforced as they stand.
type Effect string

// The effects.
const (
	// Unaffected: the same as was seen.
	Unaffected Effect = "Unaffected"
	// WouldCut: it was let through, and would be dropped.
	WouldCut Effect = "WouldCut"
	// WouldOpen: it was dropped, and would be let through.
	WouldOpen Effect = "WouldOpen"
	// CannotTell: nothing can be said.
	CannotTell Effect = "CannotTell"
)

// Judgement is what is to be said of a row.
type Judgement struct {
	Verdict Verdict `json:"verdict"`
	By      By      `json:"by"`
	// Wanted is the verdict once all policies are enforced as they stand, and WantedBy what that
	// comes from.
	Wanted   Verdict `json:"wanted"`
	WantedBy By      `json:"wantedBy"`
	// From and To are the ends.
	From analysis.End `json:"from"`
	To   analysis.End `json:"to"`
	// Differs is how what was seen differs from Verdict.
	Differs Disagreement `json:"differs,omitempty"`
	// Effect is what becomes of it.
	Effect Effect `json:"effect"`
}

// maxRemembered bounds the questions of which a Judge remembers the answers.
const maxRemembered = 200_000

// Judge judges rows by one state of policies and clouds.
type Judge struct {
	witness *explain.Witness
	known   map[question]answer
}

// question is what rows may have in common that one answer is for.
type question struct {
	networkInterface string
	direction        cloud.Direction
	own, other       netip.Addr
	protocol         uint8
	port             uint16
}

// answer is what is said of a question, whatever was seen.
type answer struct {
	verdict, wanted Verdict
	by, wantedBy    By
	from, to        analysis.End
}

// New returns a Judge by the policies and clouds of a computation.
func New(c *explain.Computation) *Judge {
	return &Judge{c.Witness(), map[question]answer{}}
}

// Rules returns the rules of all policies.
func (j *Judge) Rules() []analysis.Rule { return j.witness.Rules() }

// Judge judges a row. It turns a row without ports whose beginning is a guess if the other end may
// begin such connections, and the one that was guessed may not.
func (j *Judge) Judge(r *flows.Row) Judgement {
	a := j.answer(questionOf(r))
	if r.Guessed && r.Port == 0 && r.Accepted && a.verdict == Drop {
		turned := *r
		turned.Turn()
		if b := j.answer(questionOf(&turned)); b.verdict == Allow {
			*r, a = turned, b
		}
	}
	out := Judgement{Verdict: a.verdict, By: a.by, Wanted: a.wanted, WantedBy: a.wantedBy, From: a.from, To: a.to}
	if r.Guessed && r.Port != 0 {
		out.doubt()
	}
	out.Differs, out.Effect = differs(r, &out), effect(r, &out)
	return out
}

// doubt takes back what depends on which end began the connection: what one end may not begin may
// be the answer to what the other end may.
func (o *Judgement) doubt() {
	unknown := By{Cause: ByUnknown, Why: WhyGuessed}
	if o.Verdict == Drop {
		o.Verdict, o.By = Unknown, unknown
	}
	if o.Wanted == Drop {
		o.Wanted, o.WantedBy = Unknown, unknown
	}
}

func questionOf(r *flows.Row) question {
	return question{r.Interface, r.Direction, r.Own(), r.Other(), r.Protocol, r.Port}
}

// differs compares what was seen with the verdict.
func differs(r *flows.Row, o *Judgement) Disagreement {
	own := &o.To
	if r.Direction == cloud.Egress {
		own = &o.From
	}
	switch {
	case o.Verdict == Unknown:
		return Agrees
	case r.Accepted && o.Verdict == Drop && own.Agent != "":
		return Agrees // the agent of the machine drops what the interface lets pass
	case r.Accepted && o.Verdict == Drop && r.Midway:
		return MayBeOld
	case r.Accepted && o.Verdict == Drop:
		return Leaks
	case !r.Accepted && o.Verdict == Allow && r.Refused != "":
		return RefusedByCloud
	case !r.Accepted && o.Verdict == Allow:
		return Cut
	}
	return Agrees
}

func effect(r *flows.Row, o *Judgement) Effect {
	switch {
	case o.Wanted == Unknown:
		return CannotTell
	case r.Accepted && o.Wanted == Drop:
		return WouldCut
	case !r.Accepted && o.Wanted == Allow && r.Refused == "":
		return WouldOpen
	}
	return Unaffected
}

// answer asks, or remembers what was answered.
func (j *Judge) answer(q question) answer {
	if a, known := j.known[q]; known {
		return a
	}
	a := j.ask(q)
	if len(j.known) >= maxRemembered {
		clear(j.known)
	}
	j.known[q] = a
	return a
}

func (j *Judge) ask(q question) answer {
	seen := explain.Seen{Interface: q.networkInterface, Direction: q.direction, Own: q.own, Other: q.other, Protocol: q.protocol, Port: q.port}
	x, err := j.witness.Explain(seen)
	if err != nil {
		by := By{Cause: ByUnknown, Why: whyOf(err)}
		from, to := addressOnly(q.own), addressOnly(q.other)
		if q.direction == cloud.Ingress {
			from, to = to, from
		}
		return answer{Unknown, Unknown, by, by, from, to}
	}
	d := x.Egress
	if q.direction == cloud.Ingress {
		d = x.Ingress
	}
	out := answer{from: x.From, to: x.To}
	if stop := stoppedHere(x.Path, q.direction); stop != nil {
		out.verdict, out.by = Drop, By{Cause: ByACL, ACL: stop}
		out.wanted, out.wantedBy = out.verdict, out.by
		return out
	}
	out.verdict, out.by = verdictOf(d)
	out.wanted, out.wantedBy = out.verdict, out.by
	if d.IfEnforced != nil {
		out.wanted, out.wantedBy = verdictOf(d.IfEnforced)
	}
	return out
}

func addressOnly(a netip.Addr) analysis.End {
	return analysis.End{Addresses: []string{a.String()}, Title: a.String()}
}

func whyOf(err error) string {
	switch {
	case errors.Is(err, explain.ErrNotRead):
		return WhyNotRead
	case errors.Is(err, explain.ErrSharedVM):
		return WhySharedVM
	}
	return WhyProtocol
}

// stoppedHere is the network ACL that stops the packet on the side of the interface that saw it;
// nil if none does.
func stoppedHere(p *analysis.Path, d cloud.Direction) *analysis.ACLEntry {
	if p == nil || p.StoppedBy == nil || p.StoppedBy.Answer || p.StoppedBy.Egress != (d == cloud.Egress) {
		return nil
	}
	return p.StoppedBy
}

// verdictOf says what a decision means at the interface.
func verdictOf(d *analysis.Decision) (Verdict, By) {
	by := causeOf(d)
	switch evaluate.Outcome(d.Outcome) {
	case evaluate.OutcomeAllow:
		return Allow, by
	case evaluate.OutcomeDrop, evaluate.OutcomeReject:
		return Drop, by
	}
	return Unknown, By{Cause: ByUnknown, Why: WhyDepends}
}

// causeOf says what a decision comes from.
func causeOf(d *analysis.Decision) By {
	switch {
	case d.Failsafe != "":
		return By{Cause: ByFailsafe, Account: d.Failsafe}
	case d.HostFailsafe != "":
		return By{Cause: ByFailsafe, Account: d.HostFailsafe}
	case d.Default == explain.DefaultGroups:
		return byGroups(ByGroups, d.Groups)
	case d.DecidedBy != nil:
		return By{Cause: ByPolicy, Rule: d.DecidedBy}
	case d.Default == explain.DefaultIsolated:
		return By{Cause: ByIsolation, Policies: d.IsolatedBy}
	case d.Native != nil:
		return byGroups(ByNative, d.Native)
	case d.Groups != nil: // of an interface that no policy can be about
		return byGroups(ByNative, d.Groups)
	}
	return By{Cause: ByNobody}
}

func byGroups(cause Cause, g *analysis.Groups) By {
	if g == nil {
		return By{Cause: cause}
	}
	return By{Cause: cause, Group: g.Group, GroupRule: g.Rule}
}
