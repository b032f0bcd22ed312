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

// line is one line of the record; docs/audit.md has what its fields mean.
type line struct {
	Time         time.Time    `json:"time"`
	Phase        phase        `json:"phase"`
	ID           string       `json:"id"`
	Cluster      string       `json:"cluster"`
	Account      string       `json:"account"`
	Owner        string       `json:"owner,omitempty"`
	Region       string       `json:"region"`
	Call         string       `json:"call"`
	Objects      []string     `json:"objects"`
	Before       *cloud.State `json:"before,omitempty"`
	After        *cloud.State `json:"after,omitempty"`
	Policies     []string     `json:"policies,omitempty"`
	By           []string     `json:"by"`
	Reason       string       `json:"reason,omitempty"`
	Outcome      string       `json:"outcome,omitempty"`
	Class        string       `json:"class,omitempty"`
	Code         string       `json:"code,omitempty"`
	Error        string       `json:"error,omitempty"`
	RequestID    string       `json:"requestId,omitempty"`
	Created      string       `json:"created,omitempty"`
	Milliseconds int64        `json:"milliseconds,omitempty"`
	Beats        int          `json:"beats,omitempty"`
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

// byController stands for nobody: the controller makes the call of its own accord.
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
	if s.Name == "" && len(s.Groups)+len(s.Rules)+len(s.Tags) == 0 {
		return nil
	}
	out := &cloud.State{Name: cloud.Words(s.Name), Groups: words(s.Groups, maxListed), Rules: words(s.Rules, maxListed)}
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
