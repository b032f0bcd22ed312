// Package handover decides which VMs are left to the agents in them, and what their cloud groups
// let in for that. It is pure: Decide is a function of what is known, and holds no state.
//
// It promises that a cloud opens a direction only while an agent that has proven itself reports
// that it isolates that direction, and that nothing becomes wider while anything is pending or
// unknown. Decision 0021 has the reasons.
package handover

import (
	"fmt"
	"strings"
	"time"
)

const (
	// Silence is how old the last report of an agent may be. Agents report every minute.
	Silence = 3 * time.Minute
	// Patience is how long an agent to which a VM is handed may take to realize what has changed.
	Patience = 2 * time.Minute
)

// Directions are ingress and egress, in this order.
type Directions [2]bool

// Any reports whether there is one.
func (d Directions) Any() bool { return d[0] || d[1] }

// Or returns the directions of either.
func (d Directions) Or(o Directions) Directions { return Directions{d[0] || o[0], d[1] || o[1]} }

// And returns the directions of both.
func (d Directions) And(o Directions) Directions { return Directions{d[0] && o[0], d[1] && o[1]} }

// String lists them as labels and annotations do: "ingress,egress".
func (d Directions) String() string {
	var out []string
	for i, name := range []string{"ingress", "egress"} {
		if d[i] {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

// ParseDirections reads what String writes. Anything else in between is left out.
func ParseDirections(text string) (d Directions) {
	for word := range strings.SplitSeq(text, ",") {
		d[0], d[1] = d[0] || word == "ingress", d[1] || word == "egress"
	}
	return d
}

// Agent is what is known of the agent of a VM.
type Agent struct {
	// Denied says why nothing can be handed to it, whatever it tells; empty if something can.
	Denied string
	// Told is when we last heard what follows, by our clock; zero for never.
	Told time.Time
	// Healthy and Connected are its own words, and Trouble what it says if it is not.
	Healthy, Connected bool
	Trouble            string
	// Heeds tells that Allow isolates with it, and that it waits for the cloud before it opens.
	Heeds bool
	// Isolates are the directions in which it drops what no rule allows.
	Isolates Directions
}

// Policy is a policy that applies to the VM.
type Policy struct {
	Name string
	// Generation is the one that the cloud account has received, Isolates the directions in which
	// the policy has an Allow for the VM.
	Generation int64
	Isolates   Directions
	// Reported tells that the agent has reported about the policy, Realized which generation it
	// was, and Failure what it says if it failed.
	Reported bool
	Realized int64
	Failure  string
}

// State is what becomes of a VM.
type State struct {
	// Handed: the agent enforces. Then the cloud lets everything in, in the directions of Open, and
	// leaves the others to the former groups of the VM.
	Handed bool
	Open   Directions
	// Pending is since when the agent owes something; zero if it owes nothing.
	Pending time.Time
	// Reason and Message say why, in the form of a condition.
	Reason, Message string
}

// The reasons.
const (
	ReasonEnforcing   = "AgentEnforces"
	ReasonDenied      = "NotPossible"
	ReasonNoAgent     = "NoAgent"
	ReasonSilent      = "AgentSilent"
	ReasonUnhealthy   = "AgentUnhealthy"
	ReasonUnsupported = "AgentUnsupported"
	ReasonFailed      = "PolicyFailed"
	ReasonPending     = "Pending"
)

// Decide says what becomes of a VM that a selector hands over, after former, by what is known now.
func Decide(former State, a Agent, policies []Policy, now time.Time) State {
	back := func(reason, format string, args ...any) State {
		return State{Reason: reason, Message: "the cloud guards the VM: " + fmt.Sprintf(format, args...)}
	}
	switch {
	case a.Denied != "":
		return back(ReasonDenied, "%s", a.Denied)
	case a.Told.IsZero():
		return back(ReasonNoAgent, "no agent has told about itself")
	case now.Sub(a.Told) > Silence:
		return back(ReasonSilent, "its agent has told nothing since %s", a.Told.UTC().Format(time.RFC3339))
	case !a.Heeds:
		return back(ReasonUnsupported, "its agent is not one of Nephele, or an older one")
	case !a.Healthy || !a.Connected:
		return back(ReasonUnhealthy, "its agent is not well: %s", a.Trouble)
	}
	var isolates Directions
	owed := ""
	for _, p := range policies {
		isolates = isolates.Or(p.Isolates)
		switch {
		case p.Reported && p.Realized == p.Generation && p.Failure != "":
			return back(ReasonFailed, "its agent does not enforce %s: %s", p.Name, p.Failure)
		case owed == "" && (!p.Reported || p.Realized != p.Generation):
			owed = p.Name
		}
	}
	if owed == "" {
		open := isolates.And(a.Isolates)
		message := "the agent enforces; the cloud leaves the VM to its former groups"
		if open.Any() {
			message = "the agent enforces; the cloud lets in all " + strings.ReplaceAll(open.String(), ",", " and ")
		}
		return State{Handed: true, Open: open, Reason: ReasonEnforcing, Message: message}
	}
	since := former.Pending
	if since.IsZero() {
		since = now
	}
	if !former.Handed || now.Sub(since) > Patience {
		out := back(ReasonPending, "its agent has not realized %s yet", owed)
		out.Pending = since
		return out
	}
	return State{Handed: true, Open: former.Open.And(isolates).And(a.Isolates), Pending: since, Reason: ReasonEnforcing,
		Message: "the agent enforces; it has not realized " + owed + " yet"}
}
