package ec2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/nativeapi"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/sqs"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

const (
	serviceEC2 = "ec2"
	serviceSTS = "sts"

	namespaceEC2 = "http://ec2.amazonaws.com/doc/2016-11-15/"
	namespaceSTS = "https://sts.amazonaws.com/doc/2011-06-15/"

	maxBody = 4 << 20
)

// Config is what a Handler is made of. World is required; nil parts are left out.
type Config struct {
	World *simworld.World
	// Clock tells the simulated time: it dates journal entries and ends session keys. nil means
	// time.Now.
	Clock func() time.Time
	// WallClock tells the time that the dates of signatures are judged by: the clients' clock,
	// which does not follow when the simulated time is moved. nil means time.Now.
	WallClock func() time.Time
	// NoAuth accepts any key and signature. A known access key still decides the account; all
	// others act as the first account of the world.
	NoAuth bool
	// Latency is waited before each call is executed.
	Latency  time.Duration
	Throttle *Throttle
	// Queues holds the queues of SQS; nil means that there is no such service.
	Queues  *sqs.Queues
	Faults  *Faults
	Journal *Journal
	// OnCall sees every finished call before its answer leaves, including those whose answer will
	// be lost. An error turns the answer into InternalError. It may be called concurrently.
	OnCall func(context.Context, Call) error
}

// Handler is the http.Handler of the EC2 and STS endpoints; see the package comment.
type Handler struct {
	cfg     Config
	actions map[string]map[string]action // by service, then by name
}

// action executes one call and returns the elements of its answer.
type action func(*request) ([]wire.Element, error)

// request is one authenticated call on its way through an action.
type request struct {
	ctx    context.Context
	params wire.Params
	call   Call
	caller aws.Credential
	world  *simworld.World
	// region is nil for STS calls.
	region *simworld.Region

	// keys are the tag keys of a REST call.
	keys []string
	// body is the JSON body of an SQS or REST call, answer what it is answered with, endpoint the
	// URL that it came to.
	body     []byte
	answer   any
	endpoint string
}

// NewHandler returns a Handler over cfg.World.
func NewHandler(cfg Config) *Handler {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.WallClock == nil {
		cfg.WallClock = time.Now
	}
	if cfg.Faults == nil {
		cfg.Faults = &Faults{}
	}
	if cfg.Journal == nil {
		cfg.Journal = NewJournal(1)
	}
	h := &Handler{cfg: cfg, actions: map[string]map[string]action{serviceEC2: ec2Actions(), serviceSTS: stsActions()}}
	for _, service := range nativeapi.Services() {
		h.actions[service] = h.nativeActions(service)
	}
	if cfg.Queues != nil {
		h.actions[serviceSQS] = h.sqsActions()
	}
	return h
}

// Actions returns how many actions each service knows, by service; for information.
func (h *Handler) Actions() map[string][]string {
	out := map[string][]string{}
	for service, known := range h.actions {
		for name := range known {
			out[service] = append(out[service], name)
		}
	}
	return out
}

// ServeHTTP answers one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	read := readFormCall
	if r.URL.Path != "/" {
		read = readRESTCall
	}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		read = func(r *http.Request) (*request, []byte, error) { return readJSONCall(r, target) }
	}
	req, body, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req.world, req.endpoint, req.call.Time = h.cfg.World, "http://"+r.Host, h.cfg.Clock()
	req.call.Seq = h.cfg.Journal.Next(req.call.Action)

	answer, fault, err := h.process(r, req, body)
	h.finish(req, fault, err)
	// The OnCall hook and an abort come after the journal: a reader of the journal must find the
	// call.
	if h.cfg.OnCall != nil {
		if hookErr := h.cfg.OnCall(req.ctx, req.call); hookErr != nil {
			err = codec.Fail("InternalError", "An internal error has occurred: %v", hookErr)
		}
	}
	if fault.Drop || fault.LoseAnswer {
		// net/http cuts the connection without an answer and without a log line.
		panic(http.ErrAbortHandler)
	}
	h.respond(w, req, answer, err)
}

// readFormCall makes the call of a request in the query protocol.
func readFormCall(r *http.Request) (*request, []byte, error) {
	values, body, err := readForm(r)
	if err != nil {
		return nil, nil, err
	}
	req := &request{ctx: r.Context(), params: wire.NewParams(values)}
	req.call = Call{Action: req.params.String("Action"), Params: req.params.Map(), Agent: r.UserAgent()}
	req.call.Service = serviceByVersion(req.params.String("Version"))
	delete(req.call.Params, "Action")
	delete(req.call.Params, "Version")
	return req, body, nil
}

// readForm returns the parameters of body and query, and the body itself for the signature.
func readForm(r *http.Request) (url.Values, []byte, error) {
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		return nil, nil, fmt.Errorf("method %s is not part of the query protocol", r.Method)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, nil, fmt.Errorf("read the form: %w", err)
	}
	for k, v := range r.URL.Query() {
		values[k] = append(values[k], v...)
	}
	return values, body, nil
}

