package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// pageSize is how many objects one request lists.
	pageSize = 500
	// pageBytes are read of such an answer, and of one event of a watch, at most.
	pageBytes = 64 << 20
	// firstWait and lastWait are how long it takes until a watch that broke is tried again.
	firstWait, lastWait = time.Second, time.Minute
)

// item is something to send: an event, or where list is set a snapshot that is yet to be read.
type item struct {
	list  bool
	about topic
	kind  string
	data  []byte
}

// queue is what waits for one stream.
type queue struct {
	wake chan struct{}
	most int

	mu    sync.Mutex
	items []item
	bytes int
	over  bool
}

func newQueue(most int) *queue { return &queue{wake: make(chan struct{}, 1), most: most} }

// put adds an item. If too much waits, all of it is given up.
func (q *queue) put(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.items, q.bytes = append(q.items, i), q.bytes+len(i.data)+64
		if q.bytes > q.most {
			q.items, q.bytes, q.over = nil, 0, true
		}
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns what waits, and whether nothing was given up.
func (q *queue) take() (items []item, whole bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.items, q.bytes = q.items, nil, 0
	return items, !q.over
}

// feeds are the watches of a session, each of which serves all its streams.
type feeds struct {
	mu  sync.Mutex
	all map[topic]*feed
}

// feed is one watch.
type feed struct {
	about topic
	stop  context.CancelFunc

	mu    sync.Mutex
	to    map[*queue]bool
	ready bool // something was read: a queue that joins gets a snapshot
	// problem is what was said last if nothing could be read yet. A queue that joins is told of it,
	// because it is not said again while it stays the same.
	problem *item
}

// follow has a queue told of a topic until the returned function is called.
func (s *Server) follow(who *session, t topic, q *queue) (leave func()) {
	who.feeds.mu.Lock()
	defer who.feeds.mu.Unlock()
	f := who.feeds.all[t]
	if f == nil {
		ctx, stop := context.WithCancel(who.ctx)
		f = &feed{about: t, stop: stop, to: map[*queue]bool{}}
		if who.feeds.all == nil {
			who.feeds.all = map[topic]*feed{}
		}
		who.feeds.all[t] = f
		if ctx.Err() == nil {
			s.feeding.Go(func() { s.run(ctx, who, f) })
		}
	}
	f.join(q)
	return func() {
		who.feeds.mu.Lock()
		defer who.feeds.mu.Unlock()
		if f.leave(q) {
			f.stop()
			delete(who.feeds.all, t)
		}
	}
}

func (f *feed) join(q *queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to[q] = true
	switch {
	case f.ready:
		q.put(item{list: true, about: f.about})
	case f.problem != nil:
		q.put(*f.problem)
	}
}

// leave says whether nobody is left.
func (f *feed) leave(q *queue) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.to, q)
	return len(f.to) == 0
}

// tell puts an item into all queues. A snapshot says that the feed is ready.
func (f *feed) tell(i item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i.about = f.about
	if f.ready = f.ready || i.list; f.ready {
		f.problem = nil
	} else {
		f.problem = &i
	}
	for q := range f.to {
		q.put(i)
	}
}

// told is the event by which the page learns that something is not to be had: refused, if that is
// for good.
func (r *refusal) told(t topic) (kind string, data []byte) {
	kind = "trouble"
	switch r.code {
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized:
		kind = "refused"
	}
	data, _ = json.Marshal(map[string]string{"watch": t.name, "reason": r.text})
	return kind, data
}

// errExpired is why a watch cannot go on where it was.
var errExpired = errors.New("the version is too old")

// run watches until ctx ends. What the person may not see is tried again now and then: rights
// change.
func (s *Server) run(ctx context.Context, who *session, f *feed) {
	wait, said := firstWait, ""
	for ctx.Err() == nil {
		err := s.watchAnew(ctx, who, f, func() { wait, said = firstWait, "" })
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errUnknown) {
			s.sessions.stop(who)
			return
		}
		bad := refuse(http.StatusBadGateway, "the cluster does not answer")
		if !errors.As(err, &bad) && !errors.Is(err, errExpired) {
			s.o.Log.V(1).Info("A watch broke", "watch", f.about.name, "error", err.Error())
		}
		if bad.code == http.StatusUnauthorized && s.o.Mode == Cluster {
			s.sessions.stop(who)
			return
		}
		kind, data := bad.told(f.about)
		if said != string(data) && !errors.Is(err, errExpired) {
			f.tell(item{kind: kind, data: data})
			said = string(data)
		}
		if kind == "refused" {
			wait = lastWait
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, lastWait)
	}
}

