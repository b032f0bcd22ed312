package ec2

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/nephele-io/nephele/internal/sim/ec2/nativeapi"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// This file joins the APIs of native services, which package nativeapi knows, to the handler.

// nativeActions are the actions of one of these services.
func (h *Handler) nativeActions(service string) map[string]action {
	out := map[string]action{}
	for name, run := range nativeapi.Actions(service) {
		out[name] = func(r *request) ([]wire.Element, error) {
			answer, err := run(r.native(h))
			r.answer = answer.JSON
			return answer.XML, err
		}
	}
	return out
}

// native is the request as package nativeapi takes it.
func (r *request) native(h *Handler) *nativeapi.Call {
	return &nativeapi.Call{Service: r.call.Service, Action: r.call.Action, Params: r.params, Body: r.body, Keys: r.keys, Region: r.region, Now: h.cfg.Clock()}
}

// isNative reports whether a service is one of package nativeapi.
func isNative(service string) bool { return nativeapi.Actions(service) != nil }

// speaks tells the protocol of a service: requests of one protocol cannot be for a service of
// another one, whatever their signature says.
func speaks(service string) string {
	switch {
	case service == serviceSQS:
		return "json"
	case nativeapi.IsREST(service):
		return service // its paths are its own
	}
	return "query"
}

// readRESTCall makes the call of a REST request: path and query are its parameters, and so are the
// members of its body.
func readRESTCall(r *http.Request) (*request, []byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	service, name, values := nativeapi.Route(r.Method, r.URL)
	req := &request{ctx: r.Context(), params: wire.NewParams(values), body: body}
	req.keys = values["tagKeys"]
	req.call = Call{Service: service, Action: name, Params: req.params.Map(), Agent: r.UserAgent()}
	members := map[string]json.RawMessage{}
	// A body that is no object is refused by the action.
	if json.Unmarshal(body, &members) == nil {
		for k, v := range members {
			req.call.Params[k] = plainJSON(v)
		}
	}
	return req, body, nil
}

// restCodes are what REST services call the refusals at the door. It is never written to.
var restCodes = map[string]string{
	"InvalidClientTokenId": "UnrecognizedClientException", "SignatureDoesNotMatch": "InvalidSignatureException",
	"ExpiredToken": "ExpiredTokenException", "MissingAuthenticationToken": "MissingAuthenticationTokenException",
	"IncompleteSignature": "IncompleteSignatureException", "AccessDenied": "AccessDeniedException",
	"InvalidAction": "UnknownOperationException",
}

// respondREST writes an answer as JSON, or an error with its code in a header and in the body,
// under the name that each of the services has for it.
func respondREST(w http.ResponseWriter, req *request, err error) {
	status, answer := http.StatusOK, req.answer
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Requestid", req.call.RequestID())
	if err != nil {
		e := asAPIError(err)
		code := e.Code
		if restCodes[code] != "" {
			code = restCodes[code]
		}
		status = e.HTTPStatus()
		w.Header().Set("X-Amzn-Errortype", code)
		answer = map[string]string{"ErrorCode": code, "Message": e.Message, "Type": "User"}
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
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