// process takes a call from the door to its result: authenticate it, disturb it, check its rate,
// run it.
func (h *Handler) process(r *http.Request, req *request, body []byte) ([]wire.Element, Fault, error) {
	if err := h.authenticate(r, req, body); err != nil {
		return nil, Fault{}, err
	}
	run, known := h.actions[req.call.Service][req.call.Action]
	if !known {
		return nil, Fault{}, codec.Fail("InvalidAction", "The action %s is not valid for this web service.", req.call.Action)
	}
	fault := h.cfg.Faults.Strike(req.call)
	if wait(req.ctx, h.cfg.Latency+fault.Delay) != nil {
		// The client has gone, or the server ends: the call is not executed any more.
		fault.Drop = true
	}
	switch {
	case fault.Drop:
		return nil, fault, codec.Fail(CodeDropped, "cut off before execution")
	case fault.Code != "":
		return nil, fault, &codec.APIError{Code: fault.Code, Message: fault.Message, Status: fault.Status}
	case isNative(req.call.Service) && !h.cfg.Throttle.take(h.demand(req)):
		return nil, fault, nativeapi.Throttled(req.call.Service)
	case req.call.Service == serviceEC2 && !h.cfg.Throttle.take(h.demand(req)):
		return nil, fault, codec.Fail("RequestLimitExceeded", "Request limit exceeded.")
	}
	if err := permit(h, req); err != nil {
		return nil, fault, err
	}
	if err := dryRun(req); err != nil {
		return nil, fault, err
	}
	if req.region != nil {
		req.region = req.region.For(h.cause(r, req))
	}
	answer, err := run(req)
	if req.ctx.Err() != nil && errors.Is(err, req.ctx.Err()) {
		// A call that waited was cut off.
		fault.Drop = true
	}
	return answer, fault, err
}

func dryRun(req *request) error {
	if req.call.Service != serviceEC2 {
		return nil
	}
	dry, _, err := req.params.Bool("DryRun")
	if err != nil {
		return err
	}
	if dry {
		return codec.Fail("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	return nil
}

// demand says what the call costs its buckets.
func (h *Handler) demand(req *request) demand {
	d := demand{account: req.call.Account, region: req.call.Region, service: req.call.Service, action: req.call.Action}
	// A describe call with no parameter of its own reads everything.
	d.bare = len(req.call.Params) == 0 && req.call.Service == serviceEC2
	switch req.call.Action {
	case "StartInstances", "StopInstances", "TerminateInstances":
		d.instances = len(req.params.Strings("InstanceId"))
	case "RunInstances":
		// A count that cannot be read is refused later, by the action.
		d.instances, _, _ = req.params.Int("MaxCount")
	}
	return d
}

// finish writes the outcome into the call and files it.
func (h *Handler) finish(req *request, fault Fault, err error) {
	req.call.AnswerLost = fault.LoseAnswer && !fault.Drop
	req.call.Status = http.StatusOK
	if err != nil {
		e := asAPIError(err)
		req.call.Code, req.call.Message, req.call.Status = e.Code, e.Message, e.HTTPStatus()
	} else {
		req.call.Ignored = req.params.Unread()
	}
	h.cfg.Journal.Add(req.call)
}

// asAPIError turns every error of an action into the service's form.
func asAPIError(err error) *codec.APIError {
	err = codec.RequestError(err)
	if api := (*codec.APIError)(nil); errors.As(err, &api) {
		return api
	}
	if refused := (*aws.Error)(nil); errors.As(err, &refused) {
		return &codec.APIError{Code: refused.Code, Message: refused.Message, Status: refused.HTTPStatus}
	}
	if refused := (*sqs.Error)(nil); errors.As(err, &refused) {
		return &codec.APIError{Code: refused.Code, Message: refused.Message}
	}
	return codec.Fail("InternalError", "An internal error has occurred: %v", err)
}

// respond writes the answer or the error in the form of the service.
func (h *Handler) respond(w http.ResponseWriter, req *request, answer []wire.Element, err error) {
	switch {
	case req.call.Service == serviceSQS:
		respondJSON(w, req, err)
		return
	case nativeapi.IsREST(req.call.Service):
		respondREST(w, req, err)
		return
	}
	id := req.call.RequestID()
	status, root := http.StatusOK, wire.Element{}
	if err != nil {
		e := asAPIError(err)
		status, root = e.HTTPStatus(), errorRoot(req.call.Service, e, id)
	} else {
		root = answerRoot(req.call, answer, id)
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", id)
	w.WriteHeader(status)
	// A client that has gone away does not get its answer; there is no one left to tell.
	_, _ = w.Write(wire.Marshal(root))
}

func answerRoot(c Call, answer []wire.Element, id string) wire.Element {
	if c.Service != serviceEC2 {
		root := wire.Node(c.Action+"Response", wire.Node(c.Action+"Result", answer...),
			wire.Node("ResponseMetadata", wire.Text("RequestId", id)))
		root.Attr = namespaceOf(c.Service)
		return root
	}
	root := wire.Node(c.Action+"Response", append([]wire.Element{wire.Text("requestId", id)}, answer...)...)
	root.Attr = namespaceEC2
	return root
}

func errorRoot(service string, e *codec.APIError, id string) wire.Element {
	code, message := wire.Text("Code", e.Code), wire.Text("Message", e.Message)
	if service != serviceEC2 {
		kind := "Sender"
		if e.HTTPStatus() >= http.StatusInternalServerError {
			kind = "Receiver"
		}
		root := wire.Node("ErrorResponse", wire.Node("Error", wire.Text("Type", kind), code, message), wire.Text("RequestId", id))
		root.Attr = namespaceOf(service)
		return root
	}
	return wire.Node("Response", wire.Node("Errors", wire.Node("Error", code, message)), wire.Text("RequestID", id))
}

// namespaceOf is the XML namespace of a service other than EC2.
func namespaceOf(service string) string {
	if service == serviceSTS {
		return namespaceSTS
	}
	return nativeapi.Namespace(service)
}

// wait sleeps; the error is that of the context, if the call or the server ends first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
