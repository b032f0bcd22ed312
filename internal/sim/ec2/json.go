package ec2

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/sqs"
)

// This file is the door of the JSON protocol, which SQS speaks: the action stands in a header, the
// parameters are one JSON object.

const (
	serviceSQS = "sqs"
	targetSQS  = "AmazonSQS."
	jsonType   = "application/x-amz-json-1.0"
)

// readJSONCall makes the call of a request in the JSON protocol.
func readJSONCall(r *http.Request, target string) (*request, []byte, error) {
	action, ok := strings.CutPrefix(target, targetSQS)
	if !ok || r.Method != http.MethodPost {
		return nil, nil, fmt.Errorf("target %q is of no service that is simulated", target)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	req := &request{ctx: r.Context(), params: wire.NewParams(url.Values{}), body: body}
	req.call = Call{Service: serviceSQS, Action: action, Params: map[string]string{}, Agent: r.UserAgent()}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, nil, fmt.Errorf("the body is not a JSON object: %w", err)
	}
	for k, v := range members {
		req.call.Params[k] = plainJSON(v)
	}
	return req, body, nil
}

// plainJSON is a text by itself, and a number, a list or an object as JSON.
func plainJSON(v json.RawMessage) string {
	text := string(v)
	if json.Unmarshal(v, &text) != nil {
		return string(v)
	}
	return text
}

// cause describes the caller of a mutation to the world.
func (h *Handler) cause(r *http.Request, req *request) *aws.Cause {
	source, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		source = r.RemoteAddr
	}
	return &aws.Cause{Request: req.call.RequestID(), Caller: req.caller, Params: req.call.Params, Agent: r.UserAgent(), Source: source}
}

// respondJSON writes an answer, or an error with the code of the query protocol in a header, which
// clients go by.
func respondJSON(w http.ResponseWriter, req *request, err error) {
	status, answer := http.StatusOK, req.answer
	header := w.Header()
	header.Set("Content-Type", jsonType)
	header.Set("X-Amzn-Requestid", req.call.RequestID())
	if err != nil {
		e := asAPIError(err)
		kind := e.Code
		if refused := (*sqs.Error)(nil); errors.As(err, &refused) {
			kind = refused.Type
		}
		status = e.HTTPStatus()
		side := "Sender"
		if status >= http.StatusInternalServerError {
			side = "Receiver"
		}
		header.Set("X-Amzn-Query-Error", e.Code+";"+side)
		answer = map[string]string{"__type": "com.amazonaws.sqs#" + kind, "message": e.Message}
	}
	if answer == nil {
		answer = struct{}{}
	}
	body, encodeErr := json.Marshal(answer)
	if encodeErr != nil {
		http.Error(w, encodeErr.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	// A client that has gone away does not get its answer; there is no one left to tell.
	_, _ = w.Write(body)
}
