package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nephele-io/nephele/internal/kinds"
)

// watched returns what the name of a watch stands for.
func watched(name string) (schema.GroupVersionResource, bool) {
	if name == "events" {
		return schema.GroupVersionResource{Version: "v1", Resource: name}, true
	}
	for _, k := range kinds.Of(kinds.Shown) {
		// The name of a resource is not enough where two groups have it.
		if k.Topic == name || k.Topic == "" && k.Resource == name {
			return k.GVR(), true
		}
	}
	return schema.GroupVersionResource{}, false
}

// topic is what a watch is about.
type topic struct {
	name, namespace string
}

// path is where the API server has it.
func (t topic) path() string {
	r, _ := watched(t.name)
	path := "api/" + r.Version
	if r.Group != "" {
		path = "apis/" + r.Group + "/" + r.Version
	}
	if t.namespace != "" && t.name != "namespaces" {
		path += "/namespaces/" + t.namespace
	}
	return path + "/" + r.Resource
}

// topics reads the parameters of a stream.
func topics(q url.Values) ([]topic, *refusal) {
	ns := q.Get("namespace")
	if len(q["namespace"]) > 1 || ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
		return nil, refuse(http.StatusBadRequest, "%q is not the name of a namespace", ns)
	}
	var out []topic
	for _, name := range q["watch"] {
		if _, ok := watched(name); !ok {
			return nil, refuse(http.StatusBadRequest, "there is no watch %q", name)
		}
		if t := (topic{name, ns}); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, refuse(http.StatusBadRequest, "name what to watch: ?watch=NAME")
	}
	return out, nil
}

// stream sends what the person may see, and then what changes, as server-sent events.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, who *session) {
	all, bad := topics(r.URL.Query())
	if bad != nil {
		fail(w, bad)
		return
	}
	select {
	case who.streams <- struct{}{}:
		defer func() { <-who.streams }()
	default:
		fail(w, refuse(http.StatusTooManyRequests, "this session has %d streams open", cap(who.streams)))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Limits.StreamAge)
	defer cancel()
	defer context.AfterFunc(who.ctx, cancel)()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := &events{to: &patient{w: w, time: s.o.Limits.WriteTime, control: control}, flush: control.Flush}
	q := newQueue(s.o.Limits.QueueBytes)
	for _, t := range all {
		defer s.follow(who, t, q)()
	}
	ping := time.NewTicker(s.o.Limits.Ping)
	defer ping.Stop()
	// Told at once, so that the page knows that the stream is there.
	out.event("ping", []byte("{}"))
	for out.err == nil {
		select {
		case <-ctx.Done():
			return
		case <-ping.C:
			s.sessions.keep(who)
			out.event("ping", []byte("{}"))
		case <-q.wake:
			items, whole := q.take()
			if !whole {
				return // it reads too slowly; the browser opens the next stream
			}
			for _, i := range items {
				if !s.send(ctx, who, out, i) {
					return
				}
			}
		}
	}
}

// send writes one item of a queue. False ends the stream.
func (s *Server) send(ctx context.Context, who *session, out *events, i item) bool {
	if !i.list {
		out.event(i.kind, i.data)
		return out.err == nil
	}
	err := s.snapshot(ctx, who, out, i.about)
	if bad := (*refusal)(nil); errors.As(err, &bad) {
		out.event(bad.told(i.about))
		return out.err == nil
	}
	// A snapshot that has begun cannot be taken back: the next stream begins anew.
	return err == nil
}

// events writes server-sent events.
type events struct {
	to    *patient
	flush func() error
	err   error
}

// event writes one event. JSON has no line feeds, as events want it.
func (e *events) event(kind string, data []byte) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, data)
	e.write(b.Bytes())
	if e.err == nil {
		e.err = e.flush()
	}
}

func (e *events) write(b []byte) {
	if e.err == nil {
		_, e.err = e.to.Write(b)
	}
}

// snapshot writes all that there is of a topic as one event, page by page: none of it is kept.
func (s *Server) snapshot(ctx context.Context, who *session, out *events, t topic) error {
	var next string
	for first := true; first || next != ""; first = false {
		p, err := s.list(ctx, who, t, pageSize, next)
		if err != nil && !first {
			return fmt.Errorf("in the middle of %s: %s", t.name, err)
		}
		if err != nil {
			return err
		}
		if first {
			name, _ := json.Marshal(t.name)
			out.write([]byte("event: snapshot\ndata: {\"watch\":" + string(name) + ",\"items\":["))
		}
		for i, o := range p.Items {
			if !first || i > 0 {
				out.write([]byte(","))
			}
			out.write(trimmed(o, p.APIVersion, strings.TrimSuffix(p.Kind, "List")))
		}
		next = p.Metadata.Continue
		if out.err != nil {
			return out.err
		}
	}
	// The version of the list is left out: it counts what everybody changes.
	out.write([]byte("]}\n\n"))
	if out.err == nil {
		out.err = out.flush()
	}
	return out.err
}
