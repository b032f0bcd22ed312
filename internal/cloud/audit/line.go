package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// phase says when a line was written.
type phase string

const (
	phaseBegin phase = "begin"
	phaseEnd   phase = "end"
)

// The outcomes of an attempt.
const (
	outcomeOK     = "ok"
	outcomeFailed = "failed"
	// outcomeUnknown: there was no answer, or the cloud failed inside, so that nobody knows whether
	// the call took effect.
	outcomeUnknown = "unknown"
)

// line is one line of the record of changes: one before each attempt of a call, and one after it.
type line struct {
	Time time.Time `json:"time"`
	// Phase is begin before the request is sent, end before the answer is acted on. A begin without
	// an end means that the process ended meanwhile.
	Phase phase `json:"phase"`
	// ID is that of the attempt: both of its lines have it, and each retry has its own.
	ID string `json:"id"`
	// Cluster is the id of the cluster, Account the account's NAMESPACE/NAME, Owner its number in
	// the cloud.
	Cluster string `json:"cluster"`
	Account string `json:"account"`
	Owner   string `json:"owner,omitempty"`
	Region  string `json:"region"`
	// Call is the action of the cloud's API.
	Call string `json:"call"`
	// Objects are those that the call changes.
	Objects []string `json:"objects"`
	// Before and After are what the call changes, as it was read and as it is wanted.
	Before *cloud.State `json:"before,omitempty"`
	After  *cloud.State `json:"after,omitempty"`
	// Policies are those that the call is for, at most 20.
	Policies []string `json:"policies,omitempty"`
	// By are the users that wrote them last; controller if the call is for no policy, unknown if it
	// is not known.
	By []string `json:"by"`
	// Reason is what the plan wants the call for.
	Reason string `json:"reason,omitempty"`
	// Outcome is ok, failed if the cloud refused, or unknown without an answer; Class, Code and
	// Error say more.
	Outcome string `json:"outcome,omitempty"`
	Class   string `json:"class,omitempty"`
	Code    string `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
	// RequestID is the cloud's own name of the request.
	RequestID string `json:"requestId,omitempty"`
	// Created is the id of a group that the call has created.
	Created      string `json:"created,omitempty"`
	Milliseconds int64  `json:"milliseconds,omitempty"`
	// Beats is the number of heartbeats that were left out before this one: they are recorded the
	// first time, when their outcome changes, and once an hour.
	Beats int `json:"beats,omitempty"`
	links
}

// Where lists are cut. A call names no more objects, groups and rules than the quotas of the cloud
// and our own batches let it; this is for what nobody has thought of.
const (
	maxPolicies = 20
	maxListed   = 2000
)

func newLine(c cloud.Call) line {
	if len(c.By) == 0 {
		c.By = []string{byController}
	}
	return line{
		Account: cloud.Words(c.Account), Owner: cloud.Words(c.OwnerID), Region: cloud.Words(c.Region), Call: cloud.Words(c.Name),
		Objects: words(c.Objects, maxListed), Before: clean(c.Before), After: clean(c.After),
		Policies: words(c.Policies, maxPolicies), Reason: cloud.Words(c.Reason), By: words(c.By, maxPolicies),
	}
}

// byController names no user: the controller makes the call of its own accord.
const byController = "controller"

// end adds what became of the call.
func (l *line) end(o cloud.Outcome) {
	l.Outcome, l.RequestID, l.Created = outcomeOK, cloud.Words(o.RequestID), cloud.Words(o.Created)
	if o.Err == nil {
		return
	}
	l.Outcome = outcomeFailed
	if o.Err.Class == cloud.Unavailable {
		l.Outcome = outcomeUnknown
	}
	l.Class, l.Code = string(o.Err.Class), cloud.Words(o.Err.Code)
	if o.Err.Err != nil {
		l.Error = cloud.Words(o.Err.Err.Error())
	}
}

// words cleans a list and cuts it.
func words(list []string, most int) []string {
	out := make([]string, 0, min(len(list), most+1))
	for _, s := range list[:min(len(list), most)] {
		out = append(out, cloud.Words(s))
	}
	if more := len(list) - most; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// clean cleans a state and cuts it; nil if there is nothing in it.
func clean(s cloud.State) *cloud.State {
	if s.Name == "" && len(s.Groups)+len(s.Rules)+len(s.Routes)+len(s.Tags) == 0 {
		return nil
	}
	out := &cloud.State{Name: cloud.Words(s.Name), Groups: words(s.Groups, maxListed), Rules: words(s.Rules, maxListed)}
	if len(s.Routes) > 0 {
		out.Routes = words(s.Routes, maxListed)
	}
	if len(s.Tags) > 0 {
		out.Tags = map[string]map[string]string{}
	}
	left := maxListed
	for _, id := range slices.Sorted(maps.Keys(s.Tags)) {
		tags := map[string]string{}
		for _, k := range slices.Sorted(maps.Keys(s.Tags[id])) {
			if left--; left >= 0 {
				tags[cloud.Words(k)] = cloud.Words(s.Tags[id][k])
			}
		}
		if len(tags) > 0 {
			out.Tags[cloud.Words(id)] = tags
		}
	}
	return out
}

// log tells the log what the line says: the most of it in words, and all of it as it is in the
// file.
func (r *Record) log(l line, text []byte) {
	kv := []any{"phase", string(l.Phase), "account", l.Account, "region", l.Region, "call", l.Call, "objects", l.Objects, "by", l.By}
	if l.Phase == phaseEnd {
		kv = append(kv, "outcome", l.Outcome, "error", l.Error, "milliseconds", l.Milliseconds)
	}
	r.o.Log.Info("Cloud call", append(kv, "record", json.RawMessage(text))...)
}
