package arm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/calls"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	maxBody     = 16 << 20
	maxRecorded = 64 << 10 // of a body, in the journal
	defaultPage = 1000
)

// Config is what a Handler is made of. World is required; nil parts are left out.
type Config struct {
	World *world.World
	// Clock tells the simulated time, by which tokens end. nil means time.Now.
	Clock func() time.Time
	// WallClock tells the time that assertions of clients are judged by. nil means time.Now.
	WallClock func() time.Time
	// NoAuth lets every token act as the first principal.
	NoAuth bool
	// Audiences are what tokens may be for besides the usual names of Resource Manager.
	Audiences []string
	// Latency is waited before each call is executed.
	Latency  time.Duration
	Throttle *Throttle
	Faults   *calls.Faults
	Journal  *calls.Journal
	// PageSize is how many resources a list answers at a time; 0 means 1000.
	PageSize int
	// PollAfter is how long clients are asked to wait between two looks at an operation, in whole
	// seconds; 0 means 1.
	PollAfter time.Duration
	// OnCall sees every finished call before its answer leaves, including those whose answer will
	// be lost. An error turns the answer into InternalServerError. It may be called concurrently.
	OnCall func(context.Context, calls.Call) error
}

// Handler is the http.Handler of login and Resource Manager; see the package comment.
type Handler struct {
	cfg   Config
	login login
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
		cfg.Faults = &calls.Faults{}
	}
	if cfg.Journal == nil {
		cfg.Journal = calls.NewJournal(1)
	}
	if cfg.PageSize <= 0 {
		cfg.PageSize = defaultPage
	}
	cfg.PollAfter = max(cfg.PollAfter, time.Second)
	h := &Handler{cfg: cfg}
	h.login = login{h, sha256.Sum256([]byte("tokens of the simulator"))}
	return h
}

// request is one call on its way.
type request struct {
	*http.Request
	call calls.Call
	body []byte
	by   azure.Principal
	id   document.ID
	// late is what the operation of the call is to fail with; nil if it is not.
	late *document.Error
}

// answer is what a call is answered with.
type answer struct {
	status int
	header http.Header
	body   any // nil for an empty one
}

// action executes one call.
type action func(*request) (answer, error)

// route is what a request turned out to be.
type route struct {
	service string // login, identity, arm or graph
	name    string // the action
	run     action
	// open says that no token is needed.
	open bool
	kind callKind
	id   document.ID
}

const (
	serviceLogin    = "login"
	serviceIdentity = "identity"
	serviceARM      = "arm"
	serviceGraph    = "graph"
)

// ServeHTTP answers one call.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	to, routeErr := h.route(r)
	req := &request{Request: r, body: body, id: to.id}
	req.call = calls.Call{
		Time: h.cfg.Clock(), Service: to.service, Action: to.name, Account: strings.ToLower(to.id.Subscription), Region: "", Params: recorded(r, body, to.service),
		Agent: r.UserAgent(),
	}
	req.call.Seq = h.cfg.Journal.Next(to.name)
	out, fault, err := h.process(req, to, routeErr)
	h.finish(req, fault, out, err)
	if h.cfg.OnCall != nil {
		if hookErr := h.cfg.OnCall(r.Context(), req.call); hookErr != nil {
			err = document.Refuse(http.StatusInternalServerError, "InternalServerError", "Encountered internal server error: %v", hookErr)
		}
	}
	if fault.Drop || fault.LoseAnswer {
		// net/http cuts the connection without an answer and without a log line.
		panic(http.ErrAbortHandler)
	}
	h.respond(w, req, out, err)
}

// recorded is what the journal keeps of a request. Secrets of logins are not kept.
func recorded(r *http.Request, body []byte, service string) map[string]string {
	out := map[string]string{"method": r.Method, "path": r.URL.Path}
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if v := r.Header.Get(name); v != "" {
			out[name] = v
		}
	}
	if (service == serviceARM || service == serviceGraph) && len(body) > 0 && len(body) <= maxRecorded {
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			out["body"] = compact.String()
		}
	}
	return out
}

// process takes a call from the door to its result: authenticate it, disturb it, check its rate,
// run it.
func (h *Handler) process(req *request, to route, routeErr error) (answer, calls.Fault, error) {
	if !to.open {
		by, err := h.login.authenticate(req)
		if err != nil {
			return answer{}, calls.Fault{}, err
		}
		req.by = by
	}
	fault := h.cfg.Faults.Strike(req.call)
	if wait(req.Context(), h.cfg.Latency+fault.Delay) != nil {
		// The client has gone, or the server ends: the call is not executed any more.
		fault.Drop = true
	}
	struck := func() *document.Error {
		e := document.Refuse(fault.Status, fault.Code, "%s", fault.Message)
		if e.Status == 0 {
			e.Status = usualStatus(fault.Code)
		}
		e.RetryAfter = time.Duration(fault.RetryAfter) * time.Second
		return e
	}
	switch {
	case fault.Drop:
		return answer{}, fault, document.Refuse(0, calls.CodeDropped, "cut off before execution")
	case fault.Code != "" && !fault.Late:
		return answer{}, fault, struck()
	case fault.Code != "":
		req.late = struck()
	}
	if routeErr != nil {
		return answer{}, fault, routeErr
	}
	if to.service == serviceARM || to.service == serviceGraph {
		if err := h.cfg.Throttle.take(req, to.kind); err != nil {
			return answer{}, fault, err
		}
		if err := checkVersion(req); err != nil {
			return answer{}, fault, err
		}
	}
	out, err := to.run(req)
	return out, fault, err
}

