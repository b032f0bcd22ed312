package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// breakGlass is the annotation that releases VMs in an emergency, breakGlassUntil when that ends.
const (
	breakGlass      = "nephele.io/break-glass"
	breakGlassUntil = "nephele.io/break-glass-until"
)

// pass answers a request with what the API server says to the person. Of the browser's request go
// on: the path, the parameters of plainQuery, the media types, and the body.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, who *session) {
	select {
	case who.requests <- struct{}{}:
		defer func() { <-who.requests }()
	default:
		fail(w, refuse(http.StatusTooManyRequests, "this session has %d requests under way", cap(who.requests)))
		return
	}
	c, bad := s.checked(r)
	if bad != nil {
		fail(w, bad)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Limits.RequestTime)
	defer cancel()
	defer context.AfterFunc(who.ctx, cancel)()
	res, err := s.cluster.do(ctx, who.who, c)
	switch {
	case errors.Is(err, errUnknown):
		s.sessions.stop(who)
		fail(w, notWho(err))
		return
	case ctx.Err() != nil:
		fail(w, refuse(http.StatusGatewayTimeout, "the cluster did not answer in %s", s.o.Limits.RequestTime))
		return
	case err != nil:
		s.o.Log.V(1).Info("The cluster does not answer", "error", err.Error())
		fail(w, refuse(http.StatusBadGateway, "the cluster does not answer"))
		return
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusUnauthorized && s.o.Mode == Cluster {
		s.sessions.stop(who) // the token is no longer good
	}
	s.copyAnswer(w, res)
}

// copyAnswer sends an answer on: JSON, warnings, and no other header.
func (s *Server) copyAnswer(w http.ResponseWriter, res *http.Response) {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || res.StatusCode < 200 || res.StatusCode/100 == 3 {
		fail(w, refuse(http.StatusBadGateway, "the cluster answered with something that is no JSON (%d)", res.StatusCode))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	for _, name := range []string{"Warning", "Retry-After"} {
		for _, v := range res.Header[name] {
			h.Add(name, v)
		}
	}
	w.WriteHeader(res.StatusCode)
	// A browser that takes nothing for too long, and an answer without end, are cut off.
	out := &patient{w: w, time: s.o.Limits.WriteTime, control: http.NewResponseController(w)}
	n, err := io.Copy(out, io.LimitReader(res.Body, s.o.Limits.AnswerBytes+1))
	if err != nil || n > s.o.Limits.AnswerBytes {
		panic(http.ErrAbortHandler) // so that the browser does not take a part for the whole
	}
}

// patient gives each write so much time, by the clock of the system, which ends what is late.
type patient struct {
	w       io.Writer
	time    time.Duration
	control *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.time))
	return p.w.Write(b)
}

// checked makes the call of a request, or says why it is not made.
func (s *Server) checked(r *http.Request) (call, *refusal) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/k8s/")
	t, err := parseTarget(path)
	if err != nil {
		return call{}, refuse(http.StatusBadRequest, "%v", err)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return call{}, refuse(http.StatusBadRequest, "parameters: %v", err)
	}
	if bad := permit(r.Method, t, query, s.o.Edit); bad != nil {
		return call{}, bad
	}
	c := call{method: r.Method, path: path, query: query}
	if a := r.Header.Get("Accept"); strings.HasPrefix(a, "application/json;as=") {
		c.accept = a + ",application/json"
	}
	if r.Method == http.MethodGet {
		return c, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return call{}, unread(err)
	}
	c.kind, _, err = mime.ParseMediaType(r.Header.Get("Content-Type"))
	if len(body) > 0 && (err != nil || !bodyKind(r.Method, c.kind)) {
		return call{}, refuse(http.StatusUnsupportedMediaType, "the console does not pass on %s of %q", r.Method, r.Header.Get("Content-Type"))
	}
	dry := query.Get("dryRun") == "All"
	switch {
	case r.Method == http.MethodDelete && dry && len(body) > 0:
		// The API server takes the options of a body in place of the parameters, so that this would
		// be no dry run.
		return call{}, refuse(http.StatusBadRequest, "the dry run of a deletion has no body")
	case r.Method == http.MethodPatch && allowed(schema.GroupResource{Group: t.group, Resource: t.resource})&writes == 0:
		if c.kind != "application/merge-patch+json" {
			return call{}, refuse(http.StatusUnsupportedMediaType, "break-glass is a patch of the kind application/merge-patch+json")
		}
		if body, err = glassPatch(body); err != nil {
			return call{}, refuse(http.StatusForbidden, "of %s the console changes the annotations %s and %s and nothing else: %v", t, breakGlass, breakGlassUntil, err)
		}
	}
	c.body = bytes.NewReader(body)
	return c, nil
}

// bodyKind says whether a body of this media type is passed on.
func bodyKind(method, kind string) bool {
	switch kind {
	case "application/json", "application/yaml":
		return method != http.MethodPatch
	case "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml":
		return method == http.MethodPatch
	}
	return false
}

// glassPatch reads a patch that changes break-glass, and writes it anew, so that the API server
// finds in it what was read here.
func glassPatch(body []byte) ([]byte, error) {
	var patch struct {
		Metadata struct {
			Annotations     map[string]*string `json:"annotations"`
			ResourceVersion string             `json:"resourceVersion,omitempty"`
		} `json:"metadata"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&patch); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	rest := len(patch.Metadata.Annotations)
	for _, key := range []string{breakGlass, breakGlassUntil} {
		if _, ok := patch.Metadata.Annotations[key]; ok {
			rest--
		}
	}
	if _, ok := patch.Metadata.Annotations[breakGlass]; !ok || rest > 0 {
		return nil, errors.New("it is to have the first of these, and no other one")
	}
	return json.Marshal(patch)
}
