package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// badRequest is an error of the caller of an admin endpoint.
type badRequest struct{ error }

func badf(format string, args ...any) error { return badRequest{fmt.Errorf(format, args...)} }

// operator answers what no cloud answers: below /_sim/, to callers on this machine.
type operator struct{ s *Server }

// admin serves the endpoints below /_sim/. They carry no authentication and are therefore answered
// only to callers on this machine, whatever address the simulator listens on.
func (o operator) admin() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r)
			writeJSON(w, v, err)
		})
	}
	handle("GET /_sim/{$}", func(*http.Request) (any, error) { return o.overview(), nil })
	handle("GET /_sim/state", func(*http.Request) (any, error) { return o.s.world.State(), nil })
	handle("GET /_sim/journal", o.getJournal)
	handle("DELETE /_sim/journal", func(*http.Request) (any, error) { o.s.journal.Reset(); return nil, nil })
	handle("GET /_sim/counts", func(*http.Request) (any, error) { return o.s.journal.Counts(), nil })
	handle("GET /_sim/faults", func(*http.Request) (any, error) { return faultList(o.s.faults), nil })
	handle("POST /_sim/faults", o.postFault)
	handle("DELETE /_sim/faults", o.deleteFaults)
	handle("POST /_sim/advance", o.postAdvance)
	handle("GET /_sim/allowed", o.getAllowed)
	handle("POST /_sim/visibility-delay", o.postVisibility)
	handle("POST /_sim/effect-delay", o.postEffectDelay)
	handle("POST /_sim/quotas", o.postQuotas)
	handle("POST /_sim/peering", o.postPeering)
	handle("GET /_sim/queues", func(*http.Request) (any, error) { return o.queueList() })
	handle("POST /_sim/queues", o.postQueue)
	handle("DELETE /_sim/queues", o.deleteQueue)
	handle("POST /_sim/event-delay", o.postEventDelay)
	handle("POST /_sim/run", o.postRun)
	handle("POST /_sim/terminate", o.postTerminate)
	handle("POST /_sim/tags", o.postTags)
	o.adminServices(handle)
	o.adminAzure(mux, handle)
	return localOnly(mux)
}

func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		ip := net.ParseIP(host)
		// A browser page of another origin must not reach the endpoints by way of its user either.
		if err != nil || ip == nil || !ip.IsLoopback() || r.Header.Get("Origin") != "" {
			http.Error(w, "the admin endpoints answer only to this machine", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		var refused *aws.Error
		if errors.As(err, &badRequest{}) || errors.As(err, &refused) {
			status = http.StatusBadRequest
		}
		v = map[string]string{"error": err.Error()}
	}
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A caller that has gone away does not get its answer; there is no one left to tell.
	_, _ = w.Write(append(body, '\n'))
}

// overview is what a person wants to know first.
type overview struct {
	Time      time.Time     `json:"time"`
	Accounts  []aws.Account `json:"accounts"`
	Calls     int           `json:"calls"`
	Faults    int           `json:"faults"`
	Throttled bool          `json:"throttled"`
}

func (o operator) overview() overview {
	return overview{
		Time: o.s.Now(), Accounts: o.s.world.Accounts(), Calls: o.s.journal.Total(),
		Faults: len(o.s.faults.List()), Throttled: o.s.throttle != nil,
	}
}

// getJournal: after=SEQ and action=NAME restrict the answer.
func (o operator) getJournal(r *http.Request) (any, error) {
	after := 0
	if text := r.FormValue("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil {
			return nil, badf("after is %q, expected the sequence number of a call", text)
		}
	}
	calls := o.s.journal.Calls(after)
	action := r.FormValue("action")
	out := make([]ec2.Call, 0, len(calls))
	for _, c := range calls {
		if action == "" || c.Action == action {
			out = append(out, c)
		}
	}
	return out, nil
}

// faultBody is a fault with a delay that people can write.
type faultBody struct {
	ec2.Fault
	Delay string `json:"delay,omitempty"`
}

func faultList(f *ec2.Faults) map[int]faultBody {
	out := map[int]faultBody{}
	for id, fault := range f.List() {
		body := faultBody{Fault: fault}
		if fault.Delay != 0 {
			body.Delay = fault.Delay.String()
		}
		out[id] = body
	}
	return out
}

func (o operator) postFault(r *http.Request) (any, error) {
	var body faultBody
	if err := readJSON(r, &body); err != nil {
		return nil, err
	}
	if body.Action == "" {
		return nil, badf("action is empty, expected the name of an action or *")
	}
	if body.Delay != "" {
		d, err := time.ParseDuration(body.Delay)
		if err != nil {
			return nil, badf("delay is %q, expected a duration such as 2s", body.Delay)
		}
		body.Fault.Delay = d
	}
	return map[string]int{"id": o.s.faults.Add(body.Fault)}, nil
}

func (o operator) deleteFaults(r *http.Request) (any, error) {
	text := r.FormValue("id")
	if text == "" {
		o.s.faults.Clear()
		return nil, nil
	}
	id, err := strconv.Atoi(text)
	if err != nil {
		return nil, badf("id is %q, expected the id of a fault", text)
	}
	o.s.faults.Remove(id)
	return nil, nil
}

func (o operator) postAdvance(r *http.Request) (any, error) {
	d, err := formDuration(r, "by")
	if err != nil {
		return nil, err
	}
	o.s.Advance(d)
	return o.overview(), nil
}

func (o operator) postVisibility(r *http.Request) (any, error) {
	d, err := formDuration(r, "delay")
	if err != nil {
		return nil, err
	}
	o.s.world.SetVisibilityDelay(d)
	return nil, nil
}

// postEffectDelay: delay= is the bound and seed= the seed, 0 without it.
func (o operator) postEffectDelay(r *http.Request) (any, error) {
	bound, err := formDuration(r, "delay")
	if err != nil {
		return nil, err
	}
	d := effect.Delay{Bound: bound}
	if text := r.FormValue("seed"); text != "" {
		if d.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, badf("seed is %q, expected a number from 0", text)
		}
	}
	if err := o.s.world.SetEffects(d); err != nil {
		return nil, badRequest{err}
	}
	return nil, nil
}

func formDuration(r *http.Request, key string) (time.Duration, error) {
	d, err := time.ParseDuration(r.FormValue(key))
	if err != nil || d < 0 {
		return 0, badf("%s is %q, expected a duration such as 90s or 1h", key, r.FormValue(key))
	}
	return d, nil
}

func (o operator) postQuotas(r *http.Request) (any, error) {
	var q aws.Quotas
	if err := readJSON(r, &q); err != nil {
		return nil, err
	}
	account := o.account(r.FormValue("account"))
	if err := o.s.world.SetQuotas(account, q); err != nil {
		return nil, err
	}
	return o.s.world.Quotas(account), nil
}

func (o operator) postPeering(r *http.Request) (any, error) {
	return nil, o.s.world.SetPeeringStatus(r.FormValue("id"), r.FormValue("status"))
}

// account returns the given account, or the first one of the world.
func (o operator) account(id string) string {
	if all := o.s.world.Accounts(); id == "" && len(all) > 0 {
		return all[0].ID
	}
	return id
}

// region returns the given region of the account, or the account's first one.
func (o operator) region(account, name string) (*world.Region, error) {
	account = o.account(account)
	if all := o.s.world.Regions(account); name == "" && len(all) > 0 {
		name = all[0].Name
	}
	return o.s.world.Region(account, name)
}

func readJSON(r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return badf("read the request: %w", err)
	}
	return nil
}