var apiVersion = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}(-preview|-privatepreview|-beta|-alpha)?$`)

func checkVersion(req *request) error {
	switch v := req.URL.Query().Get("api-version"); {
	case v == "":
		return document.Refuse(http.StatusBadRequest, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.")
	case !apiVersion.MatchString(v):
		return document.Refuse(http.StatusBadRequest, "InvalidApiVersionParameter", "The api-version '%s' is invalid. The supported versions are in the form of a date.", v)
	}
	return nil
}

// usualStatus is the status that a code usually comes with.
func usualStatus(code string) int {
	switch code {
	case "TooManyRequests", "RetryableError", "RetryableErrorDueToAnotherOperation", "SubscriptionRequestsThrottled":
		return http.StatusTooManyRequests
	case "AnotherOperationInProgress", "ScopeLocked", "CanceledAndSupersededDueToAnotherOperation", "MissingSubscriptionRegistration", "Conflict":
		return http.StatusConflict
	case "PreconditionFailed":
		return http.StatusPreconditionFailed
	case "AuthorizationFailed", "LinkedAuthorizationFailed", "RequestDisallowedByPolicy":
		return http.StatusForbidden
	case "ExpiredAuthenticationToken", "InvalidAuthenticationToken", "AuthenticationFailed":
		return http.StatusUnauthorized
	case "ResourceNotFound", "ResourceGroupNotFound", "SubscriptionNotFound", "NotFound":
		return http.StatusNotFound
	case "InternalServerError":
		return http.StatusInternalServerError
	case "ServerTimeout", "ServiceUnavailable":
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// refusal turns every error into the service's form.
func refusal(err error) *document.Error {
	if e := (*document.Error)(nil); errors.As(err, &e) {
		return e
	}
	if e := (*loginError)(nil); errors.As(err, &e) {
		return &document.Error{Status: e.status, Code: e.name, Message: e.description}
	}
	return document.Refuse(http.StatusInternalServerError, "InternalServerError", "Encountered internal server error: %v", err)
}

// finish writes the outcome into the call and files it.
func (h *Handler) finish(req *request, fault calls.Fault, out answer, err error) {
	req.call.AnswerLost = fault.LoseAnswer && !fault.Drop
	req.call.Status = out.status
	if err != nil {
		e := refusal(err)
		req.call.Code, req.call.Message, req.call.Status = e.Code, e.Message, e.Status
	}
	h.cfg.Journal.Add(req.call)
}

// respond writes the answer or the error.
func (h *Handler) respond(w http.ResponseWriter, req *request, out answer, err error) {
	header := w.Header()
	id := req.call.RequestID()
	header.Set("x-ms-request-id", id)
	header.Set("x-ms-correlation-request-id", id)
	header.Set("Cache-Control", "no-cache")
	for k, v := range out.header {
		header[k] = v
	}
	h.cfg.Throttle.headers(req, header)
	if err != nil {
		if login := (*loginError)(nil); errors.As(err, &login) {
			out = answer{status: login.status, body: login.document(id, h.cfg.Clock())}
		} else {
			e := refusal(err)
			out = answer{status: e.Status, body: errorDocument(e)}
			if e.RetryAfter > 0 {
				header.Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Round(time.Second)/time.Second)))
			}
			if e.Status == http.StatusUnauthorized {
				header.Set(
					"WWW-Authenticate",
					fmt.Sprintf(`Bearer authorization_uri="https://%s/%s", error="invalid_token", error_description=%q`, req.Host, req.by.Tenant, e.Message),
				)
			}
			if e.Code == "ResourceNotFound" || e.Code == "ResourceGroupNotFound" {
				header.Set("x-ms-failure-cause", "gateway")
			}
		}
	}
	if out.body == nil {
		w.WriteHeader(out.status)
		return
	}
	raw, err := json.Marshal(out.body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header.Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(out.status)
	// A client that has gone away does not get its answer; there is no one left to tell.
	_, _ = w.Write(raw)
}

func errorDocument(e *document.Error) any {
	inner := map[string]any{"code": e.Code, "message": e.Message}
	if len(e.Details) > 0 {
		inner["details"] = e.Details
	}
	return map[string]any{"error": inner}
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

// decode reads the body of a call.
func (r *request) decode(into any) error {
	if err := json.Unmarshal(r.body, into); err != nil {
		return document.Refuse(http.StatusBadRequest, "InvalidRequestContent", "The request content was invalid and could not be deserialized: '%v'.", err)
	}
	return nil
}
