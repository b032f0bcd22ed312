// Package agentless turns rows of flow logs into entries of the store of flows.
//
// It owns the words for what decided at a machine without an agent, and when a disagreement is
// certain: only if the policies, the cloud and the owner of the other address were the same when
// the traffic was seen. It promises that nothing else is called a leak or a cut.
//
// Everything is pure: no I/O, no clock, no goroutines.
package agentless

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/policy"
)

// Settling is how long after a change of policies or groups traffic is not held against them:
// changes take a while until they are in force, and connections go on.
const Settling = 5 * time.Minute

// Picture is what rows are judged by.
type Picture struct {
	// Enforcer is the key of the account.
	Enforcer string
	// Own are the interfaces of the account, by ID and MAC address. A writer of its bucket may
	// forge records of other interfaces: these get no names and no deciding policy.
	Own    map[string]bool
	Judge  *judge.Judge
	Owners *live.Owners
	// Since is from when on policies, machines and groups are as they are now.
	Since time.Time
	// UID returns that of a policy, empty if it is not known.
	UID func(analysis.Policy) string
}

// Entries judges rows.
func (p *Picture) Entries(rows []flows.Row) []*live.Entry {
	out := make([]*live.Entry, 0, len(rows))
	for i := range rows {
		r, j := &rows[i], judge.Judgement{}
		if p.Own[r.Interface] {
			j = p.Judge.Judge(r)
		}
		out = append(out, p.entry(r, &j))
	}
	return out
}

func (p *Picture) entry(r *flows.Row, j *judge.Judgement) *live.Entry {
	e := &live.Entry{
		Start: r.Minute, First: r.Minute, Last: r.Minute.Add(flows.Window - time.Second), Enforcer: p.Enforcer, Direction: "In",
		Client: r.Client.Unmap(), Server: r.Server.Unmap(), Protocol: r.Protocol, Port: r.Port, Verdict: "Allow",
		Connections: int64(r.Connections), Packets: count(r.Packets), Bytes: count(r.Bytes), ReplyPackets: count(r.ReplyPackets), ReplyBytes: count(r.ReplyBytes),
	}
	if r.Direction == cloud.Egress {
		e.Direction = "Out"
	}
	if !r.Accepted {
		e.Verdict = "Drop"
	}
	if !p.Own[r.Interface] {
		e.Cause = live.Cause{Cause: "Unknown", Why: judge.WhyNotRead}
		return e
	}
	var same [2]bool
	e.ClientOwner, same[0] = p.owner(&j.From, e, true)
	e.ServerOwner, same[1] = p.owner(&j.To, e, false)
	e.Cause = p.cause(r, &j.By)
	certain := same[0] && same[1] && r.Minute.After(p.Since.Add(Settling)) && !r.Guessed
	switch {
	case j.Differs == judge.Agrees:
	case certain:
		e.Differs = string(j.Differs)
	case j.Differs == judge.Leaks:
		e.Differs = string(judge.MayBeOld)
	}
	return e
}

func count(n uint64) int64 { return int64(min(n, 1<<53)) }

// owner is the holder of an end's address at the time, and whether it is the one that the row was
// judged for.
func (p *Picture) owner(end *analysis.End, e *live.Entry, client bool) (live.Owner, bool) {
	a, own := e.Server, e.Direction == "In"
	if client {
		a, own = e.Client, e.Direction == "Out"
	}
	judged := live.Owner{}
	if end.Kind != "" {
		judged = live.Owner{Kind: end.Kind, Namespace: end.Namespace, Name: end.Name, Enforcer: end.Enforcer}
	}
	if own { // the interface identifies it
		return judged, true
	}
	then, known := p.Owners.At(a, e.First, "")
	if !known {
		then = live.Owner{}
	}
	return then, then.Kind == judged.Kind && then.Namespace == judged.Namespace && then.Name == judged.Name
}

// cause is what decided, in the words of the store.
func (p *Picture) cause(r *flows.Row, by *judge.By) live.Cause {
	direction := "In"
	if r.Direction == cloud.Egress {
		direction = "Out"
	}
	named := func(cause string, x analysis.Policy) live.Cause {
		return live.Cause{Cause: cause, Type: x.Type, Namespace: x.Namespace, Name: x.Name, UID: p.UID(x), Direction: direction}
	}
	switch by.Cause {
	case judge.ByPolicy:
		c := named("Policy", by.Rule.Policy)
		if c.Rule, c.Index = by.Rule.Name, by.Rule.Index; by.Rule.Policy.Type == string(policy.KubernetesNetworkPolicy) {
			c.Rule, c.Index = "", -1 // as agents tell it
		}
		return c
	case judge.ByIsolation:
		if len(by.Policies) > 0 {
			return named("Isolation", by.Policies[0])
		}
		return live.Cause{Cause: "Isolation", Direction: direction}
	case judge.ByNative, judge.ByGroups:
		if by.Group == nil {
			return live.Cause{Cause: "Group", Why: "no group of the machine allows it"}
		}
		text := "group " + cmp.Or(by.Group.Name, by.Group.ID) + ", " + by.GroupRule
		if by.Cause == judge.ByGroups {
			text += ", policies not in force"
		}
		return live.Cause{Cause: "Group", Why: strings.TrimSuffix(text, ", ")}
	case judge.ByFailsafe:
		return live.Cause{Cause: "Failsafe", Rule: by.Account}
	case judge.ByACL:
		return live.Cause{Cause: "NetworkACL", Why: fmt.Sprintf("network ACL %s, entry %d", by.ACL.ACL, by.ACL.Entry)}
	case judge.ByNobody:
		return live.Cause{Cause: "Native"}
	}
	return live.Cause{Cause: "Unknown", Why: by.Why}
}