// watchAnew has everybody read a snapshot, and then tells what changes, until that breaks. Works is
// called when the watch is open.
func (s *Server) watchAnew(ctx context.Context, who *session, f *feed, works func()) error {
	p, err := s.list(ctx, who, f.about, 1, "")
	if err != nil {
		return err
	}
	version := p.Metadata.ResourceVersion
	// A reader of a snapshot newer than this version gets some changes twice, and misses none.
	f.tell(item{list: true})
	works()
	for ctx.Err() == nil {
		begun := s.o.Now()
		if version, err = s.watch(ctx, who, f, version); err != nil {
			return err
		}
		if s.o.Now().Sub(begun) < firstWait { // an API server that ends watches at once is not asked at once
			select {
			case <-ctx.Done():
			case <-time.After(firstWait):
			}
		}
	}
	return ctx.Err()
}

// listed is one page of a list.
type listed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// list reads a page of a topic. An error that is a refusal is what the API server says.
func (s *Server) list(ctx context.Context, who *session, t topic, limit int, next string) (listed, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Limits.RequestTime)
	defer cancel()
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if next != "" {
		q.Set("continue", next)
	}
	res, err := s.ask(ctx, who, t, q)
	if err != nil {
		return listed{}, err
	}
	defer func() { _ = res.Body.Close() }()
	var p listed
	if err := json.NewDecoder(io.LimitReader(res.Body, pageBytes)).Decode(&p); err != nil {
		return listed{}, fmt.Errorf("list %s: %w", t.name, err)
	}
	return p, nil
}

// ask reads a topic with parameters; all but success is an error.
func (s *Server) ask(ctx context.Context, who *session, t topic, q url.Values) (*http.Response, error) {
	if t.name == "namespaces" && t.namespace != "" {
		q.Set("fieldSelector", "metadata.name="+t.namespace)
	}
	res, err := s.cluster.do(ctx, who.who, call{method: http.MethodGet, path: t.path(), query: q})
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusGone {
		return nil, errExpired
	}
	var status metav1.Status
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if json.Unmarshal(raw, &status) != nil || status.Message == "" {
		status.Message = res.Status
	}
	return nil, refuse(res.StatusCode, "%s", status.Message)
}

// watch tells what changes after a version, until the API server ends it in order, and returns the
// version from which to go on.
func (s *Server) watch(ctx context.Context, who *session, f *feed, version string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Limits.WatchAge+s.o.Limits.RequestTime)
	defer cancel()
	res, err := s.ask(ctx, who, f.about, url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(max(1, int(s.o.Limits.WatchAge/time.Second)))},
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	bounded := &io.LimitedReader{R: res.Body}
	d := json.NewDecoder(bounded)
	for {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		bounded.N = pageBytes
		if err := d.Decode(&e); err != nil {
			if bounded.N > 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				return version, nil
			}
			return "", fmt.Errorf("watch %s: %w", f.about.name, err)
		}
		switch e.Type {
		case "ADDED", "MODIFIED", "DELETED", "BOOKMARK":
			var o struct {
				Metadata struct {
					ResourceVersion string `json:"resourceVersion"`
				} `json:"metadata"`
			}
			if json.Unmarshal(e.Object, &o) == nil && o.Metadata.ResourceVersion != "" {
				version = o.Metadata.ResourceVersion
			}
			if e.Type != "BOOKMARK" {
				f.tell(item{kind: "change", data: changed(f.about, e.Type, trimmed(e.Object, "", ""))})
			}
		case "ERROR":
			var status metav1.Status
			if json.Unmarshal(e.Object, &status) == nil && status.Code != http.StatusGone {
				return "", refuse(int(status.Code), "%s", status.Message)
			}
			return "", errExpired
		}
	}
}

func changed(t topic, kind string, object []byte) []byte {
	raw, _ := json.Marshal(struct {
		Watch  string          `json:"watch"`
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}{t.name, kind, object})
	return raw
}

// trimmed returns an object without what no page shows. Objects of lists of built-in kinds do not
// say what they are; they get it from the list.
func trimmed(object json.RawMessage, version, kind string) []byte {
	var o, meta, notes map[string]json.RawMessage
	if json.Unmarshal(object, &o) != nil || o == nil {
		return []byte("{}")
	}
	if _, ok := o["kind"]; !ok && kind != "" {
		o["apiVersion"], _ = json.Marshal(version)
		o["kind"], _ = json.Marshal(kind)
	}
	if json.Unmarshal(o["metadata"], &meta) == nil && meta != nil {
		delete(meta, "managedFields")
		if json.Unmarshal(meta["annotations"], &notes) == nil && notes != nil {
			delete(notes, "kubectl.kubernetes.io/last-applied-configuration")
			meta["annotations"], _ = json.Marshal(notes)
		}
		o["metadata"], _ = json.Marshal(meta)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return []byte("{}")
	}
	return bytes.TrimSpace(raw)
}
